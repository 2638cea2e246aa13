"""Tables of numbers as CSV or Parquet files, with their metadata."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memgrad.files import written_whole

Columns = Mapping[str, NDArray[np.generic]]
"""A table: columns of equal length, by name."""

ENDINGS = (".csv", ".parquet")
"""The file extensions of tables."""


def table_path(path: str | os.PathLike[str]) -> Path:
    """The path, if its extension is that of a table. Call it before anything is computed.

    Example:
        >>> table_path("run.csv").name
        'run.csv'
    """
    path = Path(path)
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(
            f"a table is written as {' or '.join(ENDINGS)}, by the extension of the file, got {str(path)!r}."
        )
    return path


def write_table(
    columns: Mapping[str, ArrayLike], path: str | os.PathLike[str], *, about: Mapping[str, Any] | None = None
) -> Path:
    """Write columns of equal length as CSV or Parquet, by the extension of `path`, atomically; return the path.

    CSV has one line of names, and numbers with all their digits; Parquet needs the extra `lab`. The metadata
    `about` the table is part of the Parquet file, or a JSON file beside the CSV file.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     print(write_table({"t": [0.0, 1.0], "x": [1.0, 0.5]}, Path(folder) / "run.csv").read_text())
        t,x
        0.0,1.0
        1.0,0.5
        <BLANKLINE>
    """
    path = table_path(path)
    settings = path.with_suffix(".json")
    if settings.exists() and not (path.exists() and _has_keys(settings, about or {})):  # it belongs to something else
        settings = path.with_name(f"{path.name}.json")
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    if len({array.shape for array in arrays.values()}) > 1 or any(array.ndim != 1 for array in arrays.values()):
        shapes = {name: array.shape for name, array in arrays.items()}
        raise ValueError(f"the columns of a table must be one-dimensional and of the same length, got {shapes}.")
    with written_whole(path) as unfinished:
        if path.suffix.lower() == ".csv":
            with unfinished.open("w", newline="", encoding="utf-8") as file:
                write_csv(arrays, file)
        else:
            _write_parquet(arrays, unfinished, about or {})
    if about is not None and path.suffix.lower() == ".csv":
        with written_whole(settings) as unfinished:
            unfinished.write_text(json.dumps(dict(about), indent=2) + "\n", encoding="utf-8")
    return path


def _has_keys(path: Path, about: Mapping[str, Any]) -> bool:
    """Whether a JSON file has the keys of these settings, so that it is an earlier version of them."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.keys() == about.keys()


def write_csv(columns: Mapping[str, ArrayLike], stream: TextIO) -> None:
    """Write columns of equal length as CSV to an open file: one line of names, and numbers with all their digits.

    Example:
        >>> import sys
        >>> write_csv({"lr": [0.1], "method": ["SGD"]}, sys.stdout)
        lr,method
        0.1,SGD
    """
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(np.asarray(values).tolist() for values in columns.values()), strict=True))


def json_ready(value: Any) -> Any:
    """Plain data with None in the place of numbers that are not finite, which JSON cannot represent.

    Example:
        >>> json_ready({"rate": float("inf"), "k": (1, 2.5)})
        {'rate': None, 'k': [1, 2.5]}
    """
    if isinstance(value, Mapping):
        return {name: json_ready(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _write_parquet(arrays: Mapping[str, Any], path: Path, about: Mapping[str, Any]) -> None:
    from memgrad.extras import require

    require("writing Parquet", extra="lab", modules=("pyarrow",))
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table(dict(arrays))
    parquet.write_table(table.replace_schema_metadata({"memgrad": json.dumps(dict(about))}), path)
