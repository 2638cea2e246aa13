"""The table of mutations: small changes of a module's syntax tree, each a mistake that somebody could make.

What only words a message (raised errors, f-strings), types (annotations), decorates, or states that two lengths are
equal (`strict` of `zip`) is left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Change = Callable[[], None]

COMPARED: dict[type[ast.cmpop], list[type[ast.cmpop]]] = {
    ast.Lt: [ast.LtE, ast.Gt],
    ast.LtE: [ast.Lt, ast.Gt],
    ast.Gt: [ast.GtE, ast.Lt],
    ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
# A function by another of the same arguments; `expm1` and `log1p` by those that lose the digits they are for.
CALLED = {
    "round": "int",
    "ceil": "floor",
    "floor": "ceil",
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "any": "all",
    "all": "any",
    "sorted": "list",
    "abs": "float",
    "expm1": "exp",
    "log1p": "log",
    "mean": "sum",
    "argmin": "argmax",
    "argmax": "argmin",
}


@dataclass(frozen=True)
class Mutant:
    """A change of a module: `apply` makes it in the tree; `statement` is the statement that it changes."""

    line: int
    kind: str
    function: str
    statement: ast.stmt
    apply: Change

    def difference(self) -> tuple[str, str]:
        """The statement's first lines before and after; the change is made."""
        before = ast.unparse(self.statement)
        self.apply()
        after = ast.unparse(ast.fix_missing_locations(self.statement))
        pairs = zip(before.splitlines(), [*after.splitlines(), *[""] * before.count("\n")], strict=False)
        return next(((a.strip(), b.strip()) for a, b in pairs if a != b), (before, after))


def mutants(tree: ast.Module) -> list[Mutant]:
    """All mutants of a module, in the order of its text; the place in this list is a mutant's number."""
    return list(_of(tree.body, tree.body, "", None))


def _of(node: object, parent: object, function: str, statement: ast.stmt | None) -> Iterator[Mutant]:
    if isinstance(node, list):
        for child in node:
            yield from _of(child, parent, function, statement)
    if not isinstance(node, ast.AST) or isinstance(node, ast.JoinedStr | ast.Import | ast.ImportFrom):
        return
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return
    if isinstance(node, ast.stmt):
        statement = node
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        function = f"{function}.{node.name}" if function else node.name
    if _is_left_alone(node):
        return
    if statement is not None:
        for kind, change in _changes(node):
            yield Mutant(getattr(node, "lineno", statement.lineno), kind, function, statement, change)
    if isinstance(node, ast.Raise):
        return
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "returns", "decorator_list", "bases", "type_params"):
            yield from _of(value, node, function, statement)


def _is_left_alone(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    names = [ast.unparse(target) for target in node.targets] if isinstance(node, ast.Assign) else []
    return names == ["__all__"] or (isinstance(node, ast.Call) and ast.unparse(node.func) in ("TypeVar", "NewType"))


def _changes(node: ast.AST) -> Iterator[tuple[str, Change]]:
    match node:
        case ast.Compare(ops=ops):
            for i, op in enumerate(ops):
                for other in COMPARED[type(op)]:
                    yield "comparison", _setting_item(ops, i, other())
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in COMPUTED:
            yield "arithmetic", _setting(node, op=COMPUTED[type(op)]())
        case ast.UnaryOp(op=ast.USub()):
            yield "sign", _setting(node, op=ast.UAdd())
        case ast.BoolOp(op=op):
            yield "and, or", _setting(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.Constant(value=bool(value)):
            yield "constant", _setting(node, value=not value)
        case ast.Constant(value=int() | float() as value):
            yield "constant", _setting(node, value=value + 1 if value + 1 != value else value * 2)
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.comprehension(ifs=[test]):
            name = "ifs" if isinstance(node, ast.comprehension) else "test"
            negated = ast.UnaryOp(ast.Not(), test)
            yield "condition", _setting(node, **{name: [negated] if name == "ifs" else negated})
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield "return", _setting(node, value=ast.Constant(None))
        case ast.Expr(value=ast.Call()):
            yield "statement", _setting(node, value=ast.Constant(None))
        case ast.Raise():
            yield "raise", _becoming_pass(node)
        case ast.Call(func=func, keywords=keywords):
            yield from _changes_of_call(func, keywords)


def _changes_of_call(func: ast.expr, keywords: list[ast.keyword]) -> Iterator[tuple[str, Change]]:
    if isinstance(func, ast.Name) and func.id in CALLED:
        yield "function", _setting(func, id=CALLED[func.id])
    if isinstance(func, ast.Attribute) and func.attr in CALLED:
        yield "function", _setting(func, attr=CALLED[func.attr])
    for keyword in keywords:
        if keyword.arg not in (None, "strict"):
            yield "keyword", _removing(keywords, keyword)


def _setting(node: ast.AST, **fields: object) -> Change:
    return lambda: [setattr(node, name, value) for name, value in fields.items()] and None


def _setting_item(items: list[ast.cmpop], i: int, item: ast.cmpop) -> Change:
    return lambda: items.__setitem__(i, item)


def _removing(items: list[ast.keyword], item: ast.keyword) -> Change:
    return lambda: items.remove(item)


def _becoming_pass(node: ast.Raise) -> Change:
    def change() -> None:
        node.__class__ = ast.Expr  # type: ignore[assignment]  # in place, wherever the statement stands
        node.__dict__.pop("exc", None), node.__dict__.pop("cause", None)
        node.value = ast.Constant(None)  # type: ignore[attr-defined]

    return change
