"""What the tests of engines and of the command line share: small experiments, rows to compare, drivers to disturb."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.storing.store import Store
from memgrad.experiments.training.events import Event, Failed, Finished, Lost, Stopped
from memgrad.experiments.training.train import Assignment, train

QUICK = """
problem = "logistic"
examples = 64
batch = 8
steps = 60
seeds = 3
evaluate.times = 5
metrics = ["loss", "step_norm"]
[[methods]]
name = "S"
optimizer = "SGD"
lr = [0.1, 1.0]
[[methods]]
name = "M"
optimizer = "MemSGD"
lr = "best of S"
[[methods]]
name = "R"
optimizer = "Rprop"
lr = 0.01
"""
RUNS = 12
LONG = QUICK.replace("steps = 60", "steps = 800")

Row = tuple[int, str, float]


def rows_of(store: Store) -> dict[str, list[Row]]:
    """All rows of each finished run, in order; and nothing twice."""
    rows = store.read()
    found: dict[str, list[Row]] = {digest: [] for digest in rows.runs}
    for digest, step, metric, value in zip(rows.digest, rows.step, rows.metric, rows.value, strict=True):
        found[str(digest)].append((int(step), str(metric), float(value)))
    for each in found.values():
        each.sort()
        assert len({row[:2] for row in each}) == len(each)
    assert sum(len(header.runs) for header in store.headers().values()) == len(rows.runs)
    return found


class Here:
    """An engine in this process, which trains one run group at a time, a few events per call; it can lose run groups.

    Args:
        loses: Called with an assignment and how often it was started: after how many events it is lost, or None.
    """

    slots = 1

    def __init__(self, loses: Callable[[Assignment, int], int | None] | None = None) -> None:
        self.loses, self.tries, self.assignments = loses or (lambda *_: None), dict[str, int](), list[Assignment]()
        self._key, self._events, self._left, self._stop = "", iter(()), -1, False
        self.closed = False

    def start(self, assignment: Assignment) -> None:
        self._key = assignment.group.key
        self.tries[self._key] = self.tries.get(self._key, 0) + 1
        self.assignments.append(assignment)
        left = self.loses(assignment, self.tries[self._key])
        self._left = -1 if left is None else left
        self._events: Iterator[Event] = train(assignment, assignment.problem_choice.load(), lambda: self._stop)

    def wait(self, seconds: float) -> Sequence[tuple[str, Event]]:
        found: list[tuple[str, Event]] = []
        while len(found) < 3:
            if self._left == 0:
                self._left = -1
                return [*found, (self._key, Lost("its process was killed by SIGKILL"))]
            event = next(self._events, None)
            if event is None:
                break
            self._left -= 1
            found.append((self._key, event))
            if isinstance(event, Finished | Failed | Stopped):
                break
        return found

    def stop(self) -> None:
        self._stop = True

    def close(self) -> None:
        self.closed = True


class Diary:
    """A listener that keeps everything, and may do something when something happens."""

    def __init__(self, act: Callable[[Event], None] | None = None) -> None:
        self.act, self.events, self.starts, self.messages = act, list[Event](), list[int](), list[str]()
        self.begun: list[tuple[int, int]] = []

    def began(self, groups: Sequence[object], finished: int) -> None:
        self.begun.append((sum(len(group.runs) for group in groups), finished))  # type: ignore[attr-defined]

    def started(self, group: object, k: int) -> None:
        self.starts.append(k)

    def happened(self, group: object, event: Event) -> None:
        self.events.append(event)
        if self.act is not None:
            self.act(event)

    def said(self, message: str) -> None:
        self.messages.append(message)


def spec_file(folder: Path, text: str = QUICK, name: str = "spec.toml") -> Path:
    (folder / name).write_text(text)
    Spec.load(folder / name)
    return folder / name


# --- drivers in processes of their own -------------------------------------------------------------------------------

# Python leaves SIGINT ignored where whoever started it ignores it, as a shell does for what runs in its background.
MEMGRAD = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from memgrad.__main__ import main; raise SystemExit(main())",
]


def memgrad(*words: str, cwd: Path, **environment: str) -> subprocess.Popen[str]:
    """A `memgrad` command in a process group of its own."""
    env = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb", **environment}
    return subprocess.Popen(
        [*MEMGRAD, *words],
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_until(
    condition: Callable[[], bool], process: subprocess.Popen[str] | None = None, seconds: float = 300
) -> bool:
    """Wait for a condition; whether it came true before the process ended.

    Patiently: on a machine that is busy with other things, importing torch alone can take a minute.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if process is not None and process.poll() is not None:
            return condition()
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.01)
    return True


def workers_of(pid: int) -> list[int]:
    """The processes that a driver started to train."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [int(child) for child in children if "spawn_main" in _command(int(child))]


def is_running(pid: int) -> bool:
    return "spawn_main" in _command(pid)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()  # empty for one that has ended but is not yet reaped
    except OSError:
        return ""


def files_in(store: Path) -> int:
    """How many checkpoints and chunks a store has."""
    return len([*store.glob("checkpoints/[!.]*.npz"), *store.glob("chunks/[!.]*.parquet")])


def end(process: subprocess.Popen[str]) -> None:
    """End a process of a test, if it still runs."""
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.communicate()
