"""Bad words for every command, found by looking at the commands, and a process that tries them.

`python cli_fuzzing.py FOLDER` reads cases, a JSON list of words per line, and answers each by a line of JSON. It is a
process of its own so that a case that hangs can be killed. Only what takes minutes, waits forever or needs a network is
replaced.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECONDS = 15.0
"""An answer must come within these, of the processor's time: other processes must not make a case fail."""

MEMORY = 6 * 2**30
"""Addresses a case may take, so that one that asks for all of the machine's fails alone."""

SPEC = """
name = "tiny"
problem = "logistic"
examples = 64
steps = 2
seeds = 2
metrics = ["loss"]
evaluate.times = 2
[[methods]]
optimizer = "SGD"
lr = 0.1
[[methods]]
name = "memory"
optimizer = "MemSGD"
memory = "poly:2"
lr = 0.1
"""

FILES: dict[str, bytes] = {
    "spec.toml": SPEC.encode(),
    "broken.toml": b"problem = [[[",
    "wrong.toml": b"problem = 3\n[[methods]]\nlr = 'x'\n",
    "deep.toml": b"a = " + b"[" * 5000,
    "unknown.toml": SPEC.replace("logistic", "no-such-problem").encode(),
    "latin.toml": "name = 'é'".encode("latin-1"),
    "binary.bin": bytes(range(256)) * 8,
    "empty": b"",
    "raises.py": b"raise RuntimeError('from the file')\n",
    "syntax.py": b"def (\n",
    "number.py": b"problem = 3\n",
}

LONG = "a" * 5000
DIGITS = "9" * 5000
NUMBERS = (
    *("-1", "0", "1.5", "nan", "inf", "-inf", "1e308", "-1e308", "1e-320", "1e30", str(10**30), DIGITS, "0x10"),
    *("1_000", "1,2", "²", "1e", "true", "None"),
)
WORDS = (
    *(
        "",
        " ",
        "nope",
        "日本-ünï",
        "\udcff",
        "\x01\x1b[31m\x7f",
        "[bold]x[/nope]",
        "$x_{$",
        "%s{}",
        LONG,
        "-",
        "--",
        "*",
    ),
    *("~nobody", "a\nb", "a:b:c", "::", "x.py:", ":x"),
)
# In /proc nothing can be made, not even by root; no place outside of the folder that can be written may be named here.
PLACES = (
    *(".", "/proc/no/such", "/proc/no/such.png", "/proc/no/such.csv", "empty/x.png", "empty/x.csv", "out.gif"),
    *("new/x.png", "x.svg/", "directory", f"{LONG[:300]}.png", *FILES),
)
MEMORIES = (
    *("poly:", "poly:nan", "poly:inf", "poly:-2", "poly:0", "poly:1e308", "poly:1e-320", "poly:2,3", "poly:p=2,p=3"),
    *("poly:q=1", "exp:0", "exp:1", "exp:0.9,h=0", "exp:alpha=1e308", "decays:", "decays:0,2", "decays:nan", "log:0"),
    *("stretch:0", "stretch:1e308", "power:0", "power:nan", "p=", "p=e,beta=2", "sampled", "inst:1", "log:h=1e300"),
    *("inst + ", "5*", "0/t", "nan/t", "1e400/t", "3/t/t", "3/s"),
)
OBJECTIVES = (
    *("quadratic:", "quadratic:nan", "quadratic:-1", "quadratic:1e308", f"quadratic:{'1,' * 99}x", "huber:0"),
    *("constant:inf", "powerlaw:1e9,1", "powerlaw:1,0.5,dimension=1e9", "powerlaw:1,0.5,dimension=1e30", "su:3"),
    *("quartic:dimension=0", "quartic:sigma=nan"),
)
ARGUMENTS = (
    *("degree", "degree=", "=2", "degree=nan", "degree=inf", "degree=1e308", "degree=-1", "degree=2,3", "t=", "t=1,,2"),
    *("t=-1", "t=1e308", "t=nan", "noise=none", "dimension=1.5", "dimension=1e308", "dimension=inf", "distance=1e200"),
    *("unknown=1", "t=1=2"),
)

VALUES = (*NUMBERS, *WORDS, *PLACES)
OF_PARAMETER: dict[tuple[str, str], tuple[str, ...]] = {
    ("passport", "memory"): MEMORIES,
    ("simulate", "flow"): MEMORIES,
    ("explore", "memory"): MEMORIES,
    ("risk", "methods"): MEMORIES,
    ("plot memories", "memory"): MEMORIES,
    ("simulate", "objective"): OBJECTIVES,
    ("bound", "values"): ARGUMENTS,
}
"""Values that look right, for parameters with a language of their own."""

GOOD: dict[str, dict[str, tuple[str, ...]]] = {
    "passport": {"memory": ("poly:2",)},
    "simulate": {"flow": ("poly:2",), "until": ("1",), "paths": ("4",), "dt": ("0.1",)},
    "risk": {"methods": ("inst",), "steps": ("20",)},
    "design": {"steps": ("16",), "iterations": ("2",)},
    "spectrum": {
        "problem": ("least-squares",),
        "steps": ("2",),
        "rows": ("20",),
        "probes": ("2",),
        "lanczos": ("3",),
        "seeds": ("1",),
        "force": (),
    },
    "bound": {"name": ("polynomial",), "values": ("degree=3", "distance=1", "noise=0", "dimension=2", "t=1")},
    "check": {"problem": ("logistic",)},
    "plan": {"spec": ("spec.toml",)},
    "run": {"spec": ("spec.toml",), "quiet": ()},
    "compare": {"spec": ("spec.toml",), "store": ("store",)},
    "tune": {"problem": ("spec.toml",), "runs": ("1",), "budget": ("1s",), "store": ("store",), "quiet": ()},
    "ls": {"store": ("store",)},
    "export": {"out": ("rows.csv",), "store": ("store",)},
    "gc": {"store": ("store",), "dry_run": ()},
    "reproduce": {"names": ("S1",)},
    "report": {"store": ("store",)},
    "data get": {"name": ("mnist",)},
    "data path": {"name": ("mnist",)},
}
"""Words with which a command succeeds or is about to; a command that is not here is tried without any."""


@dataclass(frozen=True)
class Case:
    """One call: a command, what is wrong, and all words."""

    command: str
    parameter: str
    value: str
    words: tuple[str, ...]


def leaves(group: Any, *before: str) -> Iterator[tuple[str, Any]]:
    """All commands with their names, groups of commands opened."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, *before, name)
        else:
            yield " ".join((*before, name)), command


def all_commands() -> dict[str, Any]:
    from typer.main import get_command

    from memgrad.cli import app

    return dict(leaves(get_command(app)))


def call(name: str, command: Any, given: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The words of a call with these words for its parameters."""
    words, arguments = [], []
    for parameter in command.params:
        if parameter.name not in given:
            continue
        values = given[parameter.name]
        if parameter.param_type_name == "argument":
            arguments += values
        elif parameter.is_flag:
            words += [parameter.opts[-1] + "".join(f"={value}" for value in values)]
        else:
            for value in values:
                words += [f"{parameter.opts[-1]}={value}"] if value.startswith("-") else [parameter.opts[-1], value]
    dashes = ["--"] if any(word.startswith("-") and word != "--" for word in arguments) else []
    return (*name.split(), *words, *dashes, *arguments)


def single_cases() -> list[Case]:
    """Every value for every parameter of every command, one at a time, and what is wrong with the call itself."""
    found = []
    for name, command in all_commands().items():
        good = GOOD.get(name, {})
        for parameter in command.params:
            own = OF_PARAMETER.get((name, parameter.name), ())
            for value in (*VALUES, *own) if not getattr(parameter, "is_flag", False) else ("", "nope", "1e308"):
                if value == "--" and parameter.param_type_name == "argument":
                    continue  # which only says that no options follow
                more = (*good.get(parameter.name, ()), value) if value in ARGUMENTS else (value,)
                found.append(Case(name, parameter.name, value, call(name, command, {**good, parameter.name: more})))
            if parameter.param_type_name != "argument" and not parameter.is_flag:
                words = (*call(name, command, good), parameter.opts[-1])
                found.append(Case(name, parameter.name, "(nothing)", words))
        words = call(name, command, good)
        found.append(Case(name, "(call)", "unknown option", (*words, "--no-such-option")))
        found.append(Case(name, "(call)", "too many words", (*words, *["[x]"] * 50)))
    return found


def sampled(cases: Sequence[Case], each: int, seed: int) -> list[Case]:
    """So many values for each parameter of each command, drawn at random."""
    draw = random.Random(seed)
    groups: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.command, case.parameter), []).append(case)
    return [case for group in groups.values() for case in draw.sample(group, min(each, len(group)))]


def pair_cases(count: int, seed: int) -> list[Case]:
    """Two bad values at once, drawn at random."""
    draw = random.Random(seed)
    commands = all_commands()
    found = []
    for _ in range(count):
        name = draw.choice(list(commands))
        parameters = [p for p in commands[name].params if not getattr(p, "is_flag", False)]
        if not parameters:
            continue
        chosen = draw.sample(parameters, min(2, len(parameters)))
        given = {p.name: (draw.choice((*VALUES, *OF_PARAMETER.get((name, p.name), ()))),) for p in chosen}
        words = call(name, commands[name], {**GOOD.get(name, {}), **given})
        found.append(Case(name, "+".join(given), "+".join(v[0][:20] for v in given.values()), words))
    return found


# --- the process that tries them -------------------------------------------------------------------------------------


class TooLong(BaseException):
    """A case that has taken too long: no `except Exception` takes it for something else."""


def replace_what_takes_long() -> None:
    """Put quick stand-ins where the work begins that a call would wait for: training, drawing, browsers, downloads."""
    import webbrowser
    from socketserver import BaseServer

    import typer
    from matplotlib.figure import Figure

    import memgrad.cli.experiments
    import memgrad.cli.reproduce
    from memgrad import problems
    from memgrad.experiments.planning import preview
    from memgrad.paper import figures as paper_figures
    from memgrad.paper import reproduction
    from memgrad.paper.catalogue import FIGURES
    from memgrad.problems import datasets

    def reached(*_: Any, **__: Any) -> Any:
        raise typer.Exit(0)

    def drawn(settings: Any, _: Any) -> Any:
        return paper_figures.Picture(Figure(figsize=(1, 1)), {"x": [0.0]}, settings)

    def engine(name: str, workers: int | None, address: str | None) -> Any:
        made = reached() if name == "ray" else chosen(name, workers, address)
        made.close()
        return Here()

    chosen = memgrad.cli.experiments.chosen_engine
    for module in (memgrad.cli.experiments, memgrad.cli.reproduce):
        module.chosen_engine = engine  # type: ignore[attr-defined]
    preview.SECONDS = 0.01
    problems.check_problem = reached
    with contextlib.suppress(ImportError):  # it makes a user's problem in processes of their own
        rebuild: Any = importlib.import_module("memgrad.problems.rebuild")
        rebuild._repeated, rebuild.check_problem = (lambda *_: None), reached
    datasets.get = reached
    reproduction._Reproducing.carry_out = reached  # type: ignore[method-assign]
    for entry in FIGURES.values():
        if entry.settings is not None:
            module_name, _, function = entry.drawn_by.partition(".")
            setattr(importlib.import_module(f"memgrad.paper.{module_name}"), function, drawn)
    webbrowser.open = lambda *_, **__: True
    BaseServer.serve_forever = lambda *_, **__: None  # type: ignore[method-assign]


class Here:
    """An engine that trains in this process."""

    slots = 1

    def __init__(self) -> None:
        self._events: list[Any] = []

    def start(self, assignment: Any) -> None:
        from memgrad.experiments.training.train import train

        self._events += [
            (assignment.group.key, event)
            for event in train(assignment, assignment.problem_choice.load(), lambda: False)
        ]

    def wait(self, seconds: float) -> list[Any]:
        found, self._events = self._events, []
        return found

    def stop(self) -> None: ...

    def close(self) -> None: ...


def _raises() -> None:
    raise RuntimeError("a fault")


def _hangs() -> None:
    while True:
        pass


def _exits() -> None:
    os._exit(3)


def _litters() -> None:
    Path("litter").touch()
    raise SystemExit(1)


def _accepts() -> None:
    pass


BROKEN: dict[str, Callable[[], None]] = {
    "raises": _raises,
    "hangs": _hangs,
    "exits": _exits,
    "litters": _litters,
    "accepts": _accepts,
}
"""Commands with the faults that are looked for, to see that they are found."""


def prepared(folder: Path) -> Path:
    """A folder with all files that cases name, and a store with the rows of the valid experiment."""
    made = folder / "made"
    (made / "directory").mkdir(parents=True)
    for name, content in FILES.items():
        (made / name).write_bytes(content)
    from tiny_runs import chunk_from

    from memgrad.experiments.driver import results_of
    from memgrad.experiments.planning.spec import Spec
    from memgrad.experiments.storing.store import Store

    store = Store.open(made / "store")
    store.write(chunk_from([*results_of(Spec.load(made / "spec.toml"), store).missing()]))
    return made


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """All files below a folder, with what tells whether they were changed."""
    return {
        str(path.relative_to(folder)): (path.lstat().st_size, path.lstat().st_mtime_ns if path.is_file() else 0)
        for path in sorted(folder.rglob("*"))
    }


def tried(words: Sequence[str], command: Any, made: Path, place: Path) -> dict[str, Any]:
    """What became of a call: its status, the exception if it ended by one, its time, and the files it left."""

    def alarm(*_: object) -> None:
        raise TooLong

    if not place.exists():
        shutil.copytree(made, place, copy_function=shutil.copy2)
    os.chdir(place)
    before = listing(place)
    # As in a process of its own: what cannot be encoded fails on the standard output, and is escaped on the other one.
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", errors=how) for how in ("strict", "backslashreplace"))
    status, fault, began = 0, "", time.monotonic()
    signal.signal(signal.SIGPROF, alarm)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings(record=True), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            command.main(list(words), prog_name="memgrad")
    except SystemExit as end:
        status = int(end.code or 0)
    except TooLong:
        status, fault = -1, f"no answer within {SECONDS:g} s"
    except BaseException as error:
        status, fault = 1, "".join(traceback.format_exception(error)[-3:])
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    seconds = time.monotonic() - began
    after = listing(place)
    left = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    if left:
        shutil.rmtree(place)
    for stream in (out, err):
        stream.flush()
        stream.seek(0)
    announced = out.read()
    left = [name for name in left if f"wrote {name}" not in announced]
    return {"status": status, "fault": fault, "said": err.read()[-2000:], "left": left, "seconds": seconds}


def main(folder: Path) -> None:
    """Try what comes in."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a library that prints by itself must not disturb the answers
    place = folder / "place"
    for name in ("MEMGRAD_STORE", "MEMGRAD_DATA", "COLUMNS"):
        os.environ.pop(name, None)
    os.environ |= {
        "MEMGRAD_CACHE": str(folder / "cache"),
        "HOME": str(folder / "home"),
        "TMPDIR": str(place),
        "NO_COLOR": "1",
    }
    made = prepared(folder)
    replace_what_takes_long()
    with contextlib.suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    from typer.main import get_command

    from memgrad.cli import app

    for name, broken in BROKEN.items() if "--broken" in sys.argv else ():
        app.command(name)(broken)
    command = get_command(app)
    for words in (["run", "spec.toml", "--quiet"], ["simulate", "poly:2", "--figure", "x.png"]):
        tried(words, command, made, place)  # what is imported when it is needed is there from now on
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(tried(json.loads(line), command, made, place)), file=answers, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
