"""Every row of the table of functions: the traced graph, the float model, words and variants."""

from __future__ import annotations

import re
from functools import cache
from itertools import product

import numpy as np
import pytest

from pinion import dynamics
from pinion.formats import FormatPlan
from pinion.functions import (
    FUNCTIONS,
    SUBJECTS,
    Block,
    Function,
    FunctionError,
    arrays_of,
    named_function,
    row_of,
    sample,
    unit_for,
)
from pinion.functions.records import array_of
from pinion.functions.row import word_columns
from pinion.graph import evaluate_floats, op_counts
from pinion.graph.passes import fold
from pinion.hls import DesignSettings, Timing, design
from pinion.robot import JointKind, Model, load, load_text, random_tree
from tests.support.breadth import some, some_rows

Q16 = FormatPlan.parse("q16.16")
SEED = 21  # of the random tree
WITH_GRADIENT = ("rnea_derivatives", "fd_derivatives", "fd_derivatives_from_minv")
VARIANTS = [
    *SUBJECTS["dynamics"],
    *(named_function(name, derivatives="column") for name in WITH_GRADIENT),
    named_function("fd_derivatives", outputs=("minv",)),
    named_function("fd_derivatives", derivatives="column", outputs=("qdd", "minv")),
]
BLOCKS = {block.name: block for row in VARIANTS for block in (*row.inputs, *row.outputs)}


def label(row: Function) -> str:
    return "-".join((row.name, *row.options.values()))


@cache
def robot(name: str) -> Model:
    if name != "tree":
        return load(name)
    model = load_text(random_tree(np.random.default_rng(SEED), 7))
    kinds = {body.joint.kind for body in model.bodies}
    assert kinds == {JointKind.REVOLUTE, JointKind.PRISMATIC}
    assert any(body.parent not in (i - 1, -1) for i, body in enumerate(model.bodies)), "no tree"
    return model


@pytest.mark.parametrize("name", some(["iiwa14", "hyq", "tree"], ("iiwa14", "tree")))
@pytest.mark.parametrize("row", VARIANTS, ids=label)
def test_the_graph_is_the_float_model(row: Function, name: str) -> None:
    model, count, seed = robot(name), 20, 7
    requests = sample(model, row, count, distribution="reference", seed=seed)
    arrays = {word: values.astype(np.float64) for word, values in requests.items()}
    graph = row.trace(model)
    assert list(graph.inputs) == [w for block in row.inputs for w in block.words(model)]
    words = [w for block in row.results for w in block.words(model)]
    assert [word for word, _ in graph.outputs] == words
    traced = evaluate_floats(graph, word_columns(row.inputs, model, arrays))
    want = row.evaluate(model, arrays)
    assert list(want) == [block.name for block in row.results]
    for block in row.results:
        values = want[block.name]
        assert values.shape == (count, *block.dims(model)) and np.isfinite(values).all()
        flat = values.reshape(count, -1)
        scale = np.abs(flat).max()
        assert scale > 0
        for word, position in block.positions(model).items():
            error = np.abs(traced[word] - flat[:, position])
            assert np.all(error <= 1e-11 * scale), f"{word} is off by {error.max() / scale}"
        if block.symmetric:
            assert np.array_equal(values, np.swapaxes(values, 1, 2))


# A small arm has every function, the robots with branches what zeros and branches show in.
_FAST = ("tree-minv", "hyq-rnea")
_SLOW = ("tree-crba", "tree-rnea_derivatives", "hyq-aba", "hyq-fd_derivatives_from_minv")


@pytest.mark.parametrize(
    ("row", "name"),
    some_rows(
        [
            pytest.param(
                row,
                name,
                id=f"{label(row)}-{name}",
                marks=()
                if name == "two_link" or f"{name}-{label(row)}" in _FAST
                else pytest.mark.slow,
            )
            for name in ("two_link", "hyq", "tree")
            for row in VARIANTS
            if name == "two_link" or f"{name}-{label(row)}" in (*_FAST, *_SLOW)
        ],
        lambda row, name: name == "two_link",
    ),
)
def test_what_travels_and_the_constants_make_the_whole_result(row: Function, name: str) -> None:
    """As a host does: requests gathered, a core without its constants, results scattered."""
    model, count, seed = robot(name), 12, 9
    requests = sample(model, row, count, distribution="reference", seed=seed)
    matrices = [block for block in row.inputs if len(block.shape) > 1]
    settings = DesignSettings(
        ii=16,
        plan=Q16,
        timing=Timing(),
        states={w: x[:1] for w, x in word_columns(row.inputs, model, requests).items()},
        droppable={word for block in matrices for word in block.words(model)},
        effort=1,
    )
    core = design(row.trace(model), settings)
    real, constants = core.real, core.constants
    assert not any(real.nodes[node].op == "const" for _, node in real.outputs)
    inputs = [array_of(block, model, set(real.inputs), {}) for block in row.inputs]
    words = np.concatenate([a.gather(requests[a.name]).reshape(count, -1) for a in inputs], axis=1)
    assert words.shape == (count, len(real.inputs)), "the record is what the core reads"
    request = {word: words[:, k].astype(np.float64) for k, word in enumerate(real.inputs)}
    results = evaluate_floats(real, request)
    want = row.evaluate(model, {k: x.astype(np.float64) for k, x in requests.items()})
    computed = {word for word, _ in real.outputs}
    assert not computed & set(constants)
    for block in row.results:
        array = array_of(block, model, computed, constants)
        sent = [results[word] for word in block.positions(model) if word in computed]
        flat = np.stack(sent, axis=1) if sent else np.zeros((count, 0))
        whole = array.scatter(flat.reshape(count, *array.record_shape))
        error = np.abs(whole - want[block.name]).max()
        assert error <= 1e-11 * np.abs(want[block.name]).max(), f"{block.name}: {error}"


def test_structural_zeros_of_a_quadruped_do_not_travel() -> None:
    """Legs do not move each other on a fixed base: four blocks of 3 x 3 in each matrix."""
    model, row = robot("hyq"), named_function("fd_derivatives_from_minv")
    graph = fold(row.trace(model))
    zero = {w for w, n in graph.outputs if graph.nodes[n].op == "const"}
    apart = {
        f"{name}[{i},{j}]"
        for name in ("dqdd_dq", "dqdd_dqd")
        for i, j in product(range(12), repeat=2)
        if i // 3 != j // 3
    }
    assert apart <= zero
    uses = graph.uses()
    unread = {
        node.params[0] for i, node in enumerate(graph.nodes) if node.op == "input" and not uses[i]
    }
    assert unread == {f"minv[{i},{j}]" for i in range(12) for j in range(i) if i // 3 != j // 3}


@pytest.mark.parametrize("kind", WITH_GRADIENT)
def test_the_closed_form_of_the_gradient_takes_fewer_products_than_columns(kind: str) -> None:
    counts = [
        op_counts(fold(named_function(kind, derivatives=choice).trace(robot("iiwa14"))))
        for choice in ("composite", "column")
    ]
    composite, column = (c["mul"] + c["mul_const"] for c in counts)
    assert composite < 0.9 * column, (composite, column)


def test_a_result_that_is_asked_for_changes_no_other() -> None:
    model = robot("two_link")
    requests = sample(model, named_function("fd_derivatives"), 5, distribution="reference", seed=1)
    arrays = {word: values.astype(np.float64) for word, values in requests.items()}
    few = named_function("fd_derivatives").evaluate(model, arrays)
    all_of_them = named_function("fd_derivatives", outputs=("minv",)).evaluate(model, arrays)
    assert list(few) == ["qdd", "dqdd_dq", "dqdd_dqd"] and list(all_of_them) == [*few, "minv"]
    for name, values in few.items():
        assert np.array_equal(values, all_of_them[name])
    assert np.array_equal(all_of_them["minv"], dynamics.minv(model, arrays["q"]))


# -- words and positions ---------------------------------------------------------------------------


@pytest.mark.parametrize("block", BLOCKS.values(), ids=lambda block: block.name)
@pytest.mark.parametrize("name", ["two_link", "hyq"])
def test_words_name_elements_row_by_row(block: Block, name: str) -> None:
    model = robot(name)
    dims, positions = block.dims(model), block.positions(model)
    assert block.words(model) == list(positions)
    values = list(positions.values())
    assert values == sorted(set(values))
    for word, position in positions.items():
        index = np.unravel_index(position, dims)
        assert word == f"{block.name}[{','.join(str(int(i)) for i in index)}]"
    full = {int(np.ravel_multi_index(i, dims)) for i in product(*map(range, dims))}
    if block.symmetric:
        upper = {i * dims[1] + j for i in range(dims[0]) for j in range(i + 1, dims[1])}
        full -= upper
    assert set(values) == full


def test_the_words_of_a_small_matrix() -> None:
    model = robot("two_link")
    assert BLOCKS["minv"].positions(model) == {"minv[0,0]": 0, "minv[1,0]": 2, "minv[1,1]": 3}
    assert BLOCKS["dtau_dq"].words(model) == [f"dtau_dq[{i},{j}]" for i in (0, 1) for j in (0, 1)]
    assert BLOCKS["tau"].positions(model) == {"tau[0]": 0, "tau[1]": 1}
    assert {block.name for block in BLOCKS.values() if block.symmetric} == {"M", "minv"}


def test_only_the_lower_triangle_of_a_symmetric_input_is_read() -> None:
    row, model = named_function("fd_derivatives_from_minv"), robot("iiwa14")
    graph = row.trace(model)
    read = [word for word in graph.inputs if word.startswith("minv")]
    assert read == [f"minv[{i},{j}]" for i in range(7) for j in range(i + 1)]


# -- names that are not there ----------------------------------------------------------------------


def test_the_rows_have_their_names() -> None:
    for name in FUNCTIONS:
        row = named_function(name)
        assert row.name == name and row.doc and not row.options
    both = named_function("fd_derivatives", derivatives="column", outputs=["minv"])
    assert both.options == {"derivatives": "column", "outputs": "minv"}
    # A result that is not optional is not an option.
    assert named_function("fd_derivatives", outputs=["qdd"]).options == {}


def test_an_unknown_function_is_a_sentence() -> None:
    with pytest.raises(
        FunctionError, match=r"no function .dance.; choose one of rnea, .*fd_second.*\. For your"
    ):
        named_function("dance")
    with pytest.raises(
        FunctionError, match=r"no function .rnae.; the nearest is rnea \(.*\. For your own"
    ):
        named_function("rnae")


def test_an_unknown_formulation_is_a_sentence() -> None:
    with pytest.raises(FunctionError, match=r"'symbolic' of the der.* one of composite, column\.$"):
        named_function("rnea_derivatives", derivatives="symbolic")


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - set(WITH_GRADIENT)))
def test_a_formulation_of_no_gradient_is_a_sentence(name: str) -> None:
    with pytest.raises(FunctionError, match=rf"'{name}' has no formulation 'column' of deriv.*"):
        named_function(name, derivatives="column")


def test_an_unknown_result_is_a_sentence() -> None:
    message = r"'fd_derivatives' has no result 'M'; its results are dqdd_dq, dqdd_dqd, minv, qdd\.$"
    with pytest.raises(FunctionError, match=message):
        named_function("fd_derivatives", outputs=("minv", "M"))
    with pytest.raises(FunctionError, match=r"'rnea' has no result 'minv'; its results are tau\."):
        named_function("rnea", outputs=("minv",))


def test_a_row_is_taken_by_its_name_or_as_it_is() -> None:
    column = named_function("fd_derivatives", derivatives="column")
    assert row_of("fd_derivatives", derivatives="column") == column
    assert row_of(column) is column
    # A row keeps its formulation; results are added to it.
    with_minv = named_function("fd_derivatives", derivatives="column", outputs=("minv",))
    assert row_of(column, derivatives="composite", outputs=("minv",)) == with_minv
    with pytest.raises(FunctionError, match="'fly'"):
        row_of("fly")


def test_results_are_asked_for_by_a_list_or_a_text() -> None:
    with_pose = row_of("frame_jacobian", outputs=["R", "p"])
    assert row_of("frame_jacobian", outputs="R, p").results == with_pose.results
    assert row_of("fd_derivatives", outputs="minv").added == ("minv",)
    with pytest.raises(FunctionError, match="has no result 'inv'; its results are"):
        row_of("fd_derivatives", outputs="inv")


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("rnea_gradient", "are rnea_derivatives, rnea_fext ("),
        ("gradient", "are rnea_derivatives, fd_derivatives, fd_derivatives_from_minv ("),
        ("rnae", "is rnea ("),
        ("frame_jacobain", "frame_jacobian"),
    ],
)
def test_an_unknown_name_has_near_ones(wrong: str, near: str) -> None:
    with pytest.raises(FunctionError, match=re.escape(near)):
        row_of(wrong)


def test_arrays_of_blocks_have_a_robots_shapes() -> None:
    row, model = named_function("fd_derivatives"), load("hyq")
    for blocks in (row.inputs, row.results):
        arrays = arrays_of(blocks, model)
        assert [(a.name, a.shape, a.unit) for a in arrays] == [
            (b.name, b.dims(model), unit_for(b.unit, model)) for b in blocks
        ]
        assert all(a.sent is None and a.constants == () for a in arrays)
