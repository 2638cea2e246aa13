"""Published results: the rows behind verdicts, kept in a folder of the repository.

The rows of a scale are a small store, `FOLDER/rows/SCALE`, without checkpoints. Copying them into another store lets
`memgrad reproduce` resume there. `known.json` beside them has what verdicts and figures need of the data sets, so that
the published report can be made without them.
"""

from __future__ import annotations

from pathlib import Path

from memgrad.experiments.storing.store import Store
from memgrad.paper.scales import scales

ROWS = "rows"
"""The folder of published rows, which has a store for each scale."""


def published_scales(folder: Path) -> tuple[str, ...]:
    """The scales whose rows a folder has, from small to large."""
    return tuple(name for name in scales() if Store.exists(folder / ROWS / name))


def published_store(folder: Path, scale: str) -> Store:
    """The rows of a scale in a folder of published results."""
    place = folder / ROWS / scale
    if not Store.exists(place):
        known = ", ".join(published_scales(folder)) or "none"
        raise FileNotFoundError(f"{folder} has no published rows of the scale {scale!r}; it has those of: {known}.")
    return Store.open(place, create=False)
