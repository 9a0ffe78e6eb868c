"""The page of coverage against Pinocchio and GRiD: its names exist, and its gaps are gaps."""

from __future__ import annotations

import importlib.util
from importlib.metadata import version
from pathlib import Path

import pinocchio as pin
import pytest

from pinion.functions import FUNCTIONS
from pinion.robot.model import JointKind
from tests.dynamics.test_pinocchio_page import missing_ours, missing_theirs, names, rows

PAGE = (Path(__file__).resolve().parents[2] / "docs/pinocchio.md").read_text("utf-8")
TABLES = ("mechanics", "robots", "around")
EVERY = [row for table in TABLES for row in rows(table, PAGE)]


def known(name: str) -> bool:
    """Return whether one of our names is a row of the table, or a Python name."""
    if name in FUNCTIONS:
        return True
    return name.startswith("pinion.") and not missing_ours(name)


@pytest.mark.parametrize("table", TABLES)
def test_names_are_there(table: str) -> None:
    cells = rows(table, PAGE)
    assert all(len(row) == 5 for row in cells), [row for row in cells if len(row) != 5]
    assert [n for row in cells for n in names(row[1]) if not known(n)] == []
    assert [n for row in cells for n in names(row[3]) if missing_theirs(n)] == []
    assert sum(len(names(row[3])) for row in cells) >= 2


def test_names_that_are_not_there_are_noticed() -> None:
    assert missing_theirs("computeRneaDerivatives") and not known("fd_derivative")
    assert not known("rnea_column") and not known("pinion.compute.nothing")


def test_the_page_speaks_of_the_installed_pinocchio() -> None:
    assert f"`pin` {version('pin')}" in PAGE
    # Available in C++ only, or missing, as the page states.
    assert not hasattr(pin, "ComputeRNEASecondOrderDerivatives")
    assert not hasattr(pin, "buildModelFromSdf")
    assert importlib.util.find_spec("pinocchio.casadi") is None


def test_every_row_of_the_table_of_functions_has_a_place() -> None:
    """The page lists everything in the table of functions."""
    named = {name for row in EVERY for name in names(row[1])}
    variants = {
        **{"fd_derivatives_from_minv": "fd_derivatives"},
        **{"frame_jacobian_local": "frame_jacobian", "frame_jacobian_world": "frame_jacobian"},
        "inverse_operational_space_inertia": "operational_space_inertia",
    }
    missing = [name for name in FUNCTIONS if variants.get(name, name) not in named]
    assert missing == []


def test_kinds_of_joints_are_those_of_the_model() -> None:
    text = " ".join(row[0] for row in rows("robots", PAGE)).replace("floating base", "free_flyer")
    kinds = {kind.value for kind in JointKind}
    assert {"spherical", "planar", "helical", "free_flyer"} <= kinds
    assert [kind for kind in kinds if kind not in text] == []


def test_gaps_are_named_below() -> None:
    """Each row that Pinion lacks has a line in the list of gaps."""
    below = PAGE.partition("## What Pinion lacks")[2].casefold()
    gaps = [row[0] for row in EVERY if row[1].startswith("**no**")]
    kinematics = "derivatives of kinematics with respect to positions"
    words = {
        kinematics: kinematics,
        "friction of contacts": "friction in contacts",
        "collisions and distances": "collisions and distances",
    }
    assert sorted(gaps) == sorted(words)
    assert [gap for gap in gaps if words[gap] not in below] == []
