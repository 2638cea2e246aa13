"""The paper, reproduced: run what is missing, draw the figures, decide the claims, and keep what was made."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
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
from memgrad.paper.catalogue import FIGURES
from memgrad.paper.claims import CLAIMS, Verdict
from memgrad.paper.evidence import Evidence
from memgrad.paper.ledger import Ledger, source_digest
from memgrad.paper.losses import plateau_loss
from memgrad.paper.names import FIGURE_NAMES, NAMES, chosen, needed, needs_of
from memgrad.paper.pieces import make_pieces, pieces_of, save_picture
from memgrad.paper.realdata import JUDGES
from memgrad.paper.scales import Scale, experiment, known, scales
from memgrad.paper.training import TRAINING_FIGURES, draw_rows


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
        asked: The figures and claims that were asked for. The folder may have others, which are part of it too.
        figures: The files of each figure by its name: pictures, the numbers behind them (.csv), and settings (.json).
        verdicts: The claims that were decided, in their order.
        experiments: What became of each experiment on real data that was needed and is complete.
        skipped: What is missing, by the name of the experiment, figure or claim, and why.
        interrupted: Whether it was stopped before its end.
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


def unfinished(names: Iterable[str], scale: str, store: Store) -> tuple[str, ...]:
    """The experiments on real data that figures and claims need and the store does not have all runs of."""
    wanted = needed(chosen(names))
    return tuple(name for name in wanted if _in_store(experiment(name, scale), store)[0] is None)


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

    Called from a script, it must be under `if __name__ == "__main__":`, because processes that import it do the work.

    Args:
        names: Figures and claims; all of them if there is none.
        scale: One of `memgrad.paper.scales.scales()`.
        store: Where the rows of experiments are kept.
        out: The folder for figures, their numbers, and scoreboard.json.
        engine: Makes what trains, when something is to be trained; None to take only what the store has.
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
        self._interrupted = False

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

    def _synthetic(self) -> None:
        key = source_digest()
        todo = [name for name in self._wanted if not needs_of(name) and not self._is_kept(name, key)]
        titles = {name: FIGURES[name].title if name in FIGURES else CLAIMS[name].statement for name in todo}
        if todo:
            self._told(f"What needs no data: {', '.join(todo)}")
        count = len(pieces_of(todo))
        for i, piece in enumerate(make_pieces(todo, self._out, self._formats), 1):
            for name, files in piece.files.items():
                self._keep_figure(name, files, key)
            for name, verdict in piece.verdicts.items():
                self._keep_verdict(name, verdict, key)
            self._told("\n".join(f"{i} of {count}: {name}: {titles[name]}" for name in (*piece.files, *piece.verdicts)))

    # --- on data -----------------------------------------------------------------------------------------------------

    def _train(self) -> None:
        names = needed(self._wanted)
        if self._engine is None or not names:
            for name in names:
                self._take(name, experiment(name, self._scale.name))
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
                # Its workers are kept for the next experiment: each takes seconds to start.
                outcome = execute(spec, self._store, engine, listener=listener, device=self._device, close=False)
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
        results, there = _in_store(spec, self._store)
        if results is None:
            again = f"`memgrad reproduce --scale {self._scale.name}` trains what is missing"
            self._skipped[name] = f"the store has {f'only {there}' if there else 'none'} of its runs; {again}"
        else:
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
            if not (needs := needs_of(name)):
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
        if self._is_kept(name, key):
            return
        if name in TRAINING_FIGURES:
            self._told(f"{name}: {TRAINING_FIGURES[name].title}")
            drawn = draw_rows(name, evidence, self._originals)
            self._keep_figure(name, save_picture(name, drawn, self._out, self._formats), key)
        else:
            self._keep_verdict(name, JUDGES[name].decide(evidence), key)

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

    def _is_kept(self, name: str, key: str) -> bool:
        """Whether the folder has it as it would be made now; then it is taken."""
        if name in CLAIMS:
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
        """Take what the folder has, was not asked for and is as it would be made now: a report is of all of it."""
        others = [name for name in NAMES if name not in self._wanted and name in self._ledger.names]
        skipped = dict(self._skipped)
        for name in needed(others):
            if name not in self._results and name not in self._skipped:
                self._take(name, experiment(name, self._scale.name))
        self._skipped = skipped
        for name in others:
            needs = needs_of(name)
            if all(each in self._results for each in needs):
                self._is_kept(name, self._key(needs) if needs else source_digest())

    def _keep_figure(self, name: str, files: tuple[Path, ...], key: str) -> None:
        self._figures[name] = files
        self._ledger.keep(name, key, files=[path.name for path in files])

    def _keep_verdict(self, name: str, verdict: Verdict, key: str) -> None:
        self._verdicts[name] = verdict
        self._ledger.keep(name, key, verdict=verdict.to_dict())


def _in_store(spec: Spec, store: Store) -> tuple[Results | None, int]:
    """What an experiment found, if the store has all its runs, and how many it has; no data set is loaded."""
    facts = known_facts(spec.choice, store)
    if facts is None:
        return None, 0
    results = results_of(spec, store, facts=facts)
    complete = not results.missing() and len(results.methods) == len(spec.methods)
    return results if complete else None, len(results.rows.runs)


def _is_about_data(error: OSError) -> bool:
    from memgrad.problems.datasets import DatasetUnavailable

    return isinstance(error, DatasetUnavailable)


def _why(outcome: Outcome) -> str:
    if outcome.interrupted:
        return "it was interrupted"
    reasons = ", ".join(dict.fromkeys(outcome.failed.values()))
    return f"{len(outcome.failed)} runs failed: {reasons}"
