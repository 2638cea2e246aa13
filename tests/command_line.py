"""What a command prints."""

from __future__ import annotations

import re

from typer.testing import CliRunner

from memgrad.cli import app


def printed(*words: str) -> str:
    """The output of `memgrad WORDS` on a wide terminal without colors, as one line without frames."""
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"})
    return re.sub(r"[\s│]+", " ", result.output)
