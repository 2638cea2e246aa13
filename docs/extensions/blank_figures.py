"""In the place of figures and tables that are drawn and computed: nothing, where the pages are only checked.

`make test` builds the pages so, in half of the time; `make docs` draws.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

# Of one pixel, transparent: https://www.w3.org/TR/png/
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010804000000b51c0c02"
    "0000000b4944415478da6364600000000600023081d02f0000000049454e44ae426082"
)
BLANK = {
    ".svg": b'<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>\n',
    ".png": PIXEL,
    ".md": b"Left out.\n",
}


def write(app: Sphinx) -> None:
    """Write what the pages take from `_generated` and is not there."""
    source = Path(app.srcdir)
    generated = source / "_generated"
    generated.mkdir(exist_ok=True)
    for page in source.glob("*.md"):
        for name in re.findall(r"_generated/([\w.-]+\.\w+)", page.read_text(encoding="utf-8")):
            if not (generated / name).exists():
                (generated / name).write_bytes(BLANK[Path(name).suffix])


def setup(app: Sphinx) -> ExtensionMetadata:
    """Write when the builder is ready, as those do that draw."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
