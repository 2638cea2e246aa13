"""The entry point of the command line; without the extra `lab` it says what to install."""

from __future__ import annotations

import sys

from memgrad.extras import require


def main() -> None:
    """Run the command line."""
    try:
        require("the memgrad command", extra="lab", modules=("typer", "rich"))
    except ImportError as error:
        sys.exit(str(error))
    from memgrad.cli import app

    app()


if __name__ == "__main__":
    main()
