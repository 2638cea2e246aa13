"""Code blocks without the blank line before their end, which doctests in markdown need and readers do not."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata


def strip(_app: Sphinx, doctree: nodes.document) -> None:
    """Remove the newlines at the end of each code block."""
    for block in doctree.findall(nodes.literal_block):
        block.rawsource = block.astext().rstrip("\n")
        block[:] = [nodes.Text(block.rawsource)]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Strip once a page is read."""
    app.connect("doctree-read", strip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
