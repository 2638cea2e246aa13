"""Provenance of results: versions, commit and machine."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

import memgrad


def provenance() -> dict[str, Any]:
    """Versions, commit and machine, as plain data.

    Example:
        >>> sorted(provenance())
        ['commit', 'machine', 'time', 'versions']
    """
    return {
        "versions": {
            "memgrad": memgrad.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "commit": commit(),
        "machine": {"host": platform.node(), "system": platform.platform(), "cores": os.cpu_count(), "cpu": _cpu()},
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


@cache
def commit() -> str | None:
    """The commit of the running code, with a + if it was modified since; None if it is not in a repository."""
    folder = Path(memgrad.__file__).parent

    def git(*words: str) -> str:
        found = subprocess.run(  # noqa: S603  # fixed words
            ["git", "-C", str(folder), *words],  # noqa: S607  # whichever git the user has
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
        return found.stdout.strip()

    try:
        if not git("ls-files", "--", "__init__.py"):  # installed inside another repository
            return None
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return None


@cache
def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
