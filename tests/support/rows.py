"""Ready-made functions besides the equations of motion, and robots for them."""

from __future__ import annotations

from functools import cache

from benchmarks.contacts import CONTACTS
from benchmarks.functions import of_tip

from pinion.functions import FUNCTIONS, SUBJECTS, FunctionError
from pinion.robot import Model, load, load_text, tip, urdf_text, with_contacts
from pinion.robot.generated import link_xml


def _adds(row: str) -> bool:
    """Return whether a function rejects a floating base, whose positions cannot be added."""
    try:
        FUNCTIONS[row].trace(_raft())
    except FunctionError:
        return True
    return False


@cache
def _raft() -> Model:
    """Return a robot with a floating base and one joint."""
    base = link_xml("base", mass=1.0, tensor=(0.02, 0.0, 0.0, 0.02, 0.0, 0.01))
    text = urdf_text("pendulum").replace('<link name="base"/>', base)
    return with_contacts(load_text(text, floating_base=True), ["base"])


LITERATURE = SUBJECTS["dynamics"]
NEW = tuple(name for name, row in FUNCTIONS.items() if row not in LITERATURE)
JACOBIANS = ("frame_jacobian", "frame_jacobian_local", "frame_jacobian_world")
FRAME_ROWS = tuple(
    name for name, row in FUNCTIONS.items() if row.of_frames and len(row.references) > 1
)
OF_TIPS = tuple(name for name in NEW if of_tip(name))
SECOND_ORDER = tuple(row.name for row in SUBJECTS["second order"])
OF_ADDING = tuple(name for name in NEW if _adds(name))
"""Rows of robots whose joints have one position each."""

# A fixed, rotated and shifted link after the last joint of a leg.
FOOT = (
    '<link name="lf_foot"/><joint name="lf_foot_joint" type="fixed"><parent link="lf_lowerleg"/>'
    '<child link="lf_foot"/><origin xyz="0.33 0.02 -0.01" rpy="0.3 -0.5 0.7"/></joint></robot>'
)


def legged() -> str:
    """Return the URDF of HyQ with a foot on its left front leg."""
    return urdf_text("hyq").replace("</robot>", FOOT)


@cache
def robot(name: str) -> Model:
    """Return a robot by name; ``leg`` is one leg of HyQ, down to its foot."""
    if name.endswith("leg"):
        leg = tip(load_text(legged(), floating_base=name.startswith("floating")), "lf_foot")
        return with_contacts(leg, ["lf_foot:6d"])
    plain = name.removeprefix("floating ")
    return load(plain, floating_base=plain != name, contacts=CONTACTS.get(plain, ()))


def has(name: str, row: str) -> bool:
    """Return whether a robot has what a function needs: contacts, one tip, additive positions.

    ``name`` : of a robot here; trees have several tips and branches of them one.
    """
    touches = name.endswith("leg") or name.removeprefix("floating ") in CONTACTS
    if FUNCTIONS[row].of_contacts and not touches:
        return False
    if row in OF_TIPS and (name.endswith("hyq") or name.startswith("tree")):
        return False
    return row not in OF_ADDING or not name.startswith("floating")
