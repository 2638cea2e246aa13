"""Chunks as Parquet: rows as columns, and all that is to be known about them in the file's metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from memgrad.experiments.chunk import Chunk
from memgrad.experiments.runs import Run
from memgrad.extras import require

FORMAT = 1
"""The format that this version of memgrad writes. It is raised when an older version could not read what is written."""

KEY = "memgrad"
"""The key of the metadata."""


@final
@dataclass(frozen=True, eq=False)
class Header:
    """What is known of a chunk without reading its rows.

    Attributes:
        format: The format it was written in.
        runs: Its runs, by the digest they had when they were made.
        diverged: The runs that left the finite numbers, and the step at which that was seen.
        about: Whatever its maker said: versions, machine, times.
        rows: How many rows there are.
    """

    format: int
    runs: Mapping[str, Run]
    diverged: Mapping[str, int]
    about: Mapping[str, Any]
    rows: int


def encode(chunk: Chunk) -> bytes:
    """The content of a chunk's file.

    The columns are `digest`, `step`, `metric` and `value`, of the same types in every file, so that one reader takes
    a whole folder of them for one table. The metadata has runs and diverged runs as JSON; what all runs share, such as
    the problem and the steps of the evaluations, is there once.
    """
    pyarrow, parquet = _pyarrow()
    described = [run.as_dict() for run in chunk.runs]
    shared = {
        name: value for name, value in described[0].items() if all(each[name] == value for each in described)
    } if described else {}  # fmt: skip
    own = [{name: value for name, value in each.items() if name not in shared} for each in described]
    header = {
        "format": FORMAT,
        "digests": [run.digest for run in chunk.runs],
        "shared": shared,
        "runs": own,
        "diverged": dict(chunk.diverged),
        "about": dict(chunk.about),
    }
    schema = _schema(pyarrow)
    columns = [
        _words(pyarrow, chunk.digest),
        pyarrow.array(np.asarray(chunk.step, dtype=np.int64)),
        _words(pyarrow, chunk.metric),
        pyarrow.array(np.asarray(chunk.value, dtype=np.float64)),
    ]
    out = pyarrow.BufferOutputStream()
    with parquet.ParquetWriter(out, schema, compression="zstd") as writer:
        writer.write_table(pyarrow.table(columns, schema=schema))
        writer.add_key_value_metadata({KEY: json.dumps(header)})
    return bytes(out.getvalue())


def decode_header(data: bytes) -> Header:
    """What is known of the chunk in a file with this content; ValueError if it is not one of ours."""
    pyarrow, parquet = _pyarrow()
    try:
        metadata = parquet.read_metadata(pyarrow.BufferReader(data))
        header = json.loads((metadata.metadata or {})[KEY.encode()])
        if int(header["format"]) > FORMAT:
            return Header(int(header["format"]), {}, {}, {}, metadata.num_rows)
        runs = [Run.from_dict({**header["shared"], **own}) for own in header["runs"]]
        by_digest = dict(zip(header["digests"], runs, strict=True))
        return Header(header["format"], by_digest, header["diverged"], header["about"], metadata.num_rows)
    except (pyarrow.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a chunk of memgrad's ({type(error).__name__}: {error})") from error


def decode_rows(data: bytes) -> dict[str, NDArray[Any]]:
    """The columns of the chunk in a file with this content."""
    pyarrow, parquet = _pyarrow()
    table = parquet.read_table(pyarrow.BufferReader(data), schema=_schema(pyarrow)).combine_chunks()
    found: dict[str, NDArray[Any]] = {}
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        if pyarrow.types.is_dictionary(column.type):
            words = np.array(column.dictionary.to_pylist(), dtype=str)
            codes = column.indices.to_numpy(zero_copy_only=False)
            found[name] = words[codes] if len(words) else words
        else:
            found[name] = column.to_numpy(zero_copy_only=False)
    return found


def _schema(pyarrow: Any) -> Any:
    words = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    types = {"digest": words, "step": pyarrow.int64(), "metric": words, "value": pyarrow.float64()}
    return pyarrow.schema([pyarrow.field(name, kind, nullable=False) for name, kind in types.items()])


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
