"""Backends with parameters: defaults, sets for a call, attached loads, and the checks of both."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from numpy.typing import NDArray

import pinion.api as pinion
from pinion import dynamics
from pinion.batch import InputError
from pinion.dynamics.parametric import check_values, rigid_body
from pinion.functions import FUNCTIONS, FunctionError
from pinion.robot import load, payload, urdf_text

Array = NDArray[np.float64]

HAND, COUNT = "iiwa_link_7", 33
RNG = np.random.default_rng(5)
Q, QD, QDD = RNG.uniform(-1.0, 1.0, (3, COUNT, 7))
# A core's requests, and those of the float model, are float32.
EXACT = {"float": 1e-6, "cpu": 1e-10}
TOOL: dict[str, Any] = {"mass": 2.0, "com": (0.01, -0.02, 0.1)}
TENSOR = (0.02, 0.001, 0.0, 0.03, -0.002, 0.025)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(params=["float", "cpu"])
def inverse(request: Any, cache: Path) -> Iterator[Any]:
    options = {"cache": cache} if request.param == "cpu" else {}
    names = (HAND, "gravity")
    device = request.param
    with pinion.backend("iiwa14", "rnea", device=device, parameters=names, **options) as opened:
        yield opened


def tolerance_of(backend: Any) -> float:
    return EXACT["cpu" if "Cpu" in repr(backend) else "float"]


def near(backend: Any, tau: Array, expected: Array) -> None:
    assert np.abs(tau - expected).max() <= tolerance_of(backend) * np.abs(expected).max()


def by_pinocchio(inertias: Any, gravity: Array | None = None) -> Array:
    """Efforts of every motion with other inertias of the hand."""
    theirs = pin.buildModelFromXML(urdf_text("iiwa14"))
    if gravity is not None:
        theirs.gravity.linear = gravity
    data, efforts, file = theirs.createData(), [], pin.Inertia(theirs.inertias[7])
    for i in range(COUNT):
        theirs.inertias[7] = inertias(i, file)
        efforts.append(pin.rnea(theirs, data, Q[i], QD[i], QDD[i]))
    return np.array(efforts)


def pin_inertia(mass: float, com: Any, tensor: Any) -> Any:
    xx, xy, xz, yy, yz, zz = tensor
    full = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return pin.Inertia(mass, np.array(com), full)


def test_the_default_is_the_file_s_robot(inverse: Any) -> None:
    near(inverse, inverse(Q, QD, QDD).tau, by_pinocchio(lambda i, file: file))
    assert np.array_equal(
        inverse.parameters, dynamics.parameter_values(load("iiwa14"), (HAND, "gravity"))
    )
    single = inverse(Q[3], QD[3], QDD[3])
    assert single.tau.shape == (7,)
    near(inverse, single.tau, inverse(Q, QD, QDD).tau[3])


def test_an_inertia_replaces_the_set_of_a_call_and_serves_the_batch(inverse: Any) -> None:
    tool = pin_inertia(TOOL["mass"], TOOL["com"], TENSOR)
    expected = by_pinocchio(lambda i, file: tool)
    described = inverse(Q, QD, QDD, inertia={HAND: {**TOOL, "inertia": TENSOR}})
    near(inverse, described.tau, expected)
    ten = inverse(q=Q, qd=QD, qdd=QDD, inertia={HAND: tool.toDynamicParameters()})
    near(inverse, ten.tau, expected)
    near(inverse, inverse(Q, QD, QDD).tau, by_pinocchio(lambda i, file: file))


def test_sets_with_a_batch_axis_are_of_each_sample(inverse: Any) -> None:
    masses, gravity = np.linspace(0.5, 3.0, COUNT), np.array([0.0, -3.0, -1.6])
    each = {"mass": masses, "com": TOOL["com"], "inertia": TENSOR}
    expected = by_pinocchio(lambda i, file: pin_inertia(masses[i], TOOL["com"], TENSOR), gravity)
    result = inverse(Q, QD, QDD, inertia={HAND: each, "gravity": gravity})
    near(inverse, result.tau, expected)
    other_states = inverse(Q[3], QD[3], QDD[3], inertia={HAND: each, "gravity": gravity})
    assert other_states.tau.shape == (COUNT, 7)
    near(inverse, other_states.tau[3], expected[3])


def test_results_are_written_to_out(cache: Path) -> None:
    names = (HAND, "gravity")
    with pinion.backend("iiwa14", "rnea", device="cpu", parameters=names, cache=cache) as inverse:
        tau = np.zeros((COUNT, 7))
        masses = np.linspace(0.5, 3.0, COUNT)
        tool = {"mass": 2.0, "com": TOOL["com"], "inertia": TENSOR}
        for described in (tool, {**tool, "mass": masses}):
            inverse(Q, QD, QDD, inertia={HAND: described}, out={"tau": tau})
            fresh = inverse(Q, QD, QDD, inertia={HAND: described}).tau
            assert np.array_equal(tau, fresh) and np.abs(tau).max() > 1.0


def test_an_attached_load_adds_to_the_file_until_it_is_detached(inverse: Any) -> None:
    file = inverse(Q, QD, QDD).tau
    inverse.attach(HAND, **TOOL, inertia=TENSOR)
    tool = pin_inertia(TOOL["mass"], TOOL["com"], TENSOR)
    loaded = inverse(Q, QD, QDD).tau
    near(inverse, loaded, by_pinocchio(lambda i, file: file + tool))
    expected = dynamics.rnea(payload(load("iiwa14"), HAND, **TOOL, inertia=TENSOR), Q, QD, QDD)
    near(inverse, loaded, expected)
    inverse.attach(HAND, mass=1.0)
    expected = dynamics.rnea(payload(load("iiwa14"), HAND, mass=1.0), Q, QD, QDD)
    near(inverse, inverse(Q, QD, QDD).tau, expected)
    inverse.attach(HAND, mass=0.0)
    assert np.array_equal(inverse(Q, QD, QDD).tau, file)


def test_a_load_on_the_axis_adds_four_numbers(cache: Path) -> None:
    model = load("iiwa14")
    names = (f"{HAND}:on-axis",)
    inverse = pinion.backend(model, "rnea", device="cpu", parameters=names, cache=cache)
    round_load: dict[str, Any] = {"mass": 2.0, "com": (0.0, 0.0, 0.1)}
    inverse.attach(HAND, **round_load)
    expected = dynamics.rnea(payload(model, HAND, **round_load), Q, QD, QDD)
    near(inverse, inverse(Q, QD, QDD).tau, expected)
    with pytest.raises(InputError, match="not symmetric about its joint's axis"):
        inverse.attach(HAND, **TOOL)
    with pytest.raises(InputError, match="not symmetric about its joint's axis"):
        inverse(Q, QD, QDD, inertia={HAND: {"mass": 1.0, "com": (0.0, 0.1, 0.0)}})
    near(inverse, inverse(Q, QD, QDD).tau, expected)


def test_a_link_that_is_not_symmetric_takes_its_four_numbers_or_the_file_s_remainder() -> None:
    link, plain = "lf_lowerleg", load("hyq")
    names = (f"{link}:on-axis",)
    assert not symmetric_about_axis(plain, link)
    inverse = pinion.backend("hyq", "rnea", device="float", parameters=names)
    rng = np.random.default_rng(5)
    state = [rng.normal(size=(4, n)) for n in (plain.nq, plain.nv, plain.nv)]
    four = np.array(dynamics.parameter_values(plain, names))
    (parameter,) = dynamics.parameters_of(plain, names)
    twice = inverse(*state, inertia={link: 2.0 * four}).tau
    assert np.array_equal(twice, inverse(*state, parameters=2.0 * four).tau)
    assert np.array_equal(twice, inverse(*state, inertia={link: parameter.full(2.0 * four)}).tau)
    assert not np.array_equal(twice, inverse(*state).tau)
    with pytest.raises(
        InputError, match=r"differs from the robot's file .* give only the 4 numbers"
    ):
        inverse(*state, inertia={link: {"mass": 1.0}})


def symmetric_about_axis(model: Any, link: str) -> bool:
    (parameter,) = dynamics.parameters_of(model, (f"{link}:on-axis",))
    return bool(np.abs(parameter.origin).max() < 1e-9)


def test_a_robot_whose_file_has_an_impossible_link_takes_its_own_set() -> None:
    atlas, link = load("atlas"), "utorso"
    inverse = pinion.backend(atlas, "gravity", device="float", parameters=(link, "l_hand"))
    q = np.zeros((2, atlas.nq))
    values = np.array(dynamics.parameter_values(atlas, (link, "l_hand")))
    near(inverse, inverse(q, parameters=values).g, inverse(q).g)
    values[10] = -1.0
    with pytest.raises(InputError, match="The mass of the link 'l_hand' is -1 kg"):
        inverse(q, parameters=values)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parameters": 5}, "The option parameters cannot be 5: give names"),
        ({"parameters": (5,)}, r"The option parameters cannot be \(5,\): give names"),
        ({"parameters": HAND, "parameter_range": 5}, "parameter_range must be a string .*, not 5"),
    ],
)
def test_options_of_another_type_are_a_sentence(options: Any, message: str) -> None:
    with pytest.raises(FunctionError, match=message):
        pinion.backend("iiwa14", "rnea", device="float", **options)


def test_the_float_model_refuses_parameters_that_change_nothing() -> None:
    with pytest.raises(FunctionError, match="change no result of 'forward_kinematics'"):
        pinion.backend("iiwa14", "forward_kinematics", device="float", parameters=(HAND,))


def test_sets_of_another_form_are_a_sentence() -> None:
    names = (HAND, "iiwa_link_6:on-axis")
    inverse = pinion.backend("iiwa14", "rnea", device="float", parameters=names)
    for sets, message in (
        (5, "'inertia' must be a dictionary of parameters by link name, not '5'"),
        ({"iiwa_link_6": np.ones(4), "iiwa_link_6:on-axis": np.ones(4)}, "name the same link"),
        (
            {"iiwa_link_6": np.ones(5)},
            "10 numbers, the 4 of 'iiwa_link_6:on-axis' or a dictionary of mass, com",
        ),
    ):
        with pytest.raises(InputError, match=message):
            inverse(Q, QD, QDD, inertia=sets)
    with pytest.raises(InputError, match=r"mass .* is malformed"):
        inverse.attach(HAND, mass=np.array([1.0, 2.0]))


def test_a_figure_of_a_joint_is_a_number_for_all_or_for_each() -> None:
    with pinion.backend(
        "iiwa14", "rnea", device="float", parameters=("iiwa_joint_2:armature",)
    ) as inverse:
        plain = by_pinocchio(lambda i, file: file)
        for armature in (0.3, np.linspace(0.0, 1.0, COUNT)):
            tau = inverse(Q, QD, QDD, inertia={"iiwa_joint_2:armature": armature}).tau
            expected = plain.copy()
            expected[:, 1] += armature * QDD[:, 1]
            near(inverse, tau, expected)


SAMPLE_4 = np.tile([1.0, 0.0, 0.0, 0.0, 0.1, 0.0, 0.1, 0.0, 0.0, 0.1], (COUNT, 1))
SAMPLE_4[4, 4] = 0.3


@pytest.mark.parametrize(
    ("inertia", "message"),
    [
        ({HAND: {"mass": -1.0}}, f"mass of the link '{HAND}' is -1 kg: it must be positive"),
        ({HAND: {"mass": 1.0, "inertia": (1, 0, 0, 0.1, 0, 0.1)}}, "0.1, 0.1, 1 kg m.2, breaking"),
        ({HAND: {"mass": 1.0, "inertia": (-1, 0, 0, 1, 0, 1)}}, "not positive definite; correct"),
        ({HAND: SAMPLE_4}, f"inertia of the link '{HAND}' in sample 4 is not physical"),
        ({"nothing": np.ones(10)}, f"no parameters of 'nothing', only of '{HAND}', 'gravity'"),
        (
            {HAND: np.ones(9)},
            r"has the shape \(9,\): give 10 numbers or a dictionary of mass, com and inertia",
        ),
        ({HAND: {"com": (0, 0, 0)}}, "give 10 numbers or a dictionary of mass, com and inertia"),
        ({"gravity": {"mass": 1.0}}, "cannot be {'mass': 1.0}: give 3 numbers, once for all"),
        ({HAND: SAMPLE_4, "gravity": np.ones((2, 3))}, r"numbers of samples \(2 and 33\)"),
    ],
)
def test_a_set_that_no_body_can_have_is_a_sentence(inertia: Any, message: str) -> None:
    inverse = pinion.backend("iiwa14", "rnea", device="float", parameters=(HAND, "gravity"))
    with pytest.raises(InputError, match=message):
        inverse(Q, QD, QDD, inertia=inertia)


def test_the_input_itself_is_checked_unless_inertias_are_accepted(inverse: Any) -> None:
    wrong = inverse.parameters
    wrong[0] = -1.0
    for sets in (wrong, np.tile(wrong, (COUNT, 1))):
        with pytest.raises(InputError, match="it must be positive"):
            inverse(Q, QD, QDD, sets)
        with pytest.raises(InputError, match="it must be positive"):
            inverse(q=Q, qd=QD, qdd=QDD, parameters=sets)
    right = inverse.parameters
    near(inverse, inverse(Q, QD, QDD, right).tau, inverse(Q, QD, QDD).tau)
    right[0] = -1.0  # the array that was accepted, changed
    with pytest.raises(InputError, match="it must be positive"):
        inverse(Q, QD, QDD, right)
    with pytest.raises(InputError, match="given twice"):
        inverse(Q, QD, QDD, inverse.parameters, inertia={HAND: {"mass": 1.0}})


@pytest.mark.parametrize("robot", ["iiwa14", load("iiwa14")])
def test_accepted_inertias_are_not_checked(robot: Any) -> None:
    """Of a robot that is loaded already, too: the option is about the sets then."""
    with pinion.backend(
        robot, "rnea", device="float", parameters=(HAND,), accept_inertia=True
    ) as inverse:
        heavy = pin.Inertia.FromDynamicParameters(np.array([-1.0, *np.zeros(9)]))
        expected = by_pinocchio(lambda i, file: heavy)
        near(inverse, inverse(Q, QD, QDD, inertia={HAND: {"mass": -1.0}}).tau, expected)


@pytest.mark.parametrize(
    "tensor", [(0.0,) * 6, (1.0, 0.0, 0.0, 1.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.4, 0.0, 0.6)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_points_rods_and_plates_are_bodies(tensor: Any, dtype: Any) -> None:
    """Ends of the physical: their second moments are singular, and rounding may not refuse them."""
    parameters = dynamics.parameters_of(load("iiwa14"), (HAND,))
    rng = np.random.default_rng(1)
    com = rng.normal(size=(1000, 3))
    turned = np.zeros((1000, 6))
    xx, xy, xz, yy, yz, zz = tensor
    full = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    for k in range(1000):
        R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        turned[k] = (R @ full @ R.T)[np.triu_indices(3)]
    sets = rigid_body(np.full(1000, 2.0), com, turned).astype(dtype)
    check_values(parameters, sets)


def test_a_set_is_refused_where_the_pseudo_inertia_is_not_positive_definite() -> None:
    parameters = dynamics.parameters_of(load("iiwa14"), (HAND,))
    rng = np.random.default_rng(2)
    refused = 0
    for _ in range(500):
        half = rng.normal(size=(4, 4))
        values = rng.uniform(-0.3, 1.0, 4)
        basis = np.linalg.qr(half)[0]
        pseudo = basis @ np.diag(values) @ basis.T
        second, h, m = pseudo[:3, :3], pseudo[:3, 3], pseudo[3, 3]
        full = np.trace(second) * np.eye(3) - second
        i, j = np.array([0, 0, 1, 0, 1, 2]), np.array([0, 1, 1, 2, 2, 2])
        numbers = np.array([m, *h, *full[i, j]])
        if values.min() > 0.0:
            check_values(parameters, numbers)
        else:
            refused += 1
            with pytest.raises(dynamics.DynamicsError, match=r"positive|not physical"):
                check_values(parameters, numbers)
    assert 100 < refused < 450


@pytest.mark.parametrize(
    ("load_of", "message"),
    [
        ({"mass": -1.0}, "mass -1.0 of the payload"),
        ({"mass": 1.0, "inertia": (1, 0, 0, 0.1, 0, 0.1)}, "payload at 'iiwa_link_7' is not phys"),
        ({"mass": 1.0, "com": (0, 0)}, "give 3 finite numbers"),
    ],
)
def test_a_load_that_no_body_can_be_is_a_sentence(load_of: Any, message: str) -> None:
    with pinion.backend("iiwa14", "rnea", device="float", parameters=(HAND, "gravity")) as inverse:
        before = inverse.parameters  # type: ignore[attr-defined]
        with pytest.raises(InputError, match=message):
            inverse.attach(HAND, **load_of)
        with pytest.raises(InputError, match="'gravity' is not a link"):
            inverse.attach("gravity", mass=1.0)
        assert np.array_equal(inverse.parameters, before)  # type: ignore[attr-defined]


def test_a_backend_without_parameters_says_how_to_open_it() -> None:
    inverse = pinion.backend("iiwa14", "rnea", device="float")
    advice = r"parameters=\('iiwa_link_7',\) and the default layout 'aos'"
    with pytest.raises(InputError, match=advice):
        inverse.attach(HAND, mass=1.0)


def test_a_copy_keeps_the_attached_load(inverse: Any) -> None:
    inverse.attach(HAND, **TOOL)
    copied = pickle.loads(pickle.dumps(inverse))
    assert np.array_equal(copied(Q, QD, QDD).tau, inverse(Q, QD, QDD).tau)
    copied.attach(HAND, mass=0.0)
    assert not np.array_equal(copied(Q, QD, QDD).tau, inverse(Q, QD, QDD).tau)


def test_a_layout_with_samples_last_takes_every_set(cache: Path) -> None:
    names = (HAND, "gravity")
    function = FUNCTIONS["rnea"].with_parameters(names)
    with pinion.backend("iiwa14", function, device="cpu", layout="soa", cache=cache) as inverse:
        ten = np.array(dynamics.parameter_values(load("iiwa14"), names))
        sets = np.tile(ten[:, None], (1, COUNT))
        tau = inverse(Q.T, QD.T, QDD.T, sets).tau
        near(inverse, tau.T, by_pinocchio(lambda i, file: file))
        with pytest.raises(InputError, match="layout 'aos'"):
            inverse.attach(HAND, mass=1.0)


@pytest.mark.slow
def test_a_simulated_card_has_the_same_defaults() -> None:
    model = load("pendulum")
    loaded: Any = {"parameters": ("link_1",), "parameter_range": "2kg@0.2m"}
    with pinion.backend(model, "rnea", device="sim", ii=16, **loaded) as card:
        request = {"q": [[0.3], [0.5]], "qd": [[0.2], [0.1]], "qdd": [[1.0], [-1.0]]}
        with pinion.backend(model, "rnea", device="float", **loaded) as floats:
            for mass in (0.0, 1.0):
                for backend in (card, floats):
                    backend.attach("link_1", mass=mass, com=(0.0, 0.1, 0.0))
                expected = floats(**request).tau
                assert np.abs(card(**request).tau - expected).max() <= 1e-2
        assert card.folder.exists()  # type: ignore[attr-defined]
