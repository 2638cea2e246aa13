"""Folders that cannot be written, also by root, who gives up that right for the while."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def locked(*folders: Path) -> Iterator[None]:
    """Within, the folders can be read but not written, even by root.

    The folders above them must be open to all: take a folder of `tempfile` and lock it too, not one of pytest, which
    its owner alone may enter.
    """
    for folder in folders:
        folder.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        for folder in folders:
            folder.chmod(0o755)
