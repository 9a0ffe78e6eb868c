"""Sums: flattened, products gathered into dot nodes, the rest balanced by arrival time.

A sum of products on separate units rounds every product and takes a shared adder for every plus
sign. A dot node accumulates its products exactly inside one unit and rounds once, so it is more
exact and cheaper; it only loses when its operands arrive at different times. Dot units come in a
few widths, and a unit of width k is idle in every slot that no dot of width k fills. Therefore the
number of dots of each width is made a multiple of the initiation interval: the surplus is split
into narrower ones, and only the single products may leave slots empty.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from pinion.graph import OPS, Graph, Node, Output, names
from pinion.graph.passes.rewrite import Rewriter
from pinion.graph.passes.simplify import common_subexpressions, dead_code

from .timing import Timing

Signed = tuple[int, int]  # sign, node
_SUMS = (names.ADD, names.SUB)


@dataclass
class _Term:
    """A summand: a node that is ready, or a product that may join a dot."""

    sign: int
    ready: int
    node: int = -1
    factors: tuple[Signed, Signed] | None = None
    like: Node | None = None


def balance(graph: Graph, timing: Timing) -> Graph:
    """Rebuild each sum as the tree that finishes first; every product stays on its own."""
    return gather_dots(graph, timing, widths=(), ii=1)


def gather_dots(graph: Graph, timing: Timing, *, widths: tuple[int, ...], ii: int) -> Graph:
    """Gather sums of products into dots of the given widths and balance what remains.

    Parameters
    ----------
    graph : a folded graph of the real dialect.
    widths : allowed numbers of products of a dot, each above 1.
    ii : initiation interval; the number of dots of each width becomes a multiple of it.
    """
    wanted = _Builder(graph, timing, widths, {})
    wanted.build()
    chosen = _even_out(wanted.chosen, wanted.spread, widths, ii)
    final = _Builder(graph, timing, widths, chosen)
    return dead_code(common_subexpressions(final.build()))


def _even_out(
    chosen: dict[int, list[int]],
    spread: dict[int, int],
    widths: tuple[int, ...],
    ii: int,
) -> dict[int, list[int]]:
    """Split surplus dots, those whose operands arrive most unevenly first."""
    result = {root: sorted(parts, reverse=True) for root, parts in chosen.items()}
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


class _Builder:
    """One rebuild; ``parts`` fixes the dot widths of each sum, else the fastest are chosen."""

    def __init__(
        self,
        graph: Graph,
        timing: Timing,
        widths: tuple[int, ...],
        parts: dict[int, list[int]],
    ) -> None:
        self.graph = graph
        self.timing = timing
        self.widths = widths
        self.parts = parts
        self.to = Rewriter(intern=False)
        self.ready: list[int] = []
        self.chosen: dict[int, list[int]] = {}
        self.spread: dict[int, int] = {}
        self.uses = graph.uses()
        self.inner = self._inner()
        self.new: dict[int, Signed] = {}

    def _inner(self) -> list[bool]:
        """Nodes that dissolve into the sum that is their only user."""
        results = {node for _, node in self.graph.outputs}
        inner = [False] * len(self.graph.nodes)
        for i, users in enumerate(self.graph.users()):
            node = self.graph.nodes[i]
            single = self.uses[i] == 1 and i not in results
            if single and self.graph.nodes[users[0]].op in _SUMS:
                inner[i] = node.op in _SUMS or node.op == names.MUL
        return inner

    def emit(self, op: str, args: tuple[int, ...], params: tuple, like: Node) -> int:  # type: ignore[type-arg]
        number = self.to.emit(op, args, params, like=like)
        start = max((self.ready[a] for a in args), default=0)
        self.ready.append(start + self.timing.latency(op, len(args)))
        return number

    def build(self) -> Graph:
        for i, node in enumerate(self.graph.nodes):
            if self.inner[i]:
                continue
            if node.op in _SUMS:
                self.new[i] = self.sum(i)
                continue
            sign, args = 1, tuple(self.new[a][1] for a in node.args)
            signs = [self.new[a][0] for a in node.args]
            if node.op == names.MUL:
                sign = signs[0] * signs[1]
            elif node.op == names.NEG:
                self.new[i] = (-signs[0], args[0])
                continue
            elif signs and signs[0] < 0:
                sign = OPS[node.op].parity
            self.new[i] = (sign, self.emit(node.op, args, node.params, node))
        outputs: list[Output] = []
        for name, old in self.graph.outputs:
            sign, number = self.new[old]
            if sign < 0:
                number = self.emit(names.NEG, (number,), (), self.graph.nodes[old])
            outputs.append(Output(name, number))
        return self.to.finish(outputs)

    def terms(self, root: int) -> tuple[list[_Term], list[_Term]]:
        """Summands of a root: products that may join a dot, and everything else."""
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

    def finish_time(self, products: list[_Term], others: list[_Term], parts: list[int]) -> int:
        """When the sum would be ready if its products were gathered like this."""
        times = [term.ready for term in others]
        for group in _split(products, parts):
            times.append(group[-1].ready + self.timing.dot(len(group)))
        heapq.heapify(times)
        while len(times) > 1:
            ready = max(heapq.heappop(times), heapq.heappop(times))
            if self._chains(times[0] if times else None, ready):
                heapq.heappop(times)
            heapq.heappush(times, ready + self.timing.add)
        return times[0]

    def _chains(self, third: int | None, ready: int) -> bool:
        """Whether a third summand joins an addition of two that are there in cycle ``ready``."""
        return self.timing.chained > 1 and third is not None and third <= ready

    def opened(self, products: list[_Term], others: list[_Term]) -> list[_Term]:
        """Summands with the last one that is a sum of two itself opened, where that is faster.

        The sum that is opened has other readers and stays; two additions in one cycle here save
        the cycle that it takes.
        """

        def finish(terms: list[_Term]) -> int:
            return self.finish_time(products, terms, self.choose(products, terms))

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

    def choose(self, products: list[_Term], others: list[_Term]) -> list[int]:
        """Dot widths that finish first; among equals the fewest adders."""
        count = len(products)
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
        return min(
            options, key=lambda parts: (self.finish_time(products, others, parts), len(parts))
        )

    def sum(self, root: int) -> Signed:
        products, others = self.terms(root)
        if self.timing.chained > 1:
            others = self.opened(products, others)
        like = self.graph.nodes[root]
        parts = self.parts.get(root) if self.parts else None
        if parts is None:
            parts = self.choose(products, others)
        self.chosen[root] = list(parts)
        self.spread[root] = products[-1].ready - products[0].ready if products else 0
        heap: list[tuple[int, int, Signed]] = []
        for term in others:
            heapq.heappush(heap, (term.ready, len(heap), (term.sign, term.node)))
        # Early products fill the wide dots, late ones the narrow dots, which are faster.
        for group in _split(products, sorted(parts, reverse=True)):
            signed = self.dot(group, like)
            heapq.heappush(heap, (self.ready[signed[1]], len(heap) + 1000, signed))
        counter = 2000
        while len(heap) > 1:
            _, _, a = heapq.heappop(heap)
            ready, _, b = heapq.heappop(heap)
            if self._chains(heap[0][0] if heap else None, ready):
                signed = self.three((a, b, heapq.heappop(heap)[2]), like)
            elif a[0] == b[0]:
                signed = a[0], self.emit(names.ADD, (a[1], b[1]), (), like)
            else:
                plus, minus = (a, b) if a[0] > 0 else (b, a)
                signed = 1, self.emit(names.SUB, (plus[1], minus[1]), (), like)
            heapq.heappush(heap, (self.ready[signed[1]], counter, signed))
            counter += 1
        return heap[0][2]

    def three(self, terms: tuple[Signed, Signed, Signed], like: Node) -> Signed:
        """A sum of three: positive terms first, or a negated sum where all are negative."""
        front = 1 if any(sign > 0 for sign, _ in terms) else -1
        ordered = sorted(terms, key=lambda term: -front * term[0])
        signs = tuple(front * sign for sign, _ in ordered)
        return front, self.emit(names.SUM, tuple(node for _, node in ordered), signs, like)

    def dot(self, group: list[_Term], like: Node) -> Signed:
        """One dot of a group; a sign moves into a constant factor, else in front of the dot."""
        terms: list[tuple[int, int, int]] = []
        for term in group:
            assert term.factors is not None
            (_, a), (_, b) = term.factors
            sign = term.sign
            if self.to.nodes[a].op == names.CONST:
                a, b = b, a
            constant = self.to.nodes[b]
            if sign < 0 and constant.op == names.CONST and len(group) > 1:
                b = self.emit(names.CONST, (), (-float(constant.params[0]),), constant)
                sign = 1
            terms.append((sign, a, b))
        if len(group) == 1:
            sign, a, b = terms[0]
            assert group[0].like is not None
            return sign, self.emit(names.MUL, (a, b), (), group[0].like)
        front = 1 if any(sign > 0 for sign, _, _ in terms) else -1
        terms.sort(key=lambda term: -front * term[0])
        args = tuple(x for _, a, b in terms for x in (a, b))
        signs = tuple(front * sign for sign, _, _ in terms)
        return front, self.emit(names.DOT, args, signs, like)


def _split(products: list[_Term], parts: list[int]) -> list[list[_Term]]:
    groups, start = [], 0
    for part in parts:
        groups.append(products[start : start + part])
        start += part
    return groups
