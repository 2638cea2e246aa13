"""Experiments on a real Ray cluster of two nodes, both on this machine, and what kills do to them."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from engine_trials import Here
from torch import nn

from memgrad.experiments.driver import Outcome, Silent, execute
from memgrad.experiments.planning.problem_choice import ProblemChoice, facts_about
from memgrad.experiments.planning.recipe import Recipe, optimizer_class
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.storing.store import Store
from memgrad.experiments.training.engines import parcel
from memgrad.experiments.training.engines import ray as engine_module
from memgrad.experiments.training.engines.local import LocalEngine
from memgrad.experiments.training.engines.parcel import pack, pack_code, unpack, unpack_code
from memgrad.experiments.training.engines.ray import RayEngine
from memgrad.experiments.training.events import Lost, Saved
from memgrad.problems import Problem

# Before Ray is imported, which reads it then: a token for these clusters alone, and none left in the home folder.
os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
ray = pytest.importorskip("ray", reason="needs Ray: pip install 'memgrad[ray]'")

pytestmark = [
    # Ray leaves sockets and log files to the garbage collector when it is shut down; nothing of ours.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

FASHION = """
name = "fashion"
problem = "fashion-mlp"
sample = true
steps = 30
seeds = 2
[evaluate]
times = 4
[[methods]]
optimizer = "SGD"
lr = [0.1, 0.03]
[[methods]]
optimizer = "MemSGD"
memory = "poly:2"
lr = "best of SGD"
"""

OWN = """
name = "own"
problem = "own.py:problem"
steps = 300
seeds = 2
[evaluate]
times = 4
[[methods]]
optimizer = "SGD"
lr = [0.1, 0.03]
"""

# A problem that takes its time, and code beside it. Each time it is made, a line says by which process.
OWN_FILES = {
    "own_model.py": """
from torch import nn


class Model(nn.Linear):
    pass
""",
    "own.py": """
import os
import time
from pathlib import Path

import torch
from own_model import Model

from memgrad.problems import Problem

HERE = Path(__file__).parent
calls = 0


def loss(outputs, targets):
    global calls
    calls += 1
    time.sleep(0.005)
    if calls == 100 and (HERE / "die").exists():
        (HERE / "die").unlink(missing_ok=True)
        os.kill(os.getpid(), 9)
    if (outputs.abs() > 1e3).any():
        raise ArithmeticError("too large")
    return (outputs[:, 0] - targets).square().mean()


def problem():
    with (HERE / "made_by").open("a") as file:
        file.write(f"{os.getpid()}\\n")
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(200, 5, generator=generator)
    return Problem("own", (inputs, inputs.sum(1)), lambda: Model(5, 1), loss, metrics={"error": lambda o, t: o[:, 0]})
""",
}

Rows = dict[str, list[tuple[Any, ...]]]


class Two:
    """Two nodes of one core each; the second can be killed, and another takes its place."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        # Death is noticed after two seconds of silence, not fifteen.
        soon = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 4}
        self._cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 1, "include_dashboard": False, "_system_config": soon, **MEMORY},
        )
        self.address: str = self._cluster.address
        self._second = self._cluster.add_node(num_cpus=1, **MEMORY)

    def kill_second(self) -> None:
        self._cluster.remove_node(self._second, allow_graceful=False)

    def replace_second(self) -> None:
        self._second = self._cluster.add_node(num_cpus=1, **MEMORY)

    def shutdown(self) -> None:
        self._cluster.shutdown()


MEMORY = {"object_store_memory": 100 << 20}


@pytest.fixture(scope="module")
def two() -> Iterator[Two]:
    cluster = Two()
    ray.init(cluster.address, log_to_driver=False)  # once: every new driver has new workers, which load torch
    yield cluster
    ray.shutdown()
    cluster.shutdown()


class Witness(Silent):
    """Remembers what happened, and lets a test meddle."""

    def __init__(self, meddle: Callable[[Witness], None] | None = None) -> None:
        self.starts: list[int] = []
        self.lost: list[str] = []
        self.saved: set[str] = set()
        self.heard: set[str] = set()
        self._meddle = meddle

    def started(self, group: Any, k: int) -> None:
        self.starts.append(k)
        self._look()

    def happened(self, group: Any, event: Any) -> None:
        if isinstance(event, Lost):
            self.lost.append(event.reason)
        if isinstance(event, Saved):
            self.saved.add(group.key)
        self.heard.add(group.key)
        self._look()

    def _look(self) -> None:
        if self._meddle is not None:
            self._meddle(self)


def own_spec(folder: Path, text: str = OWN) -> Spec:
    folder.mkdir(exist_ok=True)
    sys.modules.pop("own_model", None)  # that of another test
    for name, content in OWN_FILES.items():
        (folder / name).write_text(content)
    (folder / "spec.toml").write_text(text)
    return Spec.load(folder / "spec.toml")


def rows(store: Store) -> list[tuple[Any, ...]]:
    """Every row, also one that is there twice, with the bits of its value."""
    import pyarrow.parquet as pq

    found = []
    for path in sorted((store.path / "chunks").glob("*.parquet")):
        table = pq.read_table(path, columns=["digest", "step", "metric", "value"]).to_pydict()
        found += list(zip(table["digest"], table["step"], table["metric"], map(float.hex, table["value"]), strict=True))
    return sorted(found)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """The rows of the local engine, undisturbed."""
    found = {}
    for spec in (Spec.parse(FASHION), own_spec(tmp_path_factory.mktemp("local") / "own")):
        store = Store.open(tmp_path_factory.mktemp("store"))
        assert execute(spec, store, LocalEngine(1)).complete
        found[spec.name] = rows(store)
    return found


def run_on(two: Two, spec: Spec, store: Store, witness: Witness | None = None, **options: Any) -> Outcome:
    return execute(spec, store, RayEngine(two.address), listener=witness, **options)


# --- the same rows ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_rows_are_those_of_the_local_engine_bit_by_bit(two: Two, tmp_path: Path, expected: Rows) -> None:
    spec, store = Spec.parse(FASHION), Store.open(tmp_path / "ray")
    outcome = run_on(two, spec, store)
    assert outcome.complete
    assert outcome.trained == 6
    assert rows(store) == expected["fashion"]


@pytest.mark.slow
def test_a_users_problem_travels_and_is_loaded_by_the_driver_alone(two: Two, tmp_path: Path, expected: Rows) -> None:
    spec = own_spec(tmp_path / "own")

    def hide(witness: Witness) -> None:
        for name in OWN_FILES:  # workers could find it on this machine, but not on others
            (tmp_path / "own" / name).unlink(missing_ok=True)

    store = Store.open(tmp_path / "ray")
    outcome = run_on(two, spec, store, Witness(hide))
    assert outcome.failed == {}
    assert rows(store) == expected["own"]
    assert set((tmp_path / "own" / "made_by").read_text().split()) == {str(os.getpid())}


@pytest.mark.slow
def test_workers_see_the_data_in_shared_memory(two: Two) -> None:
    @ray.remote
    def look(sent: Any, *arrays: Any) -> list[tuple[bool, ...]]:
        problem = unpack(sent, arrays)
        data = (*problem.train, *problem.test)
        return [
            (a.flags.owndata, a.flags.writeable, t.data_ptr() == a.ctypes.data)
            for a, t in zip(arrays, data, strict=True)
        ]

    packed, arrays = pack(ProblemChoice("fashion-mlp", sample=True))
    seen = ray.get(look.remote(packed, *[ray.put(array) for array in arrays]))
    assert seen == [(False, False, True)] * 4


@pytest.mark.slow
def test_the_cluster_has_as_many_slots_as_cores_unless_fewer_are_asked_for(two: Two) -> None:
    for workers, slots in ((None, 2), (1, 1), (64, 2)):
        engine = RayEngine(two.address, workers)
        assert engine.slots == slots
        engine.close()


# --- kills -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_node_that_dies_loses_nothing(two: Two, tmp_path: Path, expected: Rows) -> None:
    spec = own_spec(tmp_path / "own")
    killed: list[bool] = []

    def kill(witness: Witness) -> None:
        if len(witness.saved) >= 2 and not killed:  # two run groups are under way, one on each node
            killed.append(True)
            two.kill_second()

    store, witness = Store.open(tmp_path / "ray"), Witness(kill)
    try:
        outcome = run_on(two, spec, store, witness, save_every=0.2)
    finally:
        two.replace_second()
    assert outcome.complete
    assert len(witness.lost) == 1
    assert max(witness.starts) > 0  # from its checkpoint
    assert rows(store) == expected["own"]


@pytest.mark.slow
def test_a_worker_that_is_killed_loses_nothing(two: Two, tmp_path: Path, expected: Rows) -> None:
    spec = own_spec(tmp_path / "own")
    (tmp_path / "own" / "die").touch()
    store, witness = Store.open(tmp_path / "ray"), Witness()
    outcome = run_on(two, spec, store, witness, save_every=0.2)
    assert outcome.complete
    assert len(witness.lost) in (1, 2)  # two may meet at the same moment
    assert "killed" in witness.lost[0]
    assert max(witness.starts) > 0
    assert rows(store) == expected["own"]


@pytest.mark.slow
@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
def test_a_driver_that_ends_early_goes_on_when_it_is_called_again(
    two: Two, tmp_path: Path, expected: Rows, by: signal.Signals
) -> None:
    spec = own_spec(tmp_path / "own")
    command = [sys.executable, "-m", "memgrad", "run", str(tmp_path / "own" / "spec.toml"), "--engine", "ray"]
    command += ["--address", two.address, "--store", str(tmp_path / "ray"), "--save-every", "0.2", "--json"]
    process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        while not list(tmp_path.glob("ray/checkpoints/*.npz")):
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.send_signal(by)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    if by is signal.SIGTERM:
        assert process.returncode == 130
        assert json.loads(out)["interrupted"]
    store, witness = Store.open(tmp_path / "ray"), Witness()
    assert run_on(two, spec, store, witness).complete
    assert max(witness.starts) > 0
    assert rows(store) == expected["own"]


@pytest.mark.slow
def test_stopping_is_answered_by_checkpoints(two: Two, tmp_path: Path) -> None:
    endless = OWN.replace("300", "300_000")  # on a busy machine the first run would end before the second starts
    spec, store = own_spec(tmp_path / "own", endless), Store.open(tmp_path / "ray")

    signals = []

    def terminate(witness: Witness) -> None:
        # Both must have been heard of: a worker may take longer to start than the driver waits for checkpoints.
        if len(witness.heard) == 2 and not signals:
            signals.append(signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)

    outcome = run_on(two, spec, store, Witness(terminate), save_every=1e9)
    assert outcome.interrupted
    assert len(store.checkpoints()) == 2


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_error_in_a_users_code_fails_its_runs_and_is_not_tried_again(
    two: Two, tmp_path: Path, expected: Rows
) -> None:
    text = OWN.replace("300", "30").replace("[0.1, 0.03]", "[0.1, 1000]")
    store, witness = Store.open(tmp_path / "ray"), Witness()
    outcome = run_on(two, own_spec(tmp_path / "own", text), store, witness)
    assert set(outcome.failed.values()) == {"ArithmeticError: too large"}
    assert (len(outcome.failed), outcome.trained, len(witness.starts)) == (2, 2, 4)


@pytest.mark.slow
def test_a_problem_that_cannot_be_sent_is_made_by_its_name(
    two: Two, tmp_path: Path, expected: Rows, caplog: pytest.LogCaptureFixture
) -> None:
    spec = own_spec(tmp_path / "own")
    path = tmp_path / "own" / "own.py"
    text = path.read_text().replace("calls = 0", "calls = 0\nlock = __import__('threading').Lock()")
    path.write_text(text.replace("    calls += 1", "    calls += bool(lock)"))
    store = Store.open(tmp_path / "ray")
    assert run_on(two, spec, store).complete
    # Its source differs, and so do the digests.
    assert sorted(row[1:] for row in rows(store)) == sorted(row[1:] for row in expected["own"])
    assert "cannot be sent to other processes" in caplog.text
    assert "on every machine" in caplog.text


@pytest.mark.parametrize(
    ("address", "workers", "kind", "message"),
    [
        (None, 0, ValueError, "at least 1, got 0"),
        ("ray://head:10001", None, ValueError, "ray job submit"),
        ("head", None, ValueError, "'auto' or host:port.*got 'head'"),
        ("head:port", None, ValueError, "'auto' or host:port"),
    ],
)
def test_what_cannot_be_is_refused(address: str | None, workers: int | None, kind: type, message: str) -> None:
    with pytest.raises(kind, match=message):
        RayEngine(address, workers)


def test_a_cluster_that_does_not_answer_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"  # bound, but nobody listens
        began = time.monotonic()
        with pytest.raises(OSError, match=f"{address}.*ray start --head"):
            RayEngine(address)
    assert time.monotonic() - began < engine_module.REACH + 5


@pytest.mark.slow
def test_a_cluster_that_was_joined_before_is_used_and_left_as_it_was(two: Two) -> None:
    with pytest.raises(ValueError, match=r"has already joined the Ray cluster .* got the address '127.0.0.1:1'"):
        RayEngine("127.0.0.1:1")
    for address in (None, "auto", two.address):
        RayEngine(address).close()
        assert ray.is_initialized()


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memgrad.extras.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"--engine ray needs ray, .*pip install 'memgrad\[ray\]'"):
        RayEngine()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("OutOfMemoryError", "ran out of memory, and Ray killed it"),
        ("WorkerCrashedError", "was killed"),
        ("NodeDiedError", "machine is down"),
        ("RaySystemError", "RaySystemError"),
    ],
)
def test_losses_are_told_in_words(error: str, said: str) -> None:
    kind = getattr(ray.exceptions, error)
    assert said in engine_module._cause(kind() if error == "WorkerCrashedError" else kind("whatever Ray says"))


# --- a cluster of its own --------------------------------------------------------------------------------------------

ALONE = """
import signal, sys
from memgrad.experiments.driver import execute
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.storing.store import Store
from memgrad.experiments.training.engines.ray import RayEngine
before = signal.getsignal(signal.SIGTERM)
engine = RayEngine(None, 1)
import ray
names = [name for name in ray.cluster_resources() if name.startswith("node:")]
print(engine.slots, signal.getsignal(signal.SIGTERM) == before, sorted(names))
print(execute(Spec.parse(sys.argv[1]), Store.open(sys.argv[2]), engine).complete)
engine.close()
print(ray.is_initialized())
"""


def test_a_cluster_of_its_own_trains_the_same_rows_on_loopback_leaves_nothing_and_is_quiet(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    found = subprocess.run(
        [sys.executable, "-c", ALONE, FASHION, str(tmp_path / "ray")],
        env={**clean, "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert found.stdout.splitlines() == ["1 True ['node:127.0.0.1', 'node:__internal_head__']", "True", "False"]
    assert found.stderr == ""
    assert list(home.iterdir()) == []
    here = Store.open(tmp_path / "here")
    assert execute(Spec.parse(FASHION), here, Here()).complete
    assert rows(Store(tmp_path / "ray")) == rows(here)


# --- parcels, without a cluster --------------------------------------------------------------------------------------


def a_problem(inputs: torch.Tensor, targets: torch.Tensor, **options: Any) -> Problem:
    return Problem("a", (inputs, targets), lambda: nn.Linear(3, 1), nn.functional.mse_loss, **options)


def sent(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> tuple[Problem, int]:
    """The problem after its travel, and the number of its arrays."""
    monkeypatch.setattr(ProblemChoice, "load", lambda self: problem)
    packed, arrays = pack(ProblemChoice("a"))
    for array in arrays:
        array.flags.writeable = False  # as Ray's are
    return unpack(packed, arrays), len(arrays)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int64])
def test_data_arrive_as_they_were(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = torch.arange(24).reshape(4, 2, 3).to(dtype).permute(2, 0, 1)  # by columns
    targets = torch.arange(3)
    arrived, count = sent(a_problem(inputs, targets, test=(inputs, targets)), monkeypatch)
    assert count == 2
    for found in (arrived.train, arrived.test):
        assert found is not None
        assert torch.equal(found[0], inputs)
        assert torch.equal(found[1], targets)
        assert found[0].stride() == inputs.stride()
        assert found[0].dtype == dtype


def test_functions_metrics_and_numbers_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    data = torch.eye(3), torch.ones(3, 1)
    metrics = {"twice": lambda outputs, targets: 2 * outputs[:, 0]}
    problem = a_problem(*data, metrics=metrics, l2=0.5, batch_size=2, reconstruct=lambda outputs: outputs + 1)
    arrived, _ = sent(problem, monkeypatch)
    assert arrived.metric_names == problem.metric_names
    assert (arrived.l2, arrived.batch_size, arrived.test) == (0.5, 2, None)
    parameters = problem.initial_parameters(0)
    assert arrived.evaluate(parameters) == problem.evaluate(parameters)
    with pytest.raises(TypeError):
        arrived.metrics["more"] = len  # type: ignore[index]  # read-only, as it was


@pytest.mark.parametrize("name", ["covtype-softmax", "mnist-autoencoder", "fashion-mlp", "cifar10-cnn"])
def test_the_problems_of_the_library_travel(name: str) -> None:
    choice = ProblemChoice(name, sample=True)
    packed, arrays = pack(choice)
    arrived, problem = unpack(packed, arrays), choice.load()
    assert len(arrays) == (2 if name == "mnist-autoencoder" else 4)  # its targets are its inputs
    assert all(torch.equal(a, b) for a, b in zip(arrived.train, problem.train, strict=True))
    parameters = problem.initial_parameters(0)
    assert arrived.evaluate(parameters, metrics=["test_loss"]) == problem.evaluate(parameters, metrics=["test_loss"])
    assert packed.code is not None
    assert len(packed.code) < 10_000  # no data in it


def test_data_are_copied_where_their_memory_begins_at_an_odd_place() -> None:
    flat = np.arange(4 * 10 + 1, dtype=np.uint8)[1:]
    layout = parcel.Layout(0, torch.float32, (10,), (0,))
    assert parcel._tensor(flat, layout).data_ptr() % parcel.ALIGNMENT == 0


def test_code_travels_also_where_its_module_has_two_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_spec(tmp_path / "own")
    choice = ProblemChoice(f"{tmp_path}/own/own.py:problem")
    module = choice.load().loss.__globals__
    monkeypatch.setitem(sys.modules, "own_alias", sys.modules[module["__name__"]])
    monkeypatch.setattr(sys.modules["__main__"], "__file__", f"{tmp_path}/own/script.py", raising=False)
    monkeypatch.setitem(sys.modules, "__mp_main__", sys.modules["__main__"])
    packed, arrays = pack(choice)
    assert packed.code is not None
    assert unpack(packed, arrays).name == "own"


def test_another_version_of_memgrad_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    packed, arrays = pack(ProblemChoice("logistic"))
    monkeypatch.setattr("memgrad.__version__", "0.0.0")
    with pytest.raises(ValueError, match=r"0\.0\.0 here.*Install the same version on every machine"):
        unpack(packed, arrays)


def test_a_users_optimizer_travels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_optimizer.py").write_text(
        "from torch.optim import SGD\nclass Mine(SGD):\n    def mine(self):\n        return 1\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    code = pack_code([Recipe.of("SGD"), Recipe.of("own_optimizer:Mine")])
    assert pack_code([Recipe.of("SGD")]) is None
    # As on another machine.
    monkeypatch.undo()
    monkeypatch.delitem(sys.modules, "own_optimizer")
    (tmp_path / "own_optimizer.py").unlink()
    with pytest.raises(ValueError, match="No module named 'own_optimizer'"):
        optimizer_class("own_optimizer:Mine")
    unpack_code(code)
    made: Any = optimizer_class("own_optimizer:Mine")([torch.zeros(1, requires_grad=True)], lr=0.1)
    assert made.mine() == 1
    del sys.modules["own_optimizer"]


def test_optimizers_and_memories_in_files_travel(tmp_path: Path) -> None:
    files = {
        "own_steps.py": "from torch.optim import SGD\nclass Mine(SGD):\n    pass\n",
        "own_memory.py": "from memgrad import FromDecays\nFACTOR = 3\nMINE = FromDecays(lambda k: k / (k + FACTOR))\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    recipes = [
        Recipe.read("own_steps.py:Mine", {}, folder=tmp_path),
        Recipe.read("MemSGD", {"memory": "own_memory.py:MINE"}, folder=tmp_path),
    ]
    code = pack_code(recipes)
    # As on another machine.
    for recipe in recipes:
        del sys.modules[recipe.code[0].module_name]
        (tmp_path / recipe.code[0].reference.place).unlink()
    with pytest.raises(ValueError, match=r"own_memory\.py"):
        recipes[1].memory()
    unpack_code(code)
    x = torch.zeros(1, requires_grad=True)
    assert [type(recipe.build([x], lr=0.1)).__name__ for recipe in recipes] == ["Mine", "MemSGD"]
    assert recipes[1].memory().decay(1) == 0.25


def test_a_problem_that_is_another_one_each_time_is_not_sent(tmp_path: Path) -> None:
    spec = own_spec(tmp_path / "own")
    facts = facts_about(spec.problem_choice, spec.problem_choice.load())
    assert pack(spec.problem_choice, facts.parts)[0].code is not None
    file = tmp_path / "own" / "own.py"
    file.write_text(file.read_text().replace(", generator=generator", ""))
    with pytest.raises(ValueError, match=r"its training inputs and training targets .*manual_seed\(0\)"):
        pack(spec.problem_choice, facts.parts)
