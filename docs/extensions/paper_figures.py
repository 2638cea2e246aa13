"""The figures of the pages that take a second, drawn by the library itself before the pages are read.

Those that take longer are in `images/paper`, as `memgrad plot NAME --out docs/images/paper/NAME.svg` wrote them.
"""

from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata


def draw(app: Sphinx) -> None:
    """Write each figure into `_generated`, beside the pages."""
    from memgrad import figures
    from memgrad.paper.figures import draw as draw_of_paper
    from memgrad.problems import datasets

    generated = Path(app.srcdir) / "_generated"
    types = figures.memory_types()
    types.set_size_inches(4.8, 4.0)  # narrower than for print, so that its letters can be read on a phone
    figures.save(types, generated / "memory_types.svg")
    figures.save(figures.objective_shapes(), generated / "objectives.svg")
    for name in datasets.names():
        figures.save(figures.data_set(datasets.sample(name)), generated / f"{name}.png")
    for name in ("bound-beta", "bound-beta-2", "p-verification"):
        figures.save(draw_of_paper(name).figure, generated / f"{name}.svg")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Draw when the builder is ready, not when this file is imported."""
    app.connect("builder-inited", draw)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
