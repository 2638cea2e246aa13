"""Rows of runs: as arrays, as one chunk per run group, and as the Parquet file of a chunk.

The columns are `digest` (of the run), `step` (the number of steps taken before the measurement), `metric` and `value`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from memgrad.experiments.digests import digest_of_bytes
from memgrad.experiments.planning.recipe import MEMORIES
from memgrad.experiments.planning.runs import Run
from memgrad.extras import require

FORMAT = 1
"""The format that this version of memgrad writes; raised when older versions could not read what is written."""

KEY = "memgrad"
"""The key of our entry in a Parquet file's metadata."""

COLUMNS: dict[str, type[np.generic]] = {"digest": np.str_, "step": np.int64, "metric": np.str_, "value": np.float64}
"""The columns of a chunk and their types."""

TIMES = ("wall_seconds", "cpu_seconds")
"""The entries of a chunk's provenance that say how long its runs took."""

RUN_COLUMNS: dict[str, type[np.generic]] = {
    "problem": np.str_,
    "examples": np.int64,
    "dtype": np.str_,
    "batch": np.str_,
    "steps": np.int64,
    "optimizer": np.str_,
    **dict.fromkeys(MEMORIES, np.str_),
    "options": np.str_,
    "lr": np.float64,
    "schedule": np.str_,
    "clip": np.float64,
    "seed": np.int64,
}
"""The columns that describe a run in an exported table, and their types."""


@final
@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of finished runs; no run appears twice.

    Attributes:
        digest: The run of each row.
        step: The number of steps taken before the measurement.
        metric: What was measured.
        value: The measured value.
        runs: The finished runs by digest, including those without a row.
        diverged: The runs that diverged, by digest, and the step at which this was detected.
    """

    digest: NDArray[Any]
    step: NDArray[np.int64]
    metric: NDArray[Any]
    value: NDArray[np.float64]
    runs: Mapping[str, Run]
    diverged: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.value)

    def series(self, digest: str, metric: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The steps at which a metric of a run was evaluated, increasing, and its values there.

        Example:
            >>> rows = Rows(np.array(["a"] * 2), np.array([0, 5]), np.array(["loss"] * 2), np.array([1.0, 0.5]), {}, {})
            >>> rows.series("a", "loss")
            (array([0, 5]), array([1. , 0.5]))
        """
        places = self._places.get((digest, metric), np.empty(0, dtype=np.intp))
        places = places[np.argsort(self.step[places], kind="stable")]
        return self.step[places], self.value[places]

    def places(self, digest: str) -> NDArray[np.intp]:
        """The indices of a run's rows."""
        found = [self._places[digest, metric] for metric in self.metrics if (digest, metric) in self._places]
        return np.concatenate(found) if found else np.empty(0, dtype=np.intp)

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """The measured metrics, in the order of their first rows."""
        return tuple(dict.fromkeys(metric for _, metric in self._places))

    def described(self) -> dict[str, NDArray[Any]]:
        """The rows and the settings of their runs, column by column, for a table.

        Options other than memories share one column of JSON; `diverged_at` is nan for a run that did not diverge.
        """
        digests, place = np.unique(self.digest, return_inverse=True)
        settings = [_settings(self.runs[digest]) for digest in digests.tolist()]
        columns = {
            name: np.array([each[name] for each in settings], dtype=kind)[place] for name, kind in RUN_COLUMNS.items()
        }
        diverged = np.array([self.diverged.get(digest, np.nan) for digest in digests.tolist()], dtype=float)
        return {
            "digest": self.digest,
            **columns,
            "diverged_at": diverged[place],
            "step": self.step,
            "metric": self.metric,
            "value": self.value,
        }

    @cached_property
    def _places(self) -> dict[tuple[str, str], NDArray[np.intp]]:
        """The indices of the rows of each run and metric. They come in blocks, so few comparisons find them."""
        if not len(self):
            return {}
        new = (self.digest[1:] != self.digest[:-1]) | (self.metric[1:] != self.metric[:-1])
        starts = np.concatenate([[0], np.flatnonzero(new) + 1])
        found: dict[tuple[str, str], list[NDArray[np.intp]]] = {}
        for start, end in zip(starts, [*starts[1:], len(self)], strict=True):
            found.setdefault((str(self.digest[start]), str(self.metric[start])), []).append(np.arange(start, end))
        return {key: np.concatenate(blocks) for key, blocks in found.items()}


def _settings(run: Run) -> dict[str, Any]:
    options = dict(run.recipe.options)
    return {
        "problem": run.problem,
        "examples": run.examples,
        "dtype": run.dtype or "",
        "batch": "full" if run.batch_size is None else str(run.batch_size),
        "steps": run.steps,
        "optimizer": run.recipe.optimizer,
        **{name: options.get(name) or "" for name in MEMORIES},
        "options": json.dumps({name: value for name, value in options.items() if name not in MEMORIES}),
        "lr": run.lr,
        "schedule": run.schedule or "constant",
        "clip": np.nan if run.clip is None else run.clip,
        "seed": run.seed,
    }


@final
@dataclass(frozen=True, eq=False)
class Chunk:
    """The rows of a run group, with the columns of `Rows`, and where, when and how they were made.

    Runs that diverged have no rows from the step on at which this was detected. `about` has versions, commit, machine,
    wall and CPU time, as plain data.
    """

    runs: tuple[Run, ...]
    digest: NDArray[Any]
    step: NDArray[np.int64]
    metric: NDArray[Any]
    value: NDArray[np.float64]
    diverged: Mapping[str, int]
    about: Mapping[str, Any]

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """The rows, column by column."""
        return {name: getattr(self, name) for name in COLUMNS}

    def only(self, digests: Collection[str]) -> Chunk:
        """The chunk with some of its runs."""
        kept = np.isin(self.digest, list(digests))
        return Chunk(
            tuple(run for run in self.runs if run.digest in digests),
            **{name: column[kept] for name, column in self.columns.items()},
            diverged={digest: step for digest, step in self.diverged.items() if digest in digests},
            about=self.about,
        )


def chunk_of(
    runs: Sequence[Run],
    steps: Sequence[int],
    values: Mapping[str, NDArray[np.float64]],
    diverged: Mapping[str, int],
    about: Mapping[str, Any],
) -> Chunk:
    """The chunk of the values that were measured.

    Args:
        runs: The runs.
        steps: The steps at which they were evaluated.
        values: The values of each metric, (steps, runs); nan where there is none, such as a step before the first.
        diverged: The step at which a run diverged, by digest.
        about: Versions, machine, times and the like.
    """
    digests = np.array([run.digest for run in runs])
    at = np.asarray(steps, dtype=np.int64)
    last = np.array([diverged.get(run.digest, np.iinfo(np.int64).max) for run in runs])
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in COLUMNS}
    for i, digest in enumerate(digests):
        for metric, table in values.items():
            kept = np.isfinite(table[:, i]) & (at < last[i])
            parts["digest"].append(np.full(kept.sum(), digest))
            parts["step"].append(at[kept])
            parts["metric"].append(np.full(kept.sum(), metric))
            parts["value"].append(table[kept, i])
    return Chunk(tuple(runs), **joined(parts), diverged=dict(diverged), about=dict(about))


def joined(parts: Mapping[str, Sequence[NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """Columns from their parts."""
    return {name: np.concatenate(parts[name]) if parts[name] else np.empty(0, kind) for name, kind in COLUMNS.items()}


# --- the Parquet file of a chunk -------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class Header:
    """What is known about a chunk without reading its rows.

    Attributes:
        format: The format it was written in.
        runs: Its runs, by the digest they had when they were made.
        diverged: The runs that diverged, by digest, and the step at which this was detected.
        about: Versions, machine, times and the like.
        rows: The number of rows.
    """

    format: int
    runs: Mapping[str, Run]
    diverged: Mapping[str, int]
    about: Mapping[str, Any]
    rows: int


def file_name(data: bytes) -> str:
    """The name of the file with this content."""
    return f"{digest_of_bytes(data)}.parquet"


def verified(path: Path) -> bytes:
    """The content of a chunk's file; ValueError if its name does not match."""
    data = path.read_bytes()
    if file_name(data) != path.name:
        raise ValueError(f"its {len(data):,} bytes are not those that were written, by their SHA-256")
    return data


def encode(chunk: Chunk, digests: Sequence[str] | None = None) -> bytes:
    """The content of a chunk's file; `digests` are those that its runs had when they were made, if they have others.

    All files have the same columns of the same types, so that a reader can take a folder of them for one table. Runs
    and diverged runs are JSON in the metadata; what all runs share, such as the problem and the steps of the
    evaluations, is stored once.
    """
    pyarrow, parquet = _pyarrow()
    described = [run.to_dict() for run in chunk.runs]
    # Some entries, such as a limit of gradients, are in the data of some runs only; none of these is None.
    # As JSON, in which 1 and True differ: they have different digests.
    texts = [{name: json.dumps(value) for name, value in each.items()} for each in described]
    shared = {name: value for name, value in described[0].items() if len({each.get(name) for each in texts}) == 1}
    own = [{name: value for name, value in each.items() if name not in shared} for each in described]
    header = {
        "format": FORMAT,
        "digests": [run.digest for run in chunk.runs] if digests is None else list(digests),
        "shared": shared,
        "runs": own,
        "diverged": dict(chunk.diverged),
        "about": dict(chunk.about),
    }
    schema = _schema(pyarrow)
    columns = [
        _words(pyarrow, column) if COLUMNS[name] is np.str_ else pyarrow.array(np.asarray(column, dtype=COLUMNS[name]))
        for name, column in chunk.columns.items()
    ]
    out = pyarrow.BufferOutputStream()
    with parquet.ParquetWriter(out, schema, compression="zstd") as writer:
        writer.write_table(pyarrow.table(columns, schema=schema))
        writer.add_key_value_metadata({KEY: json.dumps(header)})
    return bytes(out.getvalue())


class UnknownHeaderError(ValueError):
    """A chunk of memgrad's has a header that this version cannot read: another one wrote it."""


def decode_header(data: bytes) -> Header:
    """What is known about the chunk in a file with this content; ValueError if it is not a chunk."""
    pyarrow, parquet = _pyarrow()
    try:
        metadata = parquet.read_metadata(pyarrow.BufferReader(data))
        header = json.loads((metadata.metadata or {})[KEY.encode()])
        if int(header["format"]) > FORMAT:
            return Header(int(header["format"]), {}, {}, {}, metadata.num_rows)
        shared, own = header["shared"], header["runs"]
        by_digest = dict(zip(header["digests"], map(_read, ({**shared, **each} for each in own)), strict=True))
        return Header(header["format"], by_digest, header["diverged"], header["about"], metadata.num_rows)
    except UnknownHeaderError:
        raise
    except (pyarrow.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a chunk of memgrad's ({type(error).__name__}: {error})") from error


def _read(run: Mapping[str, Any]) -> Run:
    try:
        return Run.from_dict(run)
    except TypeError as error:  # a key that this version does not have
        raise UnknownHeaderError(f"not a run that this version knows: {error}") from error


def decode_rows(data: bytes) -> dict[str, NDArray[Any]]:
    """The columns of the chunk in a file with this content."""
    pyarrow, parquet = _pyarrow()
    # Not `read_table`: its threads may still hold `data` when Python ends, which then aborts.
    table = parquet.ParquetFile(pyarrow.BufferReader(data)).read([*COLUMNS], use_threads=False).cast(_schema(pyarrow))
    columns: dict[str, NDArray[Any]] = {}
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        if pyarrow.types.is_dictionary(column.type):
            words = np.array(column.dictionary.to_pylist(), dtype=str)
            codes = column.indices.to_numpy(zero_copy_only=False)
            columns[name] = words[codes] if len(words) else words
        else:
            columns[name] = column.to_numpy(zero_copy_only=False)
    return columns


def _schema(pyarrow: Any) -> Any:
    words = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    types = {np.str_: words, np.int64: pyarrow.int64(), np.float64: pyarrow.float64()}
    return pyarrow.schema([pyarrow.field(name, types[kind], nullable=False) for name, kind in COLUMNS.items()])


def _words(pyarrow: Any, values: NDArray[np.str_]) -> Any:
    words, codes = np.unique(np.asarray(values, dtype=str), return_inverse=True)
    return pyarrow.DictionaryArray.from_arrays(
        pyarrow.array(codes.astype(np.int32)), pyarrow.array(words.tolist(), type=pyarrow.string())
    )


def _pyarrow() -> tuple[Any, Any]:
    require("a store of experiments", extra="lab", modules=("pyarrow",))
    import pyarrow
    from pyarrow import parquet

    return pyarrow, parquet
