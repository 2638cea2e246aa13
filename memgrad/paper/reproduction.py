"""Reproducing the paper: run the missing experiments, draw the figures, decide the claims, and keep the results."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, final

from memgrad import figures, tables
from memgrad.experiments.digests import digest_of
from memgrad.experiments.driver import Listener, Outcome, Silent, execute, results_of, stored_results
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.results import Results
from memgrad.experiments.storing.provenance import provenance
from memgrad.experiments.storing.store import Store
from memgrad.experiments.training.engines.engine import Engine
from memgrad.files import written_whole
from memgrad.paper.catalogue import FIGURES
from memgrad.paper.claims import Verdict
from memgrad.paper.data_facts import DataFacts
from memgrad.paper.evidence import Evidence
from memgrad.paper.figures import draw
from memgrad.paper.ledger import Ledger, source_digest
from memgrad.paper.pieces import make_pieces, pieces_of, save_picture
from memgrad.paper.progress import Countdown
from memgrad.paper.scales import EXPERIMENTS, Scale, experiment, in_training_order, known, scales
from memgrad.paper.training_figures import NoPicturesError
from memgrad.paper.verdicts import JUDGES, NAMES, chosen, needed, needs_of
from memgrad.problems.datasets import DatasetUnavailable


@final
@dataclass(frozen=True)
class Made:
    """An experiment on real data whose runs are complete.

    Attributes:
        name: Its name.
        spec: Its specification, as plain data.
        runs: The number of its runs.
        trained: The number of runs that were trained in this call.
        abouts: The provenance of its rows, one entry for each chunk: machine, time, versions and cost.
    """

    name: str
    spec: Mapping[str, Any]
    runs: int
    trained: int
    abouts: tuple[Mapping[str, Any], ...]


@final
@dataclass(frozen=True, eq=False)
class Reproduction:
    """Everything that was reproduced, for the report.

    Attributes:
        scale: The scale of the experiments on real data.
        asked: The figures and claims that were asked for. Others that are in the folder are included too.
        figures: The files of each figure by its name: pictures, the numbers behind them (.csv), and settings (.json).
        verdicts: The claims that were decided, in their order.
        experiments: The experiments on real data that were needed and are complete, by name.
        skipped: Why each missing experiment, figure or claim is missing, by its name.
        interrupted: Whether it was stopped before it had finished.
        seconds: How long it took.
        about: Versions, commit and machine of this call.
    """

    scale: Scale
    asked: tuple[str, ...]
    figures: Mapping[str, tuple[Path, ...]]
    verdicts: tuple[Verdict, ...]
    experiments: Mapping[str, Made]
    skipped: Mapping[str, str]
    interrupted: bool
    seconds: float
    about: Mapping[str, Any]

    @property
    def complete(self) -> bool:
        """Whether nothing that was asked for is missing."""
        return not self.skipped and not self.interrupted

    @property
    def runs(self) -> int:
        """The number of runs in all experiments."""
        return sum(made.runs for made in self.experiments.values())

    @property
    def trained(self) -> int:
        """How many of them were trained by this call."""
        return sum(made.trained for made in self.experiments.values())

    def scoreboard(self) -> dict[str, Any]:
        """The verdicts and the experiments behind them as plain data; numbers that are not finite are None."""
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


def unfinished(names: Iterable[str], scale: str, store: Store) -> tuple[str, ...]:
    """The experiments on real data that figures and claims need and that are not complete in the store."""
    found = {name: stored_results(experiment(name, scale), store) for name in needed(chosen(names))}
    return tuple(name for name, results in found.items() if results is None or not results.finished)


def countdown(names: Iterable[str], scale: str, store: Store, seconds: Mapping[str, float] | None) -> Countdown:
    """How long the training will still take.

    Args:
        names: Figures and claims; all if there are none.
        scale: The scale of the experiments.
        store: The rows of the runs that are finished.
        seconds: What each experiment is expected to take, if that was measured. Otherwise all take the same time.
    """
    names = tuple(names)
    expected = dict.fromkeys(unfinished(names, scale, store), 1.0) if seconds is None else seconds
    order = in_training_order(needed(chosen(names)), scale)
    return Countdown({name: expected.get(name, 0.0) for name in order}, in_seconds=seconds is not None)


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
    data: DataFacts | None = None,
) -> Reproduction:
    """Run the missing experiments, draw figures and decide claims. Earlier results that are still valid are kept.

    In a script, call it under `if __name__ == "__main__":`, because worker processes import the script.

    Args:
        names: Figures and claims; all by default.
        scale: One of `memgrad.paper.scales.scales()`.
        store: Where the rows of experiments are kept.
        out: The folder for figures, their numbers, and scoreboard.json.
        engine: Makes the engine, if anything is to be trained; None to use only the rows in the store.
        listening: Makes the listener to the training of an experiment, given its name.
        told: Called with a line of text at each stage.
        device: The device to train on.
        formats: The formats of the figures.
        data: What is known about the data sets without loading them.
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
        data or DataFacts(),
    ).carry_out()


@dataclass
class _Reproducing:
    """A call of `reproduce`: its arguments, and what it has made so far."""

    _wanted: tuple[str, ...]
    _scale: Scale
    _store: Store
    _out: Path
    _engine: Callable[[], Engine] | None
    _listening: Callable[[str], AbstractContextManager[Listener]]
    _told: Callable[[str], None]
    _device: str | None
    _formats: tuple[str, ...]
    _data: DataFacts
    _results: dict[str, Results] = field(default_factory=dict)
    _experiments: dict[str, Made] = field(default_factory=dict)
    _figures: dict[str, tuple[Path, ...]] = field(default_factory=dict)
    _verdicts: dict[str, Verdict] = field(default_factory=dict)
    _skipped: dict[str, str] = field(default_factory=dict)
    _interrupted: bool = False

    def __post_init__(self) -> None:
        self._ledger = Ledger(self._out)

    def carry_out(self) -> Reproduction:
        began = time.monotonic()
        self._synthetic()
        self._train()
        if not self._interrupted:
            self._real()
            self._keep_others()
        found = Reproduction(
            self._scale,
            self._wanted,
            {name: self._figures[name] for name in FIGURES if name in self._figures},
            tuple(self._verdicts[name] for name in JUDGES if name in self._verdicts),
            {name: self._experiments[name] for name in EXPERIMENTS if name in self._experiments},
            self._skipped,
            self._interrupted,
            time.monotonic() - began,
            provenance(),
        )
        with written_whole(self._out / "scoreboard.json") as unfinished:
            unfinished.write_text(json.dumps(found.scoreboard(), indent=2) + "\n", encoding="utf-8")
        return found

    # --- without data ------------------------------------------------------------------------------------------------

    def _synthetic(self) -> None:
        key = source_digest()
        todo = [name for name in self._wanted if not needs_of(name) and not self._is_kept(name, key)]
        titles = {name: FIGURES[name].title if name in FIGURES else JUDGES[name].claim.statement for name in todo}
        if todo:
            self._told(f"Without data: {', '.join(todo)}")
        for name in todo:
            self._ledger.forget(name)
        count = len(pieces_of(todo))
        for i, piece in enumerate(make_pieces(todo, self._out, self._formats), 1):
            for name, files in piece.files.items():
                self._keep_figure(name, files, key)
            for name, verdict in piece.verdicts.items():
                self._keep_verdict(name, verdict, key)
            self._told("\n".join(f"{i} of {count}: {name}: {titles[name]}" for name in (*piece.files, *piece.verdicts)))

    # --- on data -----------------------------------------------------------------------------------------------------

    def _train(self) -> None:
        names = in_training_order(needed(self._wanted), self._scale.name)
        if self._engine is None or not names:
            for name in names:
                self._take(name)
            return
        engine = self._engine()
        try:
            for name in names:
                if not self._interrupted:
                    self._experiment(name, engine)
        finally:
            engine.close()

    def _experiment(self, name: str, engine: Engine) -> None:
        spec = experiment(name, self._scale.name)
        try:
            with self._listening(name) as listener:
                # The workers are kept for the next experiment: each takes seconds to start.
                outcome = execute(spec, self._store, engine, listener=listener, device=self._device, close=False)
        except DatasetUnavailable as error:
            self._skipped[name] = str(error)
            return
        self._interrupted = outcome.interrupted
        if not outcome.complete:
            self._skipped[name] = _why(outcome)
            return
        self._complete(name, spec, results_of(spec, self._store), outcome.trained)

    def _take(self, name: str) -> None:
        """Take an experiment from the store if it is complete; no data set is loaded."""
        spec = experiment(name, self._scale.name)
        results = stored_results(spec, self._store)
        if results is None or not results.finished:
            there = 0 if results is None else len(results.rows.runs)
            again = f"`memgrad reproduce --scale {self._scale.name}` trains what is missing"
            self._skipped[name] = f"the store has {f'only {there}' if there else 'none'} of its runs; {again}"
        else:
            self._complete(name, spec, results, 0)

    def _complete(self, name: str, spec: Spec, results: Results, trained: int) -> None:
        self._results[name] = results
        plain, runs = spec.model_dump(mode="json", exclude_none=True), results.planned
        self._experiments[name] = Made(name, plain, len(runs), trained, self._store.abouts(runs))

    def _real(self) -> None:
        """Claims on real data whose experiments are complete, and figures of those that are.

        The others are skipped with a reason.
        """
        specs = {name: results.spec for name, results in self._results.items()}
        evidence = Evidence(
            self._scale, self._results, lambda: self._data.plateau_of(specs), lambda: self._data.originals_of(specs)
        )
        for name in self._wanted:
            if not (needs := needs_of(name)):
                continue
            if not self._can_make(name):
                missing = [each for each in needs if each not in self._results]
                self._skipped[name] = f"it needs {', '.join(missing)}"
                continue
            try:
                self._from_rows(name, evidence, self._key(needs))
            except (DatasetUnavailable, NoPicturesError) as error:
                self._skipped[name] = str(error)

    def _can_make(self, name: str) -> bool:
        """Whether the experiments that it needs are complete: all for a claim, any for the panels of a figure."""
        there = [each in self._results for each in needs_of(name)]
        return any(there) if name in FIGURES else all(there)

    def _from_rows(self, name: str, evidence: Evidence, key: str) -> None:
        if self._is_kept(name, key):
            return
        if name in FIGURES:
            self._told(f"{name}: {FIGURES[name].title}")
            picture = draw(name, evidence=evidence)
            narrow = draw(name, evidence=evidence, across=2) if len(FIGURES[name].needs) > 1 else None
            self._ledger.forget(name)
            self._keep_figure(name, save_picture(name, picture, self._out, self._formats, narrow), key)
        else:
            self._keep_verdict(name, JUDGES[name].decide(evidence), key)

    def _key(self, needs: Sequence[str]) -> str:
        """A key that changes when the rows, the scale or the code change, and when an experiment becomes complete."""
        runs = [(each, sorted(self._results[each].rows.runs)) for each in needs if each in self._results]
        return digest_of(source_digest(), self._scale.name, json.dumps(runs))

    # --- the folder --------------------------------------------------------------------------------------------------

    def _is_kept(self, name: str, key: str) -> bool:
        """Whether the folder has it in its current form, in which case it is taken from there."""
        if name in JUDGES:
            verdict = self._ledger.verdict(name, key)
            if verdict is not None:
                self._verdicts[name] = verdict
            return verdict is not None
        files = self._ledger.files(name, key)
        if files is None or not {f".{ending}" for ending in self._formats} <= {file.suffix for file in files}:
            return False
        self._figures[name] = files
        return True

    def _keep_others(self) -> None:
        """Take what else the folder has in its current form: the report covers all of it."""
        others = [name for name in NAMES if name not in self._wanted and name in self._ledger.names]
        skipped = dict(self._skipped)
        for name in needed(others):
            if name not in self._results and name not in self._skipped:
                self._take(name)
        self._skipped = skipped
        for name in others:
            needs = needs_of(name)
            if not needs or self._can_make(name):
                self._is_kept(name, self._key(needs) if needs else source_digest())

    def _keep_figure(self, name: str, files: tuple[Path, ...], key: str) -> None:
        self._figures[name] = files
        self._ledger.keep(name, key, files=[path.name for path in files])

    def _keep_verdict(self, name: str, verdict: Verdict, key: str) -> None:
        self._verdicts[name] = verdict
        self._ledger.keep(name, key, verdict=verdict.to_dict())


def _why(outcome: Outcome) -> str:
    if outcome.interrupted:
        return "it was interrupted"
    reasons = ", ".join(dict.fromkeys(outcome.failed.values()))
    return f"{len(outcome.failed)} runs failed: {reasons}"
