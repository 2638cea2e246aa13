"""User code by its name, `file.py:NAME` or `module:NAME`: finding it, reading its source, running it."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import site
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, final


class EndedProcessError(RuntimeError):
    """The user's code would have ended the process, with `sys.exit()` or the like."""


_IMPORTED: dict[str, str] = {}
"""The digest that the source of a user's module had when it was imported."""
_FOLDERS: set[Path] = set()
"""The folders from which user code has imported its own modules."""


@final
@dataclass(frozen=True)
class Reference:
    """An object in user code, by its name.

    Attributes:
        place: A path that ends with .py, or the name of a module.
        attribute: The name of the object there; empty if none is given.

    Example:
        >>> Reference.parse("folder/mine.py:problem")
        Reference(place='folder/mine.py', attribute='problem')
        >>> Reference.parse("mine.py").attribute
        ''
    """

    place: str
    attribute: str

    @classmethod
    def parse(cls, name: str) -> Reference:
        """The reference that a name such as `file.py:NAME`, `file.py` or `module:NAME` stands for."""
        place, colon, attribute = name.rpartition(":")
        if not colon or attribute.endswith(".py"):  # no name is given, or the colon is that of a Windows drive
            return cls(name, "")
        return cls(place, attribute)

    @property
    def is_file(self) -> bool:
        """Whether the place is a file."""
        return self.place.endswith(".py")

    @property
    def folder(self) -> Path:
        """The folder from which the code imports its own modules."""
        return Path(self.place).resolve().parent if self.is_file else Path.cwd()

    @property
    def label(self) -> str:
        """The name without the folder, so that moving the folder does not change it."""
        return f"{Path(self.place).name if self.is_file else self.place}:{self.attribute}"

    def check(self, what: str) -> None:
        """Refuse a place that cannot contain code; `what` names what is looked for."""
        if self.is_file:
            if not Path(self.place).is_file():
                raise FileNotFoundError(2, f"No such file, asked for {what}", self.place)
        elif not all(part.isidentifier() for part in self.place.split(".")):
            raise ValueError(
                f"{what} cannot be in {self.place!r}, which is neither a file that ends with .py nor the name of a "
                f"module; for a file write {self.place.rstrip('/.') or 'file'}.py:{self.attribute or 'NAME'}."
            )

    def source(self) -> bytes | None:
        """The source of its file; None for a module without one, such as one written in C."""
        if self.is_file:
            return Path(self.place).read_bytes()
        origin = self._origin()
        return Path(origin).read_bytes() if origin.endswith(".py") else None

    def is_installed(self) -> bool:
        """Whether its module is Python's own or installed, or cannot be found: not a file that the user works on."""
        origin = self._origin()
        if not origin.endswith(".py"):
            return True
        # Not the prefix, which sysconfig has too: in containers it is /usr/local, and users put their code below it.
        paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
        installed = {*paths, *site.getsitepackages(), site.getusersitepackages(), str(Path(__file__).parent)}
        parents = Path(origin).resolve().parents
        return any(Path(folder).resolve() in parents for folder in installed)

    def _origin(self) -> str:
        """The file of its module; empty if there is none."""
        with importable(self.folder):
            try:
                found = importlib.util.find_spec(self.place)
            except (ImportError, ValueError):  # its package cannot be imported; loading it says why
                return ""
        return "" if found is None else found.origin or ""

    def module_name(self, digest: str) -> str:
        """The name of its module in `sys.modules`: a file with another source is another module."""
        return f"memgrad_user_{Path(self.place).stem}_{digest[:16]}" if self.is_file else self.place


def names_code(name: str) -> bool:
    """Whether a name refers to user code rather than to something in memgrad.

    Example:
        >>> names_code("mine.py"), names_code("module:name"), names_code("logistic")
        (True, True, False)
    """
    return ":" in name or name.endswith(".py") or "/" in name or os.sep in name or name.startswith(".")


def beside(name: str, folder: str | os.PathLike[str] | None) -> str:
    """The name with its file, or the file of its module, in a folder: that of the experiment that uses the name.

    A module without a file there is found by Python.
    """
    if folder is None or not names_code(name):
        return name
    reference = Reference.parse(name)
    colon = f":{reference.attribute}" if reference.attribute else ""
    if reference.is_file:
        return name if Path(reference.place).is_absolute() else f"{Path(folder) / reference.place}{colon}"
    file = Path(folder) / f"{reference.place}.py"
    return f"{file}{colon}" if reference.place.isidentifier() and file.is_file() else name


def load(
    what: str,
    reference: Reference,
    *,
    wants: str,
    offers: Callable[[ModuleType], list[str]],
    digest: str | None = None,
    fresh: bool = False,
) -> Any:
    """The object that a reference names. Its code is run, unless it was loaded before.

    Args:
        what: What it is for, for errors, such as `problem 'mine.py:problem'`.
        reference: Where it is.
        wants: A description of suitable objects, for errors.
        offers: The names of suitable objects in a module, for errors.
        digest: The digest that the source must have, if any. A module with this source that was loaded before is used,
            even if its file is gone.
        fresh: Whether to run a file again even if it was run before: what it reads may have changed.
    """
    with importable(reference.folder), blaming(what):
        module = _run_file(what, reference, digest, fresh) if reference.is_file else _imported(reference, digest)
    if not reference.attribute or not hasattr(module, reference.attribute):
        lacks = f"has no {reference.attribute!r}" if reference.attribute else "is given without a name"
        raise ValueError(
            f"{what}: {reference.place} {lacks}; it has {', '.join(offers(module)) or 'nothing suitable'}. Write "
            f"{reference.place}:NAME, with the name of {wants}."
        )
    return getattr(module, reference.attribute)


def digest_of(source: bytes) -> str:
    """The digest of a source: 32 hexadecimal digits."""
    return hashlib.sha256(source).hexdigest()[:32]


def _imported(reference: Reference, digest: str | None) -> ModuleType:
    """A module whose source has the digest; one that was imported before it was edited is run again.

    A module that was sent from elsewhere is what it was there.
    """
    is_new = reference.place not in sys.modules
    module = importlib.import_module(reference.place)
    if digest is None or not (is_new or reference.place in _IMPORTED):
        return module
    source = reference.source() if is_new or _IMPORTED[reference.place] != digest else None
    if source is not None:
        if digest_of(source) != digest:
            raise ValueError("its module has changed since the experiment was read; start again")
        if not is_new:
            exec(compile(source, str(module.__file__), "exec", dont_inherit=True), vars(module))  # noqa: S102
        _IMPORTED[reference.place] = digest
    return module


def _run_file(what: str, reference: Reference, digest: str | None, fresh: bool) -> ModuleType:
    if digest is not None and not fresh and (known := sys.modules.get(reference.module_name(digest))) is not None:
        return known
    reference.check(what.partition(" ")[0])
    source = Path(reference.place).read_bytes()
    if digest not in (None, digest_of(source)):
        raise ValueError("its file has changed since the experiment was read; start again")
    name = reference.module_name(digest_of(source))
    if not fresh and name in sys.modules:
        return sys.modules[name]
    path = str(Path(reference.place).resolve())
    spec = importlib.util.spec_from_file_location(name, path, loader=SourceFileLoader(name, path))
    assert spec is not None  # it has a loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # workers and classes find it again under its name
    try:
        # The text that was digested, because Python's cache of compiled files misses a change within a second.
        exec(compile(source, path, "exec", dont_inherit=True), vars(module))  # noqa: S102  # the user asked for it
    except BaseException:
        del sys.modules[name]
        raise
    return module


# --- errors ----------------------------------------------------------------------------------------------------------


@contextmanager
def contained() -> Iterator[None]:
    """Turn what would end the process into an ordinary error: a file that calls `sys.exit(0)` has not succeeded."""
    try:
        yield
    except (Exception, KeyboardInterrupt, GeneratorExit):  # Ctrl-C is the user's, not the code's
        raise
    except SystemExit as error:
        code = "" if error.code is None else repr(error.code)
        raise EndedProcessError(f"it called sys.exit({code})") from error
    except BaseException as error:
        raise EndedProcessError(f"it raised {type(error).__name__}, which would end the process: {error}") from error


@contextmanager
def blaming(what: str) -> Iterator[None]:
    """Turn an error in user code into one that gives its message, file and line."""
    try:
        with contained(), _staying():
            yield
    except Exception as error:
        cause = error.__cause__ if isinstance(error, EndedProcessError) else error
        ours = (str(Path(__file__).parent), str(Path(importlib.__file__).parent), "<")
        frames = [f for f in traceback.extract_tb((cause or error).__traceback__) if not f.filename.startswith(ours)]
        place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
        raise ValueError(f"{what} could not be made: {described(error)}{place}") from error


@contextmanager
def _staying() -> Iterator[None]:
    """Turn `os._exit()` into an error too: it cannot be caught, and the exit would look like success."""
    real, here = os._exit, os.getpid()

    def refuse(status: int) -> NoReturn:
        if os.getpid() != here:  # a process that the code has forked
            real(status)
        raise EndedProcessError(f"it called os._exit({status!r})")

    os._exit = refuse
    try:
        yield
    finally:
        os._exit = real


def described(error: BaseException) -> str:
    """An error as text: its type and message."""
    return str(error) if isinstance(error, EndedProcessError) else f"{type(error).__name__}: {error}"


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Let user code import the modules in its folder, as it could if it were run as a script."""
    _forget_others(folder)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        with suppress(ValueError):  # the code may have removed it
            sys.path.remove(str(folder))


def _forget_others(folder: Path) -> None:
    """Forget the modules of other folders of users that this one has too: `import utils` means its own.

    Code that has imported them keeps them.
    """
    here = folder.resolve()
    others = _FOLDERS - {here}
    _FOLDERS.add(here)
    for name, module in list(sys.modules.items()) if others else ():
        origin = getattr(module, "__file__", None)
        if origin is None or "." in name or name in ("memgrad", "__main__"):  # a checkout may be beside user code
            continue
        path = Path(origin)
        home = path.parent.parent if path.name == "__init__.py" else path.parent
        if home in others and ((here / f"{name}.py").exists() or (here / name / "__init__.py").exists()):
            for other in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
                del sys.modules[other]
