"""The text form of a graph: one node per line, read back without loss.

``%12 = dot %3 %4 %5 %6 [1, -1] @forward[3] #rnea.py:57``, then the results,
``out tau[0] = %12``, and the words of state, ``state filter[0] = %9 from 0.0``.
"""

from __future__ import annotations

import json
import re

from . import names
from .check import verify
from .graph import Feedback, Graph, GraphError, Node, Output, Region
from .words import Word

# Nine digits number more nodes than any graph has, and fewer than Python refuses to read.
_ID = r"[0-9]{1,9}"
_NODE = re.compile(
    rf"%(?P<id>{_ID}) = (?P<op>\w+)(?P<args>(?: %{_ID})*)(?: (?P<params>\[.*?\]))?"
    r"(?: @(?P<region>\S+))?(?: #(?P<line>.+))?"
)
_OUT = re.compile(rf"out (?P<name>\S+) = %(?P<id>{_ID})")
_STATE = re.compile(rf"state (?P<name>\S+) = %(?P<id>{_ID}) from (?P<initial>[-+.0-9eE]{{1,40}})")


def format_graph(graph: Graph) -> str:
    """Return a graph as text; floats read back exactly."""
    lines = []
    for i, node in enumerate(graph.nodes):
        text = f"%{i} = {node.op}" + "".join(f" %{arg}" for arg in node.args)
        if node.params:
            text += " " + json.dumps(list(node.params))
        if node.region:
            text += f" @{node.region}"
        if node.line:
            text += f" #{node.line}"
        lines.append(text)
    lines += [f"out {name} = %{node_id}" for name, node_id in graph.outputs]
    lines += [f"state {name} = %{node_id} from {first!r}" for name, node_id, first in graph.states]
    return "\n".join(lines) + "\n"


def parse_graph(text: str) -> Graph:
    """Parse the text form and verify the graph.

    Raises
    ------
    GraphError
        With the line's number if a line is neither a node, nor an output, nor a word of state.
    """
    nodes: list[Node] = []
    outputs: list[Output] = []
    states: list[Feedback] = []
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith(";"):
            continue
        if match := _OUT.fullmatch(line):
            outputs.append(Output(Word.of(match["name"]), int(match["id"])))
            continue
        if match := _STATE.fullmatch(line):
            try:
                initial = float(match["initial"])
            except ValueError:
                raise GraphError(
                    f"Line {number} has an initial value that is not a number: {line!r}."
                ) from None
            states.append(Feedback(Word.of(match["name"]), int(match["id"]), initial))
            continue
        match = _NODE.fullmatch(line)
        if match is None or int(match["id"]) != len(nodes):
            raise GraphError(
                f"Line {number} is neither '%{len(nodes)} = ...', 'out NAME = %N' nor "
                f"'state NAME = %N from NUMBER': {line!r}."
            )
        try:
            params = json.loads(match["params"] or "[]")
        except (ValueError, RecursionError) as error:
            raise GraphError(
                f"Line {number} has unreadable parameters: write a JSON list ({error})."
            ) from None
        if match["op"] == names.INPUT and params and isinstance(params[0], str):
            params[0] = Word.of(params[0])
        nodes.append(
            Node(
                op=match["op"],
                args=tuple(int(a) for a in re.findall(r"%(\d+)", match["args"])),
                params=tuple(params),
                region=Region.of(match["region"]) if match["region"] else None,
                line=match["line"] or "",
            )
        )
    return verify(Graph(tuple(nodes), tuple(outputs), tuple(states)))
