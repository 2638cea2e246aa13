"""Figures that take time say how far they are."""

from __future__ import annotations

import pytest

from memgrad.paper import figures
from memgrad.paper.catalogue import SYNTHETIC

AT_ONCE = {"memories", "quadratic-variance", "bound-beta", "bound-beta-2"}  # formulas


@pytest.mark.parametrize("name", [name for name in SYNTHETIC if name not in AT_ONCE])
def test_a_slow_figure_reports_its_progress(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []

    class Enough(Exception):
        pass

    def progress(done: int, total: int) -> None:
        told.append((done, total))
        raise Enough  # the first word is enough: what follows takes seconds

    with pytest.raises(Enough):
        figures.draw(name, progress=progress)
    [(done, total)] = told
    assert 0 <= done <= total
    assert total > 0
