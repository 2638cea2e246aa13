"""All figures of the paper: their names, settings, what the paper says they show, and what draws them.

The one table of figures is catalogue.toml. It is read by the command line at every start, so this loads nothing that
takes time: the function that draws a figure is given by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, final

from memgrad.paper import settings as of
from memgrad.paper.scales import PROBLEMS, SETTINGS, read_table

_ALL = tuple(f"{problem}-{setting}" for setting in SETTINGS for problem in PROBLEMS)
_NEEDS = {"all": _ALL, "classified": tuple(name for name in _ALL if not name.startswith("autoencoder"))}


@final
@dataclass(frozen=True)
class PaperFigure:
    """A figure of the paper. It is drawn from `settings`, or from the rows of the experiments it `needs`.

    Attributes:
        name: Its name on the command line.
        label: Its label in the paper's source, or the section it is in.
        title: What it is about, in one line.
        published: What the paper says it shows.
        shows: The picture in words, for those who do not see it.
        drawn_by: The module in `memgrad.paper` and the function that draw it.
        settings: The settings it is run with.
        needs: The experiments on real data whose rows it shows.
    """

    name: str
    label: str
    title: str
    published: str
    shows: str
    drawn_by: str
    settings: of.Settings | None = None
    needs: tuple[str, ...] = ()

    @property
    def is_random(self) -> bool:
        """Whether it depends on a seed."""
        return hasattr(self.settings, "seed")

    @property
    def where(self) -> str:
        """Its place in the paper."""
        return self.label if self.label.startswith(("App. ", "Sec. ")) else f"Fig. {self.label}"


def _figure(name: str, entry: Mapping[str, str]) -> PaperFigure:
    texts: dict[str, Any] = {key: text for key, text in entry.items() if key not in ("settings", "needs")}
    if "needs" in entry:
        return PaperFigure(name, **texts, needs=_NEEDS.get(entry["needs"], (entry["needs"],)))
    return PaperFigure(name, **texts, settings=getattr(of, entry["settings"])())


FIGURES: Mapping[str, PaperFigure] = MappingProxyType(
    {name: _figure(name, entry) for name, entry in read_table("catalogue.toml").items()}
)
"""All figures, in the paper's order; the last two show what it says in its text."""

SYNTHETIC: Mapping[str, PaperFigure] = MappingProxyType(
    {name: figure for name, figure in FIGURES.items() if not figure.needs}
)
"""Those that need no data set."""
