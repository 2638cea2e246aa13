"""Pickles of plain data and numpy arrays, read without executing anything: names in them are compared, never imported.

A pickle is a program for a stack machine. Two of its instructions can run any code: one fetches a name from any
module, the other calls it. Here a name is only a text, and the calls are those that numpy writes for an array, each
carried out by our own few lines. Everything else is refused.
"""

from __future__ import annotations

import pickletools
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class _Name:
    """A name the pickle asks for, as a text."""

    text: str


@dataclass
class _Dtype:
    """A type of array elements, such as `u1`."""

    code: str
    big_endian: bool = False

    def dtype(self) -> np.dtype[Any]:
        if self.code[:1] not in "biuf":
            raise ValueError(f"the pickle holds an array of type {self.code!r}; only numbers are read.")
        return np.dtype(self.code).newbyteorder(">" if self.big_endian else "<")


@dataclass
class _Array:
    """An array, empty until its state is given."""

    value: Any = None


@dataclass
class _Machine:
    stack: list[Any] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def since_mark(self) -> list[Any]:
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items


_VALUES = frozenset(
    (
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
        *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    )
)
_PYTHON_2_STRINGS = frozenset(("STRING", "BINSTRING", "SHORT_BINSTRING"))
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def read(data: bytes) -> Any:
    r"""The value of a pickle made of dicts, lists, tuples, numbers, texts, bytes and numpy arrays of numbers.

    Texts of Python 2 are bytes here, as those of the CIFAR batches are.

    Example:
        >>> import pickle
        >>> read(pickle.dumps({"labels": [6, 9], "data": np.array([[59, 62]], dtype="u1")}))
        {'labels': [6, 9], 'data': array([[59, 62]], dtype=uint8)}
        >>> read(b"cos\nsystem\n(S'echo no'\ntR.")
        Traceback (most recent call last):
        ...
        ValueError: the pickle calls os.system, which is not data: it is refused, and nothing of it was executed.
    """
    machine = _Machine()
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "STOP":
                break
            _step(machine, opcode.name, argument)
        return _plain(machine.stack.pop(), {})
    except (IndexError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"not a pickle, or damaged: {error!r}.") from error


def _table(items: list[Any]) -> dict[Any, Any]:
    """The dict of keys and values in turn. Keys are texts or numbers: hashing tuples in tuples ends the process."""
    if not all(isinstance(key, str | bytes | int) for key in items[0::2]):
        raise TypeError("the key of a dict is neither a text nor a number")
    return dict(zip(items[0::2], items[1::2], strict=True))


def _step(machine: _Machine, op: str, argument: Any) -> None:
    stack, memo = machine.stack, machine.memo
    if op in _VALUES:
        stack.append(argument)
    elif op in _PYTHON_2_STRINGS:
        stack.append(argument.encode("latin-1"))
    elif op in _CONSTANTS:
        stack.append(_CONSTANTS[op])
    elif op == "MARK":
        machine.marks.append(len(stack))
    elif op in ("EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE"):
        stack.append({"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}[op]())
    elif op in _TUPLES:
        stack[-_TUPLES[op] :] = [tuple(stack[-_TUPLES[op] :])]
    elif op == "TUPLE":
        stack.append(tuple(machine.since_mark()))
    elif op == "LIST":
        stack.append(machine.since_mark())
    elif op == "DICT":
        items = machine.since_mark()
        stack.append(_table(items))
    elif op in ("APPEND", "APPENDS"):
        items = machine.since_mark() if op == "APPENDS" else [stack.pop()]
        stack[-1].extend(items)
    elif op in ("SETITEM", "SETITEMS"):
        items = machine.since_mark() if op == "SETITEMS" else [stack.pop(), stack.pop()][::-1]
        stack[-1].update(_table(items))
    elif op in ("PUT", "BINPUT", "LONG_BINPUT"):
        memo[argument] = stack[-1]
    elif op == "MEMOIZE":
        memo[len(memo)] = stack[-1]
    elif op in ("GET", "BINGET", "LONG_BINGET"):
        stack.append(memo[argument])
    elif op == "GLOBAL":
        stack.append(_Name(argument.replace(" ", ".")))
    elif op == "STACK_GLOBAL":
        name, module = stack.pop(), stack.pop()
        stack.append(_Name(f"{module}.{name}"))
    elif op == "REDUCE":
        arguments, name = stack.pop(), stack.pop()
        stack.append(_called(name, arguments))
    elif op == "BUILD":
        state, made = stack.pop(), stack[-1]
        _build(made, state)
    elif op not in ("PROTO", "FRAME"):
        raise ValueError(f"the pickle uses {op}, which plain data do not need: it is refused.")


def _called(name: Any, arguments: tuple[Any, ...]) -> Any:
    """What numpy's own calls in a pickle would give: `name` says which, and nothing else is known."""
    text = name.text if isinstance(name, _Name) else repr(name)
    if text in ("numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct"):
        return _Array()
    if text == "numpy.dtype":
        return _Dtype(_text(arguments[0]))
    if text in ("numpy.core.numeric._frombuffer", "numpy._core.numeric._frombuffer"):
        buffer, dtype, shape, order = arguments
        return _Array(np.frombuffer(buffer, dtype.dtype()).reshape(shape, order="F" if _text(order) == "F" else "C"))
    if text == "_codecs.encode":  # how Python 3 writes bytes for Python 2
        return arguments[0].encode("latin-1")
    raise ValueError(f"the pickle calls {text}, which is not data: it is refused, and nothing of it was executed.")


def _build(made: Any, state: tuple[Any, ...]) -> None:
    if isinstance(made, _Dtype):
        made.big_endian = _text(state[1]) == ">"
    elif isinstance(made, _Array):
        _version, shape, dtype, by_columns, buffer = state
        made.value = np.frombuffer(buffer, dtype.dtype()).reshape(shape, order="F" if by_columns else "C")
    else:
        raise ValueError(f"the pickle sets the state of a {type(made).__name__}: it is refused.")


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _plain(value: Any, seen: dict[int, Any]) -> Any:
    """The value with its arrays in place of our stand-ins; `seen` keeps what is shared from being walked twice."""
    if id(value) in seen:
        return seen[id(value)]
    if isinstance(value, _Name):
        raise ValueError(f"the pickle holds {value.text}, which is not data: it is refused.")
    seen[id(value)] = value
    if isinstance(value, dict):
        seen[id(value)] = {key: _plain(each, seen) for key, each in value.items()}
    elif isinstance(value, (list, tuple)):
        seen[id(value)] = type(value)(_plain(each, seen) for each in value)
    elif isinstance(value, _Array):
        seen[id(value)] = value.value
    return seen[id(value)]
