"""What `memgrad reproduce` still has to train, asked before anything is."""

from __future__ import annotations

from pathlib import Path

from memgrad.experiments.storing.store import Store
from memgrad.paper.reproduction import unfinished


def test_an_empty_store_lacks_what_figures_and_claims_need(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store")
    assert unfinished(["padam"], "quick", store) == ("polyadam",)
    assert unfinished(["A1", "padam"], "quick", store) == ("polyadam",)
    assert unfinished(["S1", "memories"], "quick", store) == ()
