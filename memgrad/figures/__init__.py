"""Pictures of memories, of data and of what comes out: values in, matplotlib figures out. Nothing is run here."""

from memgrad.extras import require

require("memgrad.figures", extra="lab", modules=("matplotlib",))

from memgrad.figures.datasets import data_set  # noqa: E402  # after the check, which names the extra
from memgrad.figures.ensembles import ensembles  # noqa: E402
from memgrad.figures.memories import PAPER_MEMORIES, memory_types  # noqa: E402
from memgrad.figures.objectives import example_objectives, objective_shapes  # noqa: E402
from memgrad.figures.style import FORMATS, figure_path, save  # noqa: E402

__all__ = [
    "FORMATS",
    "PAPER_MEMORIES",
    "data_set",
    "ensembles",
    "example_objectives",
    "figure_path",
    "memory_types",
    "objective_shapes",
    "save",
]
