"""Restructuring of sums: products are gathered into dots, the rest balanced by arrival time.

A sum of products on separate units rounds every product and takes a shared adder for every plus
sign. A dot node accumulates its products exactly inside one unit and rounds once, so it is more
accurate and cheaper; it loses only if its operands arrive at different times. Dot units have a few
widths, and a unit of width k is idle in every slot without a dot of width k. So the number of dots
of each width is made a multiple of the initiation interval: the surplus is split into narrower
ones, and only single products may leave slots empty.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pinion.graph import OPS, Graph, Node, Output, Word, names
from pinion.graph.passes.rewrite import Rewriter
from pinion.graph.passes.simplify import common_subexpressions, dead_code

from .timing import Timing

Signed = tuple[int, int]  # sign, node
_SUMS = (names.ADD, names.SUB)

# Cycles to try that a dot may wait for its addend.
_PATIENCE = (0, 1, 2, 4, 8, 1 << 20)


@dataclass
class _Term:
    """Summand: an existing node, or a product that may join a dot."""

    sign: int
    ready: int
    node: int = -1
    factors: tuple[Signed, Signed] | None = None
    like: Node | None = None


def balance(graph: Graph, timing: Timing) -> Graph:
    """Rebuild each sum as the adder tree of lowest latency, without gathering products."""
    return gather_dots(graph, timing, widths=(), ii=1)


def gather_dots(
    graph: Graph,
    timing: Timing,
    *,
    widths: tuple[int, ...],
    ii: int,
    patience: float = 1.0,
    addends: bool = True,
) -> Graph:
    """Gather sums of products into dots of the given widths, and balance the rest.

    Parameters
    ----------
    graph : a folded graph of the real dialect.
    widths : allowed numbers of products per dot, each above 1.
    ii : initiation interval; the number of dots of each width becomes a multiple of it.
    patience : share of a sum's slack that may be spent on saving adders: with 1 sums are as slow as
        the graph allows with unlimited units, with 0 each is as fast as possible.
    addends : whether dots add another summand to their products.
    """
    late: dict[str, int] = {}

    def gathered() -> Graph:
        builder = _Builder(graph, timing, widths, {}, addends=addends, late=late)
        builder.build()
        groups = _even_out(builder.chosen, builder.spread, widths, ii)
        deadlines = builder.latest(patience) if widths else None
        final = _Builder(graph, timing, widths, groups, deadlines, addends=addends, late=late)
        return dead_code(common_subexpressions(final.build()))

    # If a loop through states is too long for the interval, its words join their sums later.
    best = gathered()
    interval, words = loop_interval(best, timing)
    for _ in range(_TURNS):
        if interval <= ii:
            break
        late.update({word: late.get(word, 0) + timing.dot(1) for word in words})
        graph_of_sums = gathered()
        again, words = loop_interval(graph_of_sums, timing)
        if again < interval:
            best, interval = graph_of_sums, again
    return best


# Times that sums are gathered again because of long loops.
_TURNS = 4


def loop_interval(graph: Graph, timing: Timing) -> tuple[int, list[str]]:
    """Return the shortest interval that state loops allow, and the words on the slowest loop."""
    words = graph.state_nodes()
    order = list(words)
    ways = {}  # cycles from a word of state to the register of another word's next value
    for source in order:
        far: list[float] = []
        for i, node in enumerate(graph.nodes):
            reads = (
                far[a] - timing.offset(node.op, len(node.args), k) for k, a in enumerate(node.args)
            )
            start = 0.0 if i == source else max(reads, default=-math.inf)
            far.append(start + timing.latency(node.op, len(node.args)))
        for target in order:
            ways[source, target] = far[words[target].node] + 1

    def cycle(ii: int) -> list[int]:
        """Return the words on a loop that takes more than `ii` cycles per request, or []."""
        longest = dict.fromkeys(order, 0.0)
        via = dict.fromkeys(order, -1)
        moved = -1
        for _ in order:
            moved = -1
            for (a, b), way in ways.items():
                if longest[a] + way - ii > longest[b]:
                    longest[b], via[b], moved = longest[a] + way - ii, a, b
        if moved < 0:
            return []
        for _ in order:
            moved = via[moved]
        cycle = [moved]
        while (previous := via[cycle[-1]]) != moved:
            cycle.append(previous)
        return cycle

    low, high = 1, 1 + max((int(way) for way in ways.values() if way > 0), default=0)
    critical: list[int] = []
    while low < high:
        middle = (low + high) // 2
        if loop := cycle(middle):
            low, critical = middle + 1, loop
        else:
            high = middle
    return low, [str(words[i].word) for i in critical]


def _even_out(
    groups: dict[int, list[int]],
    spread: dict[int, int],
    widths: tuple[int, ...],
    ii: int,
) -> dict[int, list[int]]:
    """Split dots that would leave a unit partly idle, those with the most uneven arrivals first."""
    result = {root: sorted(parts, reverse=True) for root, parts in groups.items()}
    for width in sorted(widths, reverse=True):
        roots = [root for root, parts in result.items() for part in parts if part == width]
        roots.sort(key=lambda root: (-spread[root], root))
        narrower = [w for w in widths if w < width]
        for root in roots[: len(roots) % ii]:
            parts = result[root]
            parts.remove(width)
            left = width
            while left:
                part = max((w for w in narrower if w <= left), default=1)
                parts.append(part)
                left -= part
            parts.sort(reverse=True)
    return result


@dataclass(frozen=True)
class _Step:
    """Dot of a group of products and an optional addend, or, without a group, a sum of terms."""

    group: tuple[_Term, ...] | list[_Term]
    terms: tuple[int, ...]


class _Tree:
    """Tree of a sum: summands other than products, then steps, numbered in this order."""

    def __init__(self, items: list[tuple[int, int]]) -> None:
        self.items = items  # cycle in which each is ready, and its sign
        self.steps: list[_Step] = []

    def put(self, step: _Step, ready: int, sign: int) -> int:
        """Add a step, and return the number of its result."""
        self.steps.append(step)
        self.items.append((ready, sign))
        return len(self.items) - 1

    def ready(self, i: int) -> int:
        return self.items[i][0]

    @property
    def finish(self) -> int:
        return self.items[-1][0]

    @property
    def adders(self) -> int:
        return sum(not step.group for step in self.steps)


class _Builder:
    """Builder of a graph with restructured sums.

    Parameters
    ----------
    parts : dot widths of each sum; by default the fastest are chosen.
    addends : dots take another summand, unless products are not gathered.
    late : cycles by which words of state count as arriving later.
    deadlines : cycle before which a sum need not be ready; otherwise it is as fast as possible.
    """

    def __init__(
        self,
        graph: Graph,
        timing: Timing,
        widths: tuple[int, ...],
        parts: dict[int, list[int]],
        deadlines: Mapping[int, int] | None = None,
        *,
        addends: bool,
        late: Mapping[str, int],
    ) -> None:
        self.graph = graph
        self.timing = timing
        self.widths = widths
        self.parts = parts
        self.deadlines = deadlines or {}
        self.addends = addends and bool(widths)
        self.to = Rewriter(intern=False)
        self.ready: list[int] = []
        self.chosen: dict[int, list[int]] = {}
        self.spread: dict[int, int] = {}
        self.uses = graph.uses()
        # A word of state counts as arriving last: what waits for it bounds the interval.
        arrival = _state_arrival(graph, timing)
        self.arrivals = {s.word: arrival + late.get(s.word, 0) for s in graph.states}
        self.inner = self._inner()
        self.new: dict[int, Signed] = {}

    def _inner(self) -> list[bool]:
        """Return, for each node, whether it becomes part of the sum that is its only user."""
        results = set(self.graph.roots)
        inner = [False] * len(self.graph.nodes)
        for i, users in enumerate(self.graph.users()):
            node = self.graph.nodes[i]
            single = self.uses[i] == 1 and i not in results
            if single and self.graph.nodes[users[0]].op in _SUMS:
                inner[i] = node.op in _SUMS or node.op == names.MUL
        return inner

    def emit(self, op: str, args: tuple[int, ...], params: tuple, like: Node) -> int:  # type: ignore[type-arg]
        number = self.to.emit(op, args, params, like=like)
        starts = [self.ready[a] - self.delay(op, args, k) for k, a in enumerate(args)]
        start = max(starts, default=0)
        if op == names.INPUT:
            start = self.arrivals.get(Word.of(str(params[0])), 0)
        self.ready.append(max(0, start) + self.timing.latency(op, len(args)))
        return number

    def delay(self, op: str, args: tuple[int, ...], k: int) -> int:
        """Return the cycle after an operation's start in which it reads operand ``k``."""
        return self.timing.offset(op, len(args), k)

    def build(self) -> Graph:
        for i, node in enumerate(self.graph.nodes):
            if self.inner[i]:
                continue
            if node.op in _SUMS:
                self.new[i] = self.sum(i)
                continue
            sign, args, params = 1, tuple(self.new[a][1] for a in node.args), node.params
            signs = [self.new[a][0] for a in node.args]
            if node.op == names.MUL:
                sign = signs[0] * signs[1]
            elif node.op == names.NEG:
                self.new[i] = (-signs[0], args[0])
                continue
            elif signs:
                plain = replace(node, args=args)
                turned = OPS[node.op].without_signs(plain, signs)
                if turned is None:
                    args = tuple(self.plain(self.new[a], node) for a in node.args)
                    turned = 1, replace(node, args=args)
                sign, plain = turned
                self.new[i] = (sign, self.emit(plain.op, plain.args, plain.params, node))
                continue
            self.new[i] = (sign, self.emit(node.op, args, params, node))

        def final(old: int) -> int:
            return self.plain(self.new[old], self.graph.nodes[old])

        outputs = [Output(name, final(old)) for name, old in self.graph.outputs]
        self.states = [s._replace(node=final(s.node)) for s in self.graph.states]
        return self.to.finish(outputs, self.states)

    def plain(self, place: Signed, like: Node) -> int:
        """Return the node of a signed term, with a negation emitted if its sign is negative."""
        sign, number = place
        return self.emit(names.NEG, (number,), (), like) if sign < 0 else number

    def latest(self, patience: float) -> dict[int, int]:
        """Return a deadline [cycles] for each sum, by root, which uses a share of its slack."""
        end = max(self.ready, default=0)
        latest = [end] * len(self.to.nodes)
        for state in self.states:  # every loop stays as fast as possible
            latest[state.node] = self.ready[state.node]
        for i in range(len(latest) - 1, -1, -1):
            node = self.to.nodes[i]
            start = latest[i] - self.timing.latency(node.op, len(node.args))
            for k, a in enumerate(node.args):
                latest[a] = min(latest[a], start + self.delay(node.op, node.args, k))
        at = {root: self.new[root][1] for root in self.chosen}
        return {
            root: self.ready[i] + int(patience * (latest[i] - self.ready[i]))
            for root, i in at.items()
        }

    def terms(self, root: int) -> tuple[list[_Term], list[_Term]]:
        """Return a root's summands in two lists: products that may join a dot, and all others."""
        products: list[_Term] = []
        others: list[_Term] = []
        stack = [(1, root)]
        while stack:
            sign, i = stack.pop()
            node = self.graph.nodes[i]
            if node.op in _SUMS and (i == root or self.inner[i]):
                a, b = node.args
                stack += [(-sign if node.op == names.SUB else sign, b), (sign, a)]
            elif node.op == names.MUL and self.inner[i]:
                (sa, a), (sb, b) = (self.new[x] for x in node.args)
                ready = max(self.ready[a], self.ready[b])
                products.append(_Term(sign * sa * sb, ready, factors=((1, a), (1, b)), like=node))
            else:
                s, number = self.new[i]
                others.append(_Term(sign * s, self.ready[number], node=number))
        products.sort(key=lambda term: term.ready)
        return products, others

    def _chains(self, third: int | None, ready: int) -> bool:
        """Return whether a third summand can join an addition that starts in cycle `ready`."""
        return self.timing.chained > 1 and third is not None and third <= ready

    def arrange(
        self, products: list[_Term], others: list[_Term], parts: list[int], patience: int
    ) -> _Tree:
        """Build the tree of a sum whose products are gathered in groups of the sizes `parts`.

        A dot adds a summand to its products if that is ready when its unit reads it, or after no
        more than the patience; adders do the rest.
        """
        tree = _Tree([(term.ready, term.sign) for term in others])
        pool = set(range(len(others)))
        groups = sorted(
            (self._start(group), number, group)
            for number, group in enumerate(_split(products, sorted(parts, reverse=True)))
        )
        for start, _, group in groups:
            count = 2 * len(group) + 1
            reads = start + self.timing.offset(names.DOT, count, count - 1)
            fused = pool if self.addends else ()
            free = [i for i in fused if tree.ready(i) <= reads]
            late = [i for i in fused if reads < tree.ready(i) <= reads + patience]
            item = None
            if free:
                item = max(free, key=lambda i: (tree.ready(i), -i))
            elif late:
                item = min(late, key=lambda i: (tree.ready(i), i))
                start += tree.ready(item) - reads
            sign = self._front(group, None if item is None else tree.items[item][1])
            pool.discard(-1 if item is None else item)
            ready = start + self.timing.dot(len(group))
            pool.add(tree.put(_Step(group, () if item is None else (item,)), ready, sign))
        heap = [(tree.ready(i), i) for i in sorted(pool)]
        heapq.heapify(heap)
        while len(heap) > 1:
            _, a = heapq.heappop(heap)
            ready, b = heapq.heappop(heap)
            terms: tuple[int, ...] = (a, b)
            if self._chains(heap[0][0] if heap else None, ready):
                terms = (a, b, heapq.heappop(heap)[1])
            sign = max(tree.items[i][1] for i in terms)
            sum_item = tree.put(_Step((), terms), ready + self.timing.add, sign)
            heapq.heappush(heap, (tree.ready(sum_item), sum_item))
        return tree

    def _start(self, group: Sequence[_Term]) -> int:
        """Return the first cycle in which a dot unit can start the products of a group."""
        return max(0, *(term.ready - k for k, term in enumerate(self._ordered(group))))

    def _constant(self, term: _Term) -> bool:
        """Return whether a product has a constant factor, which can absorb a sign."""
        assert term.factors is not None
        return any(self.to.nodes[x].op == names.CONST for _, x in term.factors)

    def _front(self, group: Sequence[_Term], addend: int | None) -> int:
        """Return the sign of a dot: its addend's or, without one, -1 if every product is negative.

        In a group of several, a product with a constant takes its sign into the constant.
        """
        if addend is not None:
            return addend
        if len(group) == 1:
            return group[0].sign
        return 1 if any(term.sign > 0 or self._constant(term) for term in group) else -1

    def opened(self, root: int, products: list[_Term], others: list[_Term]) -> list[_Term]:
        """Replace the latest summand with its terms, if it is a sum and that finishes earlier.

        The opened sum has other readers and stays; two additions in one cycle save its cycle.
        """

        def finish(terms: list[_Term]) -> int:
            return self.best(root, products, terms)[0].finish

        last = max(others, key=lambda term: term.ready, default=None)
        if last is None or self.to.nodes[last.node].op not in _SUMS:
            return others
        node = self.to.nodes[last.node]
        signs = last.sign, last.sign * (-1 if node.op == names.SUB else 1)
        parts = [
            _Term(sign, self.ready[arg], node=arg)
            for sign, arg in zip(signs, node.args, strict=True)
        ]
        wider = [term for term in others if term is not last] + parts
        return wider if finish(wider) < finish(others) else others

    def best(
        self, root: int, products: list[_Term], others: list[_Term]
    ) -> tuple[_Tree, list[int]]:
        """Return the tree with the fewest adders that meets the deadline, and its dot widths."""
        parts = self.parts.get(root) if self.parts else None
        options = self._options(len(products)) if parts is None else [parts]
        deadline = self.deadlines.get(root, 0)
        options_tried: list[tuple[tuple[int, ...], int, _Tree, list[int]]] = []
        for option in options:
            for patience in _PATIENCE if products else (0,):
                tree = self.arrange(products, others, option, patience)
                key = (max(tree.finish, deadline), tree.adders, len(option), tree.finish)
                options_tried.append((key, len(options_tried), tree, option))
        _, _, tree, option = min(options_tried)
        return tree, option

    def _options(self, count: int) -> list[list[int]]:
        """Return candidate splits of `count` products into dot widths, each in descending order."""
        options = [[1] * count]
        for width in self.widths:
            narrower = [w for w in self.widths if w <= width]
            for offset in range(min(width, count)):
                left, parts = count - offset, [1] * offset
                while left:
                    part = max((w for w in narrower if w <= left), default=1)
                    parts.append(part)
                    left -= part
                options.append(sorted(parts, reverse=True))
        return options

    def sum(self, root: int) -> Signed:
        products, others = self.terms(root)
        if self.timing.chained > 1:
            others = self.opened(root, products, others)
        tree, parts = self.best(root, products, others)
        self.chosen[root] = list(parts)
        self.spread[root] = products[-1].ready - products[0].ready if products else 0
        like = self.graph.nodes[root]
        signed: list[Signed] = [(term.sign, term.node) for term in others]
        for step in tree.steps:
            terms = [signed[i] for i in step.terms]
            if step.group:
                signed.append(self.dot(step.group, terms[0] if terms else None, like))
            else:
                signed.append(self.plus(terms, like))
        return signed[-1]

    def plus(self, terms: list[Signed], like: Node) -> Signed:
        """Emit the sum of two or three terms, and return its sign and node."""
        if len(terms) == 3:
            return self.three((terms[0], terms[1], terms[2]), like)
        a, b = terms
        if a[0] == b[0]:
            return a[0], self.emit(names.ADD, (a[1], b[1]), (), like)
        plus, minus = (a, b) if a[0] > 0 else (b, a)
        return 1, self.emit(names.SUB, (plus[1], minus[1]), (), like)

    def three(self, terms: tuple[Signed, Signed, Signed], like: Node) -> Signed:
        """Emit the sum of three terms, positive ones first; negated if all are negative."""
        front = 1 if any(sign > 0 for sign, _ in terms) else -1
        ordered = sorted(terms, key=lambda term: -front * term[0])
        signs = tuple(front * sign for sign, _ in ordered)
        return front, self.emit(names.SUM, tuple(node for _, node in ordered), signs, like)

    def _ordered(self, group: Sequence[_Term], front: int = 0) -> list[_Term]:
        """Sort products by arrival; with a sign `front`, one with it or a constant goes first."""
        ordered = sorted(group, key=lambda term: term.ready)
        if front:
            first = next(t for t in ordered if front * t.sign > 0 or self._constant(t))
            ordered.remove(first)
            ordered.insert(0, first)
        return ordered

    def dot(self, group: Sequence[_Term], addend: Signed | None, like: Node) -> Signed:
        """Emit the dot of a group, or its single product; return its sign and node."""
        front = self._front(group, None if addend is None else addend[0])
        if addend is None and len(group) == 1:
            assert group[0].factors is not None and group[0].like is not None
            (_, a), (_, b) = group[0].factors
            if self.to.nodes[a].op == names.CONST:
                a, b = b, a
            return front, self.emit(names.MUL, (a, b), (), group[0].like)
        args: list[int] = []
        signs: list[int] = []
        for term in self._ordered(group, front if addend is None else 0):
            assert term.factors is not None
            (_, a), (_, b) = term.factors
            sign = front * term.sign
            if self.to.nodes[a].op == names.CONST:
                a, b = b, a
            constant = self.to.nodes[b]
            if sign < 0 and constant.op == names.CONST:
                b = self.emit(names.CONST, (), (-float(constant.params[0]),), constant)
                sign = 1
            args += [a, b]
            signs.append(sign)
        if addend is not None:
            args.append(addend[1])
            signs.append(1)
        return front, self.emit(names.DOT, tuple(args), tuple(signs), like)


def _state_arrival(graph: Graph, timing: Timing) -> int:
    """Return the cycle in which the last operand combined with a state-dependent one is ready."""
    if not graph.states:
        return 0
    ready: list[int] = []
    words = graph.state_nodes()
    depends: list[bool] = []
    latest = 0
    for i, node in enumerate(graph.nodes):
        start = max((ready[a] for a in node.args), default=0)
        ready.append(start + timing.latency(node.op, len(node.args)))
        depends.append(i in words or any(depends[a] for a in node.args))
        if depends[i]:
            latest = max([latest, *(ready[a] for a in node.args if not depends[a])])
    return latest


def _split(products: list[_Term], parts: list[int]) -> list[list[_Term]]:
    groups, start = [], 0
    for part in parts:
        groups.append(products[start : start + part])
        start += part
    return groups
