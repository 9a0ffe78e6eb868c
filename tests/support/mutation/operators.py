"""Mutation operators: all small changes that can be made in a module's syntax tree.

Left alone, because no result depends on them: annotations, docstrings, assertions, decorators,
`__all__` and words of errors (whether an error is raised is changed).
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
"""Replacements of each operator."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """Small change of a module.

    Members
    -------
    index : among the module's changes, in the order of its text.
    scope : function or class around it, dotted; "" in the module itself.
    before, after : the changed piece of the program.
    ordinal : among the same changes of the same scope.
    lines : of the piece, and the first line of its statement; a test that runs none cannot notice.
    imported : it is evaluated when the module is imported, so that any test may notice.
    """

    index: int
    scope: str
    before: str
    after: str
    ordinal: int
    lines: frozenset[int]
    imported: bool

    @property
    def name(self) -> str:
        """Name of the mutant for lists, independent of line numbers."""
        again = f" ({self.ordinal + 1})" if self.ordinal else ""
        return f"{self.scope or '<module>'}: {self.before} -> {self.after}{again}"


@dataclass(frozen=True)
class _Place:
    """Node that can be replaced, with its position in the tree and its replacement."""

    parent: ast.AST
    field: str
    at: int | None
    new: ast.AST
    scope: str
    statement: ast.stmt
    imported: bool

    @property
    def old(self) -> ast.AST:
        value = getattr(self.parent, self.field)
        return value if self.at is None else value[self.at]  # type: ignore[no-any-return]

    def replace(self) -> None:
        if self.at is None:
            setattr(self.parent, self.field, self.new)
        else:
            getattr(self.parent, self.field)[self.at] = self.new


def mutants_of(text: str) -> list[Mutant]:
    """Return all mutants of a module, given its source."""
    mutants: list[Mutant] = []
    ordinals: Counter[tuple[str, str, str]] = Counter()
    for index, place in enumerate(_places(ast.parse(text))):
        before, after = (_short(ast.unparse(node)) for node in (place.old, place.new))
        key = (place.scope, before, after)
        old = place.old
        assert isinstance(old, ast.expr | ast.stmt)
        end = old.end_lineno or old.lineno
        lines = {*range(old.lineno, end + 1), place.statement.lineno}
        mutants.append(
            Mutant(
                index=index,
                scope=place.scope,
                before=before,
                after=after,
                ordinal=ordinals[key],
                lines=frozenset(lines),
                imported=place.imported,
            )
        )
        ordinals[key] += 1
    return mutants


def mutated(text: str, index: int) -> ast.Module:
    """Return the module's syntax tree with one mutant, ready to compile; lines are unchanged."""
    tree = ast.parse(text)
    for number, place in enumerate(list(_places(tree))):
        if number == index:
            ast.copy_location(place.new, place.old)
            place.replace()
            return ast.fix_missing_locations(tree)
    raise IndexError(f"The module has no mutant {index}.")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 90 else f"{line[:87]}..."


def _places(tree: ast.Module) -> Iterator[_Place]:
    yield from _Walk().body(tree, "body", scope="", imported=True)


class _Walk:
    """Traversal of a syntax tree in source order, which yields all changes."""

    def body(self, parent: ast.AST, field: str, *, scope: str, imported: bool) -> Iterator[_Place]:
        for at, statement in enumerate(getattr(parent, field)):
            yield from self.statement(parent, field, at, statement, scope, imported)

    def statement(
        self, parent: ast.AST, field: str, at: int, node: ast.stmt, scope: str, imported: bool
    ) -> Iterator[_Place]:
        def place(new: ast.AST) -> _Place:
            return _Place(parent, field, at, new, scope, node, imported)

        inside = {"scope": scope, "statement": node, "imported": imported}
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Assert() | ast.Pass():
                return
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                name = f"{scope}.{node.name}".lstrip(".")
                for default in ("defaults", "kw_defaults"):
                    yield from self.values(node.args, default, **inside)  # type: ignore[arg-type]
                yield from self.body(node, "body", scope=name, imported=False)
                return
            case ast.ClassDef():
                name = f"{scope}.{node.name}".lstrip(".")
                yield from self.body(node, "body", scope=name, imported=imported)
                return
            case ast.Expr(value=ast.Constant()):
                return
            case ast.Expr(value=ast.Call() | ast.Await()):
                yield place(ast.Pass())
            case ast.Raise():
                yield place(ast.Pass())
            case ast.Break():
                yield place(ast.Continue())
            case ast.Continue():
                yield place(ast.Break())
            case ast.Return(value=ast.expr() as value) if not _is_none(value):
                yield place(ast.Return(ast.Constant(None)))
            case ast.AugAssign():
                new = copy.deepcopy(node)
                new.op = _SWAPPED[type(node.op)]()  # type: ignore[assignment]
                yield place(new)
            case ast.Assign(targets=[ast.Name(id="__all__")]):
                return
            case ast.Assign(targets=[ast.Attribute()]) if not scope.endswith("__init__"):
                yield place(ast.Pass())
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                return
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "type_comment", "targets", "target"):
                continue
            if name in ("body", "orelse", "finalbody"):
                yield from self.body(node, name, scope=scope, imported=imported)
            elif name in ("handlers", "cases"):
                for part in value:
                    for guard in ("guard",) if name == "cases" else ():
                        yield from self.values(part, guard, **inside)  # type: ignore[arg-type]
                    yield from self.body(part, "body", scope=scope, imported=imported)
            else:
                yield from self.values(node, name, **inside)  # type: ignore[arg-type]

    def values(
        self,
        parent: ast.AST,
        field: str,
        *,
        scope: str,
        statement: ast.stmt,
        imported: bool,
        in_message: bool = False,
    ) -> Iterator[_Place]:
        """Yield changes of the expressions in a field; ``in_message`` marks an exception's text."""
        value = getattr(parent, field)
        many = value if isinstance(value, list) else [value]
        for at, node in enumerate(many):
            if not isinstance(node, ast.AST):
                continue
            if isinstance(node, ast.expr) and not isinstance(node, ast.JoinedStr):
                for new in _changes(node, parent, field, in_message):
                    position = at if isinstance(value, list) else None
                    yield _Place(parent, field, position, new, scope, statement, imported)
            if isinstance(node, ast.JoinedStr):
                continue
            words = in_message or _is_error(node)
            for name, _ in ast.iter_fields(node):
                yield from self.values(
                    node,
                    name,
                    scope=scope,
                    statement=statement,
                    imported=imported,
                    in_message=words,
                )


def _changes(node: ast.expr, parent: ast.AST, field: str, in_message: bool) -> Iterator[ast.expr]:
    match node:
        case ast.Compare():
            for at, operator in enumerate(node.ops):
                new = copy.deepcopy(node)
                new.ops[at] = _SWAPPED[type(operator)]()  # type: ignore[call-overload]
                yield new
        case ast.BinOp(op=ast.BitOr()) if _is_class(node.left):
            return  # a union of types
        case ast.BinOp() | ast.BoolOp():
            if type(node.op) in _SWAPPED:
                other = copy.deepcopy(node)
                other.op = _SWAPPED[type(node.op)]()  # type: ignore[assignment]
                yield other
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert()):
            yield copy.deepcopy(node.operand)
        case ast.Constant():
            yield from _constants(node, in_message)
    if field == "test" and isinstance(parent, ast.If | ast.While | ast.IfExp):
        plain = not isinstance(node, ast.Constant | ast.Compare)
        if plain and not (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
            yield ast.UnaryOp(ast.Not(), copy.deepcopy(node))


def _constants(node: ast.Constant, in_message: bool) -> Iterator[ast.expr]:
    match node.value:
        case bool(value):
            yield ast.Constant(not value)
        case int(value):
            yield ast.Constant(value + 1)
        case float(value):
            yield ast.Constant(2 * value or 1.0)
        case str(text) if not in_message:
            yield ast.Constant(f"XX{text}")
        case bytes(data):
            yield ast.Constant(b"XX" + data)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_error(node: ast.AST) -> bool:
    """Return whether a node creates an exception, so that its strings are messages."""
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name.endswith(("Error", "Exception", "Warning"))


def _is_class(node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        return True
    name = getattr(node, "id", "")
    return bool(name[:1].isupper() and not name.isupper())
