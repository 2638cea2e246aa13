"""Optional dependencies: the error that names the extra to install."""

from __future__ import annotations

from importlib.util import find_spec


def require(part: str, *, extra: str, modules: tuple[str, ...]) -> None:
    """Raise an ImportError that names the extra if one of `modules`, which `part` needs, is not installed.

    Example:
        >>> require("memgrad.imaginary", extra="lab", modules=("numpy", "no_such_module"))
        Traceback (most recent call last):
        ...
        ImportError: memgrad.imaginary needs no_such_module, which is not installed: pip install 'memgrad[lab]'
    """
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        verb = "which is" if len(missing) == 1 else "which are"
        raise ImportError(
            f"{part} needs {', '.join(missing)}, {verb} not installed: pip install 'memgrad[{extra}]'", name=missing[0]
        )
