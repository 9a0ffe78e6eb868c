"""Checks that the joints of a URDF connect its links into one tree."""

from __future__ import annotations

from pinion.robot.errors import RobotError

from .urdf import Urdf, UrdfJoint


def children_of(urdf: Urdf) -> dict[str, list[UrdfJoint]]:
    """Return the joints below each link, in document order.

    Errors
    ------
    RobotError : a joint names an unknown link.
    """
    children: dict[str, list[UrdfJoint]] = {link.name: [] for link in urdf.links}
    for joint in urdf.joints:
        for end, link in (("parent", joint.parent), ("child", joint.child)):
            if link not in children:
                raise RobotError(
                    f"The {end} link {link!r} of joint {joint.name!r} does not exist; "
                    "add the link or correct the name."
                )
        children[joint.parent].append(joint)
    return children


def root_of(urdf: Urdf) -> str:
    """Return the root: the only link that is no joint's child.

    Errors
    ------
    RobotError : a link with two parents, a cycle, or two roots.
    """
    above: dict[str, UrdfJoint] = {}
    for joint in urdf.joints:
        if joint.child in above:
            raise RobotError(
                f"The link {joint.child!r} has two parents, through the joints "
                f"{above[joint.child].name!r} and {joint.name!r}; remove one of them, and close "
                "the loop with the option loops (--loop)."
            )
        above[joint.child] = joint
    _check_cycles(urdf, above)
    roots = [link.name for link in urdf.links if link.name not in above]
    if len(roots) > 1:
        listed = ", ".join(map(repr, roots[:4])) + (", ..." if len(roots) > 4 else "")
        raise RobotError(
            f"The robot {urdf.name!r} has {len(roots)} roots ({listed}); "
            "join them with fixed joints so that only one link has no parent."
        )
    return roots[0]


def _check_cycles(urdf: Urdf, above: dict[str, UrdfJoint]) -> None:
    """Raise `RobotError` if links form a cycle."""
    safe: set[str] = set()
    for link in urdf.links:
        path: dict[str, None] = {}
        name = link.name
        while name not in safe and name in above:
            if name in path:
                loop = list(path)[list(path).index(name) :]
                downwards = [name, *reversed(loop)]  # ends where it starts
                cycle = " -> ".join(map(repr, downwards))
                raise RobotError(
                    f"The links {cycle} form a cycle; remove one of their joints, and close the "
                    "loop with the option loops (--loop)."
                )
            path[name] = None
            name = above[name].parent
        safe.update(path)
