"""Names that moved: the old one still works, and warns."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


def deprecated_names(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's `__getattr__` that finds its deprecated names under their new ones, with a `DeprecationWarning`.

    Args:
        module: The module, `__name__`.
        names: The full new name of each deprecated one.

    Example:
        >>> import warnings
        >>> find = deprecated_names("here", {"Old": "fractions.Fraction"})
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     print(find("Old").__name__, caught[0].message)
        Fraction here.Old is deprecated; use fractions.Fraction.
    """

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(f"{module}.{name} is deprecated; use {names[name]}.", DeprecationWarning, stacklevel=2)
        where, _, attribute = names[name].rpartition(".")
        return getattr(import_module(where), attribute)

    return find


def renamed(old: str, new: str) -> property:
    """A property for the old name of an attribute or method: it returns the new one, with a `DeprecationWarning`.

    Args:
        old: The deprecated name.
        new: The name to use.

    Example:
        >>> class Thing:
        ...     size = 3
        ...     width = renamed("width", "size")
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     print(Thing().width, caught[0].message)
        3 Thing.width is deprecated; use size.
    """

    def find(self: object) -> Any:
        warnings.warn(f"{type(self).__name__}.{old} is deprecated; use {new}.", DeprecationWarning, stacklevel=2)
        return getattr(self, new)

    return property(find, doc=f"Deprecated name of `{new}`.")


def deprecated_modules(modules: Mapping[str, Mapping[str, str]]) -> None:
    """Let modules that moved be imported under their old names, with a `DeprecationWarning` for each name used.

    Args:
        modules: For each old module, the full new name of each of its names.

    Example:
        >>> deprecated_modules({"numbers_that_moved": {"Old": "fractions.Fraction"}})
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     from numbers_that_moved import Old
        >>> Old.__name__, str(caught[0].message)
        ('Fraction', 'numbers_that_moved.Old is deprecated; use fractions.Fraction.')
    """
    for name, names in modules.items():
        module = ModuleType(name, "Moved; the names still work, and warn.")
        module.__getattr__ = deprecated_names(name, names)  # type: ignore[method-assign]  # PEP 562
        sys.modules[name] = module
        parent, _, last = name.rpartition(".")
        owner = sys.modules.get(parent)
        if owner is not None and not hasattr(owner, last):  # `import` sets it for files only
            setattr(owner, last, module)
