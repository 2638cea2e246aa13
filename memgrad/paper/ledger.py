"""A record of the figures and verdicts in a folder, so that nothing is computed twice."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any, final

from memgrad.files import written_whole
from memgrad.paper.claims import Verdict


@final
class Ledger:
    """The figures and verdicts in a folder with the keys they were computed under, in made.json.

    Args:
        folder: The folder. A ledger that cannot be read counts as empty.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "made.json"
        try:
            entries = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            entries = {}
        self._entries: dict[str, dict[str, Any]] = entries if isinstance(entries, dict) else {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all figures and verdicts, under any key."""
        return tuple(self._entries)

    def files(self, name: str, key: str) -> tuple[Path, ...] | None:
        """The files of a figure, if it was made under this key and all of them exist."""
        found = self._entries.get(name, {})
        paths = tuple(self._folder / file for file in found.get("files", ()))
        return paths if paths and found.get("key") == key and all(path.exists() for path in paths) else None

    def verdict(self, name: str, key: str) -> Verdict | None:
        """The verdict on a claim, if it was made under this key."""
        found = self._entries.get(name, {})
        return Verdict.from_dict(found["verdict"]) if found.get("key") == key and "verdict" in found else None

    def forget(self, name: str) -> None:
        """Remove the record of a figure that is about to be drawn: its files may be half old, half new until then."""
        if self._entries.pop(name, None) is not None:
            self._save()

    def keep(self, name: str, key: str, **content: Any) -> None:
        """Record a figure or a verdict."""
        self._entries[name] = {"key": key, **content}
        self._save()

    def _save(self) -> None:
        with written_whole(self._path) as unfinished:
            unfinished.write_text(json.dumps(self._entries, indent=1) + "\n", encoding="utf-8")


@cache
def source_digest() -> str:
    """A digest of memgrad's source files: if any changes, earlier figures and verdicts may be out of date."""
    package = Path(__file__).parent.parent
    content = hashlib.sha256()
    for path in sorted(each for ending in ("*.py", "*.toml") for each in package.rglob(ending)):
        content.update(path.relative_to(package).as_posix().encode())
        content.update(path.read_bytes())
    return content.hexdigest()[:32]
