"""The explorer's page beside the pages of the documentation, so that one of them can show it in a frame."""

import shutil
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata


def copy(app: Sphinx, failure: Exception | None) -> None:
    """Put the page where docs/explorer.md looks for it. Not as index.html, which is the documentation's own."""
    from memgrad.explorer import PAGE

    if failure is None and app.builder.format == "html":
        shutil.copyfile(PAGE, Path(app.outdir) / "_static" / "memgrad_explorer.html")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Copy once everything else is written."""
    app.connect("build-finished", copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
