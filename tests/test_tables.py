"""Tables are whole, exact, and say where they come from."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from memgrad import tables
from memgrad.tables import write_table


def test_csv_keeps_every_digit(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal(50) * 10.0 ** np.arange(-25, 25)
    path = tables.write_table({"x": values, "n": np.arange(50)}, tmp_path / "deep" / "table.csv")
    read = np.genfromtxt(path, delimiter=",", names=True)
    assert np.array_equal(read["x"], values)
    assert np.array_equal(read["n"], np.arange(50))


def test_parquet_is_read_by_others_with_its_provenance(tmp_path: Path) -> None:
    from pyarrow import parquet

    path = tables.write_table({"flow": ["a", "b"], "x": [0.1, 0.2]}, tmp_path / "t.parquet", about={"seed": 3})
    table = parquet.read_table(path)
    assert table.to_pydict() == {"flow": ["a", "b"], "x": [0.1, 0.2]}
    assert json.loads(table.schema.metadata[b"memgrad"]) == {"seed": 3}


def test_csv_has_its_provenance_beside_it(tmp_path: Path) -> None:
    path = tables.write_table({"x": [1.0]}, tmp_path / "t.csv", about={"seed": 3})
    assert json.loads(path.with_suffix(".json").read_text()) == {"seed": 3}


@pytest.mark.parametrize(
    ("columns", "name", "complaint"),
    [
        ({"x": [1.0]}, "t.xlsx", r"\.csv or \.parquet.*t\.xlsx"),
        ({"x": [1.0], "y": [1.0, 2.0]}, "t.csv", r"of the same length.*'y': \(2,\)"),
        ({"x": [[1.0]]}, "t.csv", r"one-dimensional.*\(1, 1\)"),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, columns: dict[str, list[float]], name: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        tables.write_table(columns, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_settings_beside_a_table_do_not_replace_another_file(tmp_path: Path) -> None:
    (tmp_path / "d.json").write_text("precious")
    write_table({"k": [1]}, tmp_path / "d.csv", about={"nu": 1})
    assert (tmp_path / "d.json").read_text() == "precious"
    assert json.loads((tmp_path / "d.csv.json").read_text()) == {"nu": 1}
    write_table({"k": [1]}, tmp_path / "e.csv", about={"nu": 1})
    write_table({"k": [1]}, tmp_path / "e.csv", about={"nu": 2})
    assert json.loads((tmp_path / "e.json").read_text()) == {"nu": 2}


def test_settings_of_something_else_are_not_overwritten_however_often_a_table_is_written(tmp_path: Path) -> None:
    table, other = tmp_path / "r.csv", tmp_path / "r.json"
    other.write_text('{"mine": 1}')
    for value in (1, 2):
        tables.write_table({"x": [1.0]}, table, about={"lr": value})
        assert other.read_text() == '{"mine": 1}'
        assert json.loads((tmp_path / "r.csv.json").read_text()) == {"lr": value}
    # One that takes the place of our own is spared as well.
    again = tmp_path / "s.csv"
    tables.write_table({"x": [1.0]}, again, about={"lr": 1})
    tables.write_table({"x": [1.0]}, again, about={"lr": 2})
    assert json.loads((tmp_path / "s.json").read_text()) == {"lr": 2}
    (tmp_path / "s.json").write_text('{"mine": 1}')
    tables.write_table({"x": [1.0]}, again, about={"lr": 3})
    assert (tmp_path / "s.json").read_text() == '{"mine": 1}'
