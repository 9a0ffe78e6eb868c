"""Check for mimic joints that follow an unknown joint, themselves, or each other."""

from __future__ import annotations

from collections.abc import Mapping

from .lookup import nearest
from .model import Joint, Model


def loose_ties(model: Model) -> list[str]:
    """Return the faults of a model's mimic joints, as clauses."""
    joints = {body.joint.name: body.joint for body in model.bodies}
    faults: list[str] = []
    safe: set[str] = set()
    for start in joints:
        path: dict[str, None] = {}
        name = start
        while name not in safe:
            if name in path:
                faults.append(_circle([*list(path)[list(path).index(name) :], name]))
                break
            path[name] = None
            tie = joints[name].mimic
            if tie is None:
                break
            if tie.joint not in joints:
                faults.append(
                    f"the joint {name!r} mimics {tie.joint!r}, which the robot {model.name!r} does "
                    f"not have ({nearest(tie.joint, _others(joints, name))})"
                )
                break
            name = tie.joint
        safe.update(path)
    return faults


def _others(joints: Mapping[str, Joint], follower: str) -> list[str]:
    """Return the joints that a joint may follow: neither itself nor one that follows it."""
    followers = {follower}
    while (
        more := {n for n, j in joints.items() if j.mimic and j.mimic.joint in followers} - followers
    ):
        followers |= more
    return [name for name in joints if name not in followers]


def _circle(path: list[str]) -> str:
    if len(path) == 2:
        return f"the joint {path[0]!r} mimics itself"
    return f"the joints {' -> '.join(map(repr, path))} mimic each other in a cycle"
