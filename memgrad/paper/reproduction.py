"""The paper, reproduced: run what is missing, draw the figures, decide the claims, and keep what was made."""

from __future__ import annotations

import difflib
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from memgrad import figures, tables
from memgrad.experiments.choice import digest_of
from memgrad.experiments.driver import Listener, Outcome, Silent, execute, known_facts, results_of
from memgrad.experiments.engines.engine import Engine
from memgrad.experiments.provenance import provenance
from memgrad.experiments.results import Results
from memgrad.experiments.spec import Spec
from memgrad.experiments.store import Store
from memgrad.experiments.train import PICTURES
from memgrad.files import written_whole
from memgrad.paper import verdicts
from memgrad.paper.catalogue import FIGURES
from memgrad.paper.claims import CLAIMS, Verdict
from memgrad.paper.evidence import Evidence
from memgrad.paper.figures import Drawn, draw
from memgrad.paper.losses import plateau_loss
from memgrad.paper.realdata import JUDGES
from memgrad.paper.scales import EXPERIMENTS, Scale, experiment, known, scales
from memgrad.paper.training import TRAINING_FIGURES, DrawnRows, draw_rows

FIGURE_NAMES = (*FIGURES, *TRAINING_FIGURES)
NAMES = (*FIGURE_NAMES, *CLAIMS)
"""All that can be reproduced, by name: figures, then claims."""

_SHARED: Mapping[str, tuple[str, Callable[[Any], Verdict]]] = MappingProxyType(
    {
        "S1": ("p-verification", verdicts.s1),
        "S2": ("p-verification", verdicts.s2),
        "S3": ("verif-noise", verdicts.s3),
        "S4": ("verif-noise-quadratic", verdicts.s4),
        "S7": ("odes", verdicts.s7),
    }
)
"""The claims that are decided by what a figure shows: the experiment is run once for both."""


@final
@dataclass(frozen=True)
class Made:
    """What became of an experiment on real data.

    Attributes:
        name: Its name.
        spec: What was asked for, as plain data.
        runs: How many runs it has.
        trained: How many of them were trained now.
        abouts: Where, when and with which versions its rows were made, and what that cost: one for each chunk of them.
    """

    name: str
    spec: Mapping[str, Any]
    runs: int
    trained: int
    abouts: tuple[Mapping[str, Any], ...]


@final
@dataclass(frozen=True, eq=False)
class Reproduction:
    """All that was reproduced: what a report needs.

    Attributes:
        scale: The scale of the experiments on real data.
        figures: The files of each figure by its name: pictures, the numbers behind them (.csv), and settings (.json).
        verdicts: The claims that were decided, in their order.
        experiments: What became of each experiment on real data that was needed and is complete.
        skipped: What is missing, by the name of the experiment, figure or claim, and why.
        interrupted: Whether it was stopped before its end.
        seconds: How long it took.
        about: Versions, commit and machine of this call.
    """

    scale: Scale
    figures: Mapping[str, tuple[Path, ...]]
    verdicts: tuple[Verdict, ...]
    experiments: Mapping[str, Made]
    skipped: Mapping[str, str]
    interrupted: bool
    seconds: float
    about: Mapping[str, Any]

    @property
    def complete(self) -> bool:
        """Whether all that was asked for is there."""
        return not self.skipped and not self.interrupted

    def scoreboard(self) -> dict[str, Any]:
        """The verdicts and what they rest on as plain data; numbers that are not finite are None."""
        board = {
            "scale": asdict(self.scale),
            "verdicts": [verdict.to_dict() for verdict in self.verdicts],
            "experiments": {name: asdict(made) for name, made in self.experiments.items()},
            "figures": {name: [path.name for path in paths] for name, paths in self.figures.items()},
            "skipped": dict(self.skipped),
            "interrupted": self.interrupted,
            "about": dict(self.about),
        }
        found: dict[str, Any] = tables.json_ready(board)
        return found


def chosen(names: Iterable[str]) -> tuple[str, ...]:
    """The figures and claims with these names, all of them if there is none; capitals do not matter.

    Example:
        >>> chosen(["results", "r4"])
        ('results', 'R4')
        >>> chosen(["result"])
        Traceback (most recent call last):
        ...
        ValueError: unknown figure or claim 'result'. The nearest: results. All figures: memories, hb-amplification, \
time-warp, verif-noise, quadratic-variance, verif-noise-quadratic, bound-beta, bound-beta-2, odes, p-verification, \
results, gradnorm, acc, stepnorm, padam, rec, step-sizes. All claims: S1, S2, S3, S4, S5, S6, S7, S8, R1, R2, R3, R4, \
R5, R6, R7, R8, R9, R10, A1.
    """
    found, by_lower = [], {name.lower(): name for name in NAMES}
    for name in names:
        if name.lower() not in by_lower:
            near = difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.5)
            hint = f" The nearest: {', '.join(by_lower[each] for each in near)}." if near else ""
            raise ValueError(
                f"unknown figure or claim {name!r}.{hint} All figures: {', '.join(FIGURE_NAMES)}. "
                f"All claims: {', '.join(CLAIMS)}."
            )
        found.append(by_lower[name.lower()])
    return tuple(name for name in NAMES if name in found) or NAMES


def needed(names: Iterable[str]) -> tuple[str, ...]:
    """The experiments on real data that figures and claims need.

    Example:
        >>> needed(["R10", "padam", "S3"])
        ('covtype-mini', 'covtype-full', 'polyadam')
    """
    asked = {each for name in names for each in _needs(name)}
    return tuple(name for name in EXPERIMENTS if name in asked)


def reproduce(
    names: Iterable[str] = (),
    *,
    scale: str,
    store: Store,
    out: Path,
    engine: Callable[[], Engine] | None,
    listening: Callable[[str], AbstractContextManager[Listener]] | None = None,
    told: Callable[[str], None] | None = None,
    device: str | None = None,
    formats: Sequence[str] = ("png", "svg"),
) -> Reproduction:
    """Run what is missing, draw figures and decide claims. What was made before and would be the same is kept.

    Args:
        names: Figures and claims; all of them if there is none.
        scale: One of `memgrad.paper.scales.scales()`.
        store: Where the rows of experiments are kept.
        out: The folder for figures, their numbers, and scoreboard.json.
        engine: Makes what trains; None to train nothing, and take only what the store has.
        listening: Makes what is told of the training of an experiment, given its name.
        told: Called with a line on what is being done.
        device: Where to train.
        formats: The formats of the figures.
    """
    wanted = chosen(names)
    known("scale", scale, scales())
    for ending in formats:
        figures.figure_path(f"figure.{ending}")
    return _Reproducing(
        wanted,
        scales()[scale],
        store,
        out,
        engine,
        listening or (lambda _: nullcontext(Silent())),
        told or (lambda _: None),
        device,
        tuple(formats),
    ).carry_out()


class _Reproducing:
    def __init__(
        self,
        wanted: tuple[str, ...],
        scale: Scale,
        store: Store,
        out: Path,
        engine: Callable[[], Engine] | None,
        listening: Callable[[str], AbstractContextManager[Listener]],
        told: Callable[[str], None],
        device: str | None,
        formats: tuple[str, ...],
    ) -> None:
        self._wanted, self._scale, self._store, self._out = wanted, scale, store, out
        self._engine, self._listening, self._told = engine, listening, told
        self._device, self._formats = device, formats
        self._ledger = Ledger(out)
        self._results: dict[str, Results] = {}
        self._experiments: dict[str, Made] = {}
        self._figures: dict[str, tuple[Path, ...]] = {}
        self._verdicts: dict[str, Verdict] = {}
        self._skipped: dict[str, str] = {}
        self._shown: dict[str, Any] = {}  # what the experiments behind figures returned, for claims about them
        self._interrupted = False

    def carry_out(self) -> Reproduction:
        began = time.monotonic()
        for name in self._wanted:
            if not _needs(name):
                self._synthetic(name)
        for name in needed(self._wanted):
            if not self._interrupted:
                self._experiment(name)
        if not self._interrupted:
            self._real()
        found = Reproduction(
            self._scale,
            {name: self._figures[name] for name in FIGURE_NAMES if name in self._figures},
            tuple(self._verdicts[name] for name in CLAIMS if name in self._verdicts),
            self._experiments,
            self._skipped,
            self._interrupted,
            time.monotonic() - began,
            provenance(),
        )
        with written_whole(self._out / "scoreboard.json") as unfinished:
            unfinished.write_text(json.dumps(found.scoreboard(), indent=2) + "\n", encoding="utf-8")
        return found

    # --- without data ------------------------------------------------------------------------------------------------

    def _synthetic(self, name: str) -> None:
        key = source_digest()
        if name in FIGURES:
            if not self._kept_figure(name, key):
                self._told(f"{name}: {FIGURES[name].title}")
                drawn = draw(name)
                self._shown[name] = drawn.result
                self._write(name, drawn, key)
        elif not self._kept_verdict(name, key):
            self._told(f"{name}: {CLAIMS[name].statement}")
            figure, decide = _SHARED.get(name, ("", None))
            if decide is not None and self._shown.get(figure) is not None:
                verdict = decide(self._shown[figure])
            else:
                (verdict,) = verdicts.judge([name])
            self._decide(name, verdict, key)

    # --- on data -----------------------------------------------------------------------------------------------------

    def _experiment(self, name: str) -> None:
        spec = experiment(name, self._scale.name)
        if self._engine is None:
            self._take(name, spec)
            return
        try:
            with self._listening(name) as listener:
                outcome = execute(spec, self._store, self._engine(), listener=listener, device=self._device)
        except OSError as error:
            if not _is_about_data(error):
                raise
            self._skipped[name] = str(error)
            return
        self._interrupted = outcome.interrupted
        if not outcome.complete:
            self._skipped[name] = _why(outcome)
            return
        self._complete(name, spec, results_of(spec, self._store), outcome.trained)

    def _take(self, name: str, spec: Spec) -> None:
        """Take an experiment from the store, if all of it is there; no data set is asked for."""
        again = f"`memgrad reproduce --scale {self._scale.name}` trains what is missing"
        facts = known_facts(spec.choice, self._store)
        if facts is None:
            self._skipped[name] = f"the store has none of its runs; {again}"
            return
        results = results_of(spec, self._store, facts=facts)
        if results.missing() or len(results.methods) < len(spec.methods):
            self._skipped[name] = f"the store has only {len(results.rows.runs)} of its runs; {again}"
            return
        self._complete(name, spec, results, 0)

    def _complete(self, name: str, spec: Spec, results: Results, trained: int) -> None:
        self._results[name] = results
        runs = {run.digest for lrs in results.runs.values() for seeds in lrs.values() for run in seeds.values()}
        plain = spec.model_dump(mode="json", exclude_none=True)
        self._experiments[name] = Made(name, plain, len(runs), trained, self._store.abouts(runs))

    def _real(self) -> None:
        """Figures and claims on real data whose experiments are complete; what lacks one is skipped, and says so."""
        evidence = Evidence(self._scale, self._results, self._plateau)
        for name in self._wanted:
            if not (needs := _needs(name)):
                continue
            missing = [each for each in needs if each not in self._results]
            if missing:
                self._skipped[name] = f"it needs {', '.join(missing)}"
                continue
            try:
                self._from_rows(name, evidence, self._key(needs))
            except OSError as error:
                if not _is_about_data(error):
                    raise
                self._skipped[name] = str(error)
            except LookupError as error:
                self._skipped[name] = str(error)

    def _from_rows(self, name: str, evidence: Evidence, key: str) -> None:
        if name in TRAINING_FIGURES:
            if not self._kept_figure(name, key):
                self._told(f"{name}: {TRAINING_FIGURES[name].title}")
                self._write(name, draw_rows(name, evidence, self._originals), key)
        elif not self._kept_verdict(name, key):
            self._decide(name, JUDGES[name].decide(evidence), key)

    def _key(self, needs: Sequence[str]) -> str:
        """It changes when rows, the scale or the code do."""
        runs = [(each, sorted(self._results[each].rows.runs)) for each in needs]
        return digest_of(source_digest(), self._scale.name, json.dumps(runs))

    def _plateau(self) -> float:
        return plateau_loss(self._results["autoencoder-full"].spec.choice.load())

    def _originals(self) -> NDArray[Any]:
        problem = self._results["autoencoder-mini"].spec.choice.load()
        assert problem.test is not None
        return np.asarray(problem.test[0][:PICTURES].reshape(-1, 28, 28).cpu().numpy())

    # --- what was made -----------------------------------------------------------------------------------------------

    def _kept_figure(self, name: str, key: str) -> bool:
        files = self._ledger.files(name, key)
        if files is None or not {f".{ending}" for ending in self._formats} <= {file.suffix for file in files}:
            return False
        self._figures[name] = files
        return True

    def _kept_verdict(self, name: str, key: str) -> bool:
        verdict = self._ledger.verdict(name, key)
        if verdict is None:
            return False
        self._verdicts[name] = verdict
        return True

    def _write(self, name: str, drawn: Drawn | DrawnRows, key: str) -> None:
        paths = [figures.save(drawn.figure, self._out / f"{name}.{ending}") for ending in self._formats]
        table = tables.write_table(drawn.columns, self._out / f"{name}.csv", about=drawn.about())
        self._figures[name] = (*paths, table, table.with_suffix(".json"))
        self._ledger.keep(name, key, files=[path.name for path in self._figures[name]])

    def _decide(self, name: str, verdict: Verdict, key: str) -> None:
        self._verdicts[name] = verdict
        self._ledger.keep(name, key, verdict=verdict.to_dict())


@final
class Ledger:
    """What a folder has of figures and verdicts, and the keys they were made under: made.json.

    Args:
        folder: The folder. A ledger that cannot be read counts as none.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "made.json"
        try:
            entries = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            entries = {}
        self._entries: dict[str, dict[str, Any]] = entries if isinstance(entries, dict) else {}

    def files(self, name: str, key: str) -> tuple[Path, ...] | None:
        """The files of a figure, if it was made under this key and they are all there."""
        found = self._entries.get(name, {})
        paths = tuple(self._folder / file for file in found.get("files", ()))
        return paths if paths and found.get("key") == key and all(path.exists() for path in paths) else None

    def verdict(self, name: str, key: str) -> Verdict | None:
        """The verdict on a claim, if it was made under this key."""
        found = self._entries.get(name, {})
        return Verdict.from_dict(found["verdict"]) if found.get("key") == key and "verdict" in found else None

    def keep(self, name: str, key: str, **content: Any) -> None:
        """Write down that something was made."""
        self._entries[name] = {"key": key, **content}
        with written_whole(self._path) as unfinished:
            unfinished.write_text(json.dumps(self._entries, indent=1) + "\n", encoding="utf-8")


@cache
def source_digest() -> str:
    """It changes when any file of memgrad's source does: what was made before may then be made otherwise now."""
    package = Path(__file__).parent.parent
    content = hashlib.sha256()
    for path in sorted(each for ending in ("*.py", "*.toml") for each in package.rglob(ending)):
        content.update(path.relative_to(package).as_posix().encode())
        content.update(path.read_bytes())
    return content.hexdigest()[:32]


def _needs(name: str) -> tuple[str, ...]:
    if name in TRAINING_FIGURES:
        return TRAINING_FIGURES[name].needs
    return JUDGES[name].needs if name in JUDGES else ()


def _is_about_data(error: OSError) -> bool:
    from memgrad.problems.datasets import DatasetUnavailable

    return isinstance(error, DatasetUnavailable)


def _why(outcome: Outcome) -> str:
    if outcome.interrupted:
        return "it was interrupted"
    reasons = ", ".join(dict.fromkeys(outcome.failed.values()))
    return f"{len(outcome.failed)} runs failed: {reasons}"
