"""What verdicts and figures need besides the rows, so that they can be made without the data sets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.training.train import PICTURES
from memgrad.files import written_whole
from memgrad.paper.loss_claims import plateau_loss

KNOWN = "known.json"
"""The file of these facts, beside published rows."""


@final
@dataclass(frozen=True, eq=False)
class DataFacts:
    """Facts about the data sets that verdicts and figures need besides the rows.

    Attributes:
        plateau: The loss of the autoencoder's plateau on the examples of its full batch; None if it is not known.
        originals: The first test pictures, (pictures, height, width), from 0 to 1; None if they are not known.
    """

    plateau: float | None = None
    originals: NDArray[Any] | None = None

    def save(self, folder: Path) -> None:
        """Write them into a folder, pictures in 256 shades, which is all that they have."""
        shades = None if self.originals is None else np.rint(np.asarray(self.originals) * 255).astype(int).tolist()
        with written_whole(folder / KNOWN) as unfinished:
            unfinished.write_text(json.dumps({"plateau": self.plateau, "originals": shades}) + "\n", encoding="utf-8")

    def plateau_of(self, specs: Mapping[str, Spec]) -> float:
        """The plateau, from the data of the experiment if it is not known."""
        if self.plateau is not None:
            return self.plateau
        return plateau_loss(specs["autoencoder-full"].problem_choice.load())

    def originals_of(self, specs: Mapping[str, Spec]) -> NDArray[Any]:
        """The pictures, from the data of the experiment if they are not known."""
        if self.originals is not None:
            return self.originals
        problem = specs["autoencoder-mini"].problem_choice.load()
        assert problem.test is not None
        return np.asarray(problem.test[0][:PICTURES].reshape(-1, 28, 28).cpu().numpy())

    @classmethod
    def read(cls, folder: Path) -> DataFacts:
        """Those in a folder; nothing is known if it has none."""
        if not (folder / KNOWN).exists():
            return cls()
        data = json.loads((folder / KNOWN).read_text(encoding="utf-8"))
        shades = data["originals"]
        return cls(data["plateau"], None if shades is None else np.asarray(shades, dtype=float) / 255)
