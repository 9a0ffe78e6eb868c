"""Check of local variables for dead stores: ``python -m tests.support.dead_stores [PATH ...]``.

A store is dead when the next thing that happens to its name, on every path, is another store: its
value is lost, most often since two things were given one name. Linters know names that are never
read at all, not values. What is looked for is the next event of each name, read or store, backwards
through a function (live variables; Aho, Lam, Sethi, Ullman 2006, 9.2.5).

Names that inner functions or classes read, and those that begin with an underscore, are left out;
so are the globals of a module, which others may read.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FOLDERS = ("fixedpoint", "sw", "hw", "sim", "tests", "benchmarks", "examples", "docs", ".ci")

READ = 0
"""The event of a read; a store is represented by its line."""

Events = Mapping[str, frozenset[int]]
"""The possible next events of each name."""

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Loop = ast.For | ast.AsyncFor | ast.While


@dataclass(frozen=True, order=True)
class DeadStore:
    """Store that is overwritten before it is read: line, variable, lines of the next stores."""

    line: int
    name: str
    overwritten: tuple[int, ...] = field(compare=False)

    def __str__(self) -> str:
        lines = ", ".join(map(str, self.overwritten))
        return f"'{self.name}' is overwritten in line {lines} before it is read"


def dead_stores(source: str) -> list[DeadStore]:
    """Return the dead stores of all functions in a module's source, sorted by line."""
    functions = (n for n in ast.walk(ast.parse(source)) if isinstance(n, FunctionNode))
    return sorted(store for function in functions for store in _Function(function).dead())


def join(*several: Events) -> Events:
    """Merge the next events of several control-flow paths."""
    names = {name for events in several for name in events}
    return {n: frozenset().union(*(e.get(n, frozenset()) for e in several)) for n in names}


@dataclass(frozen=True)
class _Exits:
    """Next events if control leaves a block by return, break, continue or an exception."""

    returned: Events = field(default_factory=dict)
    broken: Events = field(default_factory=dict)
    continued: Events = field(default_factory=dict)
    raised: Events = field(default_factory=dict)


class _Function:
    """Analysis of one function: its stores, and the next events of each variable after them."""

    def __init__(self, node: FunctionNode) -> None:
        self._node = node
        stores = Counter(_names(node, ast.Store))
        several = {name for name, count in stores.items() if count > 1 and name[0] != "_"}
        self._names = several - set(_shared_names(node)) if several else several
        self._stores: dict[tuple[int, int, str], set[int]] = {}

    def dead(self) -> Iterator[DeadStore]:
        if self._names:
            self._block(self._node.body, {}, _Exits())
        for (line, _, name), events in self._stores.items():
            if events and READ not in events:
                yield DeadStore(line, name, tuple(sorted(events)))

    def _block(self, body: Sequence[ast.stmt], after: Events, exits: _Exits) -> Events:
        for statement in reversed(body):
            # An exception may come before a statement stores, and after it.
            after = self._statement(statement, join(after, exits.raised), exits)
            after = join(after, exits.raised)
        return after

    def _statement(self, node: ast.stmt, after: Events, exits: _Exits) -> Events:
        match node:
            case ast.Return():
                return self._read(node.value, exits.returned)
            case ast.Raise():
                return self._read(node.exc, self._read(node.cause, exits.raised))
            case ast.Break():
                return exits.broken
            case ast.Continue():
                return exits.continued
            case ast.If():
                sides = (self._block(side, after, exits) for side in (node.body, node.orelse))
                return self._read(node.test, join(*sides))
            case ast.For() | ast.AsyncFor() | ast.While():
                return self._loop(node, after, exits)
            case ast.Try() | ast.TryStar():
                return self._try(node, after, exits)
            case ast.With() | ast.AsyncWith():
                return self._with(node, after, exits)
            case ast.Match():
                cases = [self._case(case, after, exits) for case in node.cases]
                last = node.cases[-1]
                if last.guard or getattr(last.pattern, "pattern", last) is not None:
                    cases.append(after)  # nothing may match
                return self._read(node.subject, join(*cases))
            case ast.Assign():
                for target in reversed(node.targets):
                    after = self._target(target, after)
                return self._read(node.value, after)
            case ast.AnnAssign():
                if node.value is None:
                    return after
                return self._read(node.value, self._target(node.target, after))
            case ast.AugAssign(target=ast.Name(id=name)):
                # A change in place counts as a read, not as a store.
                return self._read(node.value, self._event(after, name, READ))
            case ast.Delete():
                for target in node.targets:
                    for name in _names(target):
                        after = self._event(after, name, READ)
                return after
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                after = self._reads(node.decorator_list, after)
                return self._reads([*node.args.defaults, *node.args.kw_defaults], after)
            case ast.ClassDef():
                return self._reads([*node.decorator_list, *node.bases], after)
            case _:
                return self._reads(list(ast.iter_child_nodes(node)), after)

    def _loop(self, node: Loop, after: Events, exits: _Exits) -> Events:
        endless = isinstance(node, ast.While) and bool(getattr(node.test, "value", False))
        end = {} if endless else self._block(node.orelse, after, exits)
        head: Events = {}
        while True:
            inner = _Exits(exits.returned, after, head, exits.raised)
            begin = self._block(node.body, head, inner)
            if isinstance(node, ast.While):
                events = self._read(node.test, join(begin, end))
            else:
                events = join(self._target(node.target, begin), end)
            if events == head:
                break
            head = events
        return head if isinstance(node, ast.While) else self._read(node.iter, head)

    def _try(self, node: ast.Try | ast.TryStar, after: Events, exits: _Exits) -> Events:
        if node.finalbody:
            ways = (exits.returned, exits.broken, exits.continued, exits.raised)
            after = self._block(node.finalbody, join(after, *ways), exits)
            exits = _Exits(after, after, after, after)
        handlers = []
        for handler in node.handlers:
            begin = self._block(handler.body, after, exits)
            if handler.name is not None:
                begin = {n: e for n, e in begin.items() if n != handler.name}
            handlers.append(self._read(handler.type, begin))
        after = self._block(node.orelse, after, exits)
        raised = join(exits.raised, *handlers)
        return self._block(
            node.body, after, _Exits(exits.returned, exits.broken, exits.continued, raised)
        )

    def _with(self, node: ast.With | ast.AsyncWith, after: Events, exits: _Exits) -> Events:
        # A context may swallow an exception, as that of pytest.raises does.
        raised = join(exits.raised, after)
        after = self._block(
            node.body, after, _Exits(exits.returned, exits.broken, exits.continued, raised)
        )
        for item in reversed(node.items):
            if item.optional_vars is not None:
                after = self._target(item.optional_vars, after)
            after = self._read(item.context_expr, after)
        return after

    def _case(self, case: ast.match_case, after: Events, exits: _Exits) -> Events:
        begin = self._read(case.guard, self._block(case.body, after, exits))
        parts = list(ast.walk(case.pattern))
        bound = {getattr(part, key, None) for part in parts for key in ("name", "rest")}
        return self._read(case.pattern, {n: e for n, e in begin.items() if n not in bound})

    def _target(self, node: ast.expr, after: Events) -> Events:
        """Return the next events before a store to a target, given those after it."""
        match node:
            case ast.Name():
                key = (node.lineno, node.col_offset, node.id)
                if node.id in self._names:
                    self._stores.setdefault(key, set()).update(after.get(node.id, ()))
                return self._event(after, node.id, node.lineno)
            case ast.Tuple() | ast.List():
                for element in reversed(node.elts):
                    after = self._target(element, after)
                return after
            case ast.Starred():
                return self._target(node.value, after)
            case _:
                return self._reads(list(ast.iter_child_nodes(node)), after)

    def _event(self, after: Events, name: str, event: int) -> Events:
        return {**after, name: frozenset({event})} if name in self._names else after

    def _reads(self, nodes: Sequence[ast.AST | None], after: Events) -> Events:
        for node in reversed(nodes):
            after = self._read(node, after)
        return after

    def _read(self, node: ast.AST | None, after: Events) -> Events:
        """Return the next events before an expression, given those after it."""
        match node:
            case None:
                return after
            case ast.Name(ctx=ast.Load()):
                return self._event(after, node.id, READ)
            case ast.NamedExpr():
                return self._read(node.value, self._target(node.target, after))
            case ast.BoolOp():
                events = self._read(node.values[-1], after)
                for value in reversed(node.values[:-1]):
                    events = self._read(value, join(events, after))
                return events
            case ast.IfExp():
                sides = (self._read(side, after) for side in (node.body, node.orelse))
                return self._read(node.test, join(*sides))
            case ast.Lambda():
                return self._reads([*node.args.defaults, *node.args.kw_defaults], after)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                return self._comprehension(node, after)
            case _:
                return self._reads(list(ast.iter_child_nodes(node)), after)

    def _comprehension(
        self,
        node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp,
        after: Events,
    ) -> Events:
        bound = {name for part in node.generators for name in _names(part.target)}
        inner = after
        for name in _names(node, ast.Load):
            if name not in bound:
                inner = self._event(inner, name, READ)
        for child in ast.walk(node):
            if isinstance(child, ast.NamedExpr):  # it stores outside, for each turn or never
                inner = join(inner, self._target(child.target, inner))
        return self._read(node.generators[0].iter, inner)


def _names(node: ast.AST, use: type[ast.expr_context] = ast.expr_context) -> Iterator[str]:
    children = (child for child in ast.walk(node) if isinstance(child, ast.Name))
    return (child.id for child in children if isinstance(child.ctx, use))


def _shared_names(function: FunctionNode) -> Iterator[str]:
    """Yield names that code outside the function's own statements may read or write."""
    for node in ast.walk(function):
        if isinstance(node, ast.Global | ast.Nonlocal):
            yield from node.names
        elif isinstance(node, FunctionNode | ast.Lambda | ast.ClassDef) and node is not function:
            yield from _names(node)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the dead stores in files and folders, by default all sources; return 1 if any."""
    paths = sys.argv[1:] if arguments is None else arguments
    wrong = 0
    for path in _files(map(Path, paths or FOLDERS)):
        for store in dead_stores(path.read_text()):
            wrong += 1
            print(f"{path}:{store.line}: {store}", file=sys.stderr)
    return int(bool(wrong))


def _files(places: Iterable[Path]) -> Iterator[Path]:
    for place in places:
        yield from sorted(place.rglob("*.py")) if place.is_dir() else (place,)


if __name__ == "__main__":
    sys.exit(main())
