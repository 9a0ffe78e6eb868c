"""Animated and still pictures of a motion, drawn by MuJoCo's off-screen renderer.

Links are drawn as rods between joints, since a model has no shapes; the reference is a row of dots,
and the tip leaves a line. MuJoCo selects its renderer when it is loaded, and the renderer may crash
the process, so it runs in a separate one: ``python -m pinion.control.track.film`` with a file that
:func:`film` writes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.base.arrays import Floats
from pinion.control.errors import ControlError
from pinion.robot import Model, contacts_of, model_from_dict, model_to_dict

from .disturbance import Disturbance
from .mujoco_robot import MujocoRobot, library

RENDERERS = ("egl", "osmesa")
"""Off-screen renderers, in the order in which they are tried."""

PATIENCE = 300.0
"""Time limit of a renderer [s]."""

FRAMES_A_SECOND = 10
STILLS = (0.15, 0.27, 0.45, 0.6)
"""Shares of the motion at which still pictures are taken."""

DOTS = 90
"""Largest number of dots of the reference."""

LINK, JOINT, LOAD = (0.93, 0.55, 0.18, 1.0), (0.32, 0.34, 0.37, 1.0), (0.2, 0.2, 0.22, 1.0)
PATH, TRAIL = (0.65, 0.67, 0.7, 1.0), (0.76, 0.15, 0.18, 1.0)


def film(
    robot: MujocoRobot,
    q: Floats,
    reference: Floats,
    *,
    period: float,
    moving: Path,
    still: Path,
    size: int = 320,
) -> str:
    """Draw a motion as an animated GIF and a PNG of some instants.

    Parameters
    ----------
    robot : the robot, including its payload.
    q : (m, nq) positions, one period apart.
    reference : (m, 3) positions of the reference [m].
    period : [s].
    moving, still : paths of a GIF of the motion and a PNG of some instants.
    size : height and width of a frame [pixels].

    Returns
    -------
    The renderer that drew it, one of :data:`RENDERERS`.

    Raises
    ------
    ControlError
        If no renderer works on this machine; the message gives the reason for each.
    """
    stride = max(1, round(1.0 / (FRAMES_A_SECOND * period)))
    job = {
        "model": model_to_dict(robot.model),
        "frame": robot.frame,
        "payload": robot.disturbance.payload,
        "offset": list(robot.disturbance.offset),
        "q": np.asarray(q)[::stride].tolist(),
        "wanted": np.asarray(reference)[:: max(1, len(reference) // DOTS)].tolist(),
        "seconds": stride * period,
        "moving": str(moving),
        "still": str(still),
        "size": size,
    }
    reasons = []
    with tempfile.TemporaryDirectory(prefix="pinion-film-") as folder:
        file = Path(folder) / "film.json"
        file.write_text(json.dumps(job), encoding="utf-8")
        for name in RENDERERS:
            command = [sys.executable, "-m", "pinion.control.track.film", name, str(file)]
            try:
                completed = subprocess.run(
                    command, capture_output=True, text=True, check=False, timeout=PATIENCE
                )
            except subprocess.TimeoutExpired:
                reasons.append(f"{name}: it took more than {PATIENCE:g} s")
                continue
            if completed.returncode == 0:
                return name
            messages = completed.stderr.strip().splitlines()
            reason = messages[-1] if messages else f"it exited with code {completed.returncode}"
            reasons.append(f"{name}: {reason[:160]}")
    raise ControlError(f"No off-screen renderer of MuJoCo works here ({'; '.join(reasons)}).")


def main(renderer: str, file: str) -> None:
    """Draw the motion that a job file describes, in this process, with one renderer."""
    import os

    # The only way to select a renderer: MuJoCo reads the variable when it is loaded.
    os.environ["MUJOCO_GL"] = renderer
    job = json.loads(Path(file).read_text(encoding="utf-8"))
    robot = MujocoRobot(
        model_from_dict(job["model"]),
        disturbance=Disturbance(payload=job["payload"], offset=tuple(job["offset"])),
        frame=job["frame"],
    )
    size, reference = job["size"], np.array(job["wanted"])
    spec = robot.spec()
    reach = _furnish(spec, robot, reference, size)
    lib = library()
    compiled = spec.compile()
    data = lib.MjData(compiled)
    camera = lib.MjvCamera()
    camera.lookat[:] = [*(0.5 * reference.mean(axis=0))[:2], 0.33 * reach]
    camera.distance, camera.azimuth, camera.elevation = 1.12 * reach, 145.0, -12.0
    if robot.floats:
        camera.lookat[2], camera.distance = 0.25 * reach, 1.7 * reach
    draw = lib.Renderer(compiled, size, size, max_geom=4000)
    # Shadows cost more than everything else when a CPU draws.
    for flag in (lib.mjtRndFlag.mjRND_SHADOW, lib.mjtRndFlag.mjRND_REFLECTION):
        draw.scene.flags[flag] = 0
    site = compiled.site("tip").id
    frames, trail = [], []
    for positions in job["q"]:
        robot.put(data, np.array(positions), np.zeros(robot.model.nv))
        lib.mj_forward(compiled, data)
        trail.append(np.array(data.site_xpos[site]))
        if robot.floats:
            camera.lookat[:2] = trail[-1][:2]
        draw.update_scene(data, camera)
        for begin, end in pairwise(trail):
            _stroke(lib, draw.scene, begin, end)
        frames.append(np.array(draw.render()))
    draw.close()
    if float(np.std(frames[0])) < 1.0:
        raise RuntimeError("the picture is empty")
    _write(job, frames)


def _furnish(spec: Any, robot: MujocoRobot, reference: Floats, size: int) -> float:
    """Add shapes for links, joints and the reference; return the robot's reach [m]."""
    lib = library()
    shape = lib.mjtGeom
    model, bodies = robot.model, [spec.body(f"body_{k}") for k in range(len(robot.model.bodies))]
    feet = [c for c in contacts_of(model) if c.partner is None]
    reach = _reach(model)
    thick = 0.035 * reach
    tip = next(frame for frame in model.frames if frame.name == robot.frame)
    ends = [(body.parent, np.array(body.joint.tree.r)) for body in model.bodies]
    ends.append((tip.body, np.array(tip.placement.r)))
    ends += [(foot.body, np.array(foot.placement.r)) for foot in feet]
    for parent, end in ends:
        carrier = spec.worldbody if parent < 0 else bodies[parent]
        if np.linalg.norm(end) > 1e-6:
            carrier.add_geom(
                type=shape.mjGEOM_CAPSULE,
                fromto=[0.0, 0.0, 0.0, *end],
                size=[thick, 0.0, 0.0],
                rgba=LINK,
                mass=0.0,
            )
    for body in bodies:
        body.add_geom(type=shape.mjGEOM_SPHERE, size=[1.25 * thick, 0.0, 0.0], rgba=JOINT, mass=0.0)
    if robot.disturbance.payload > 0.0:
        spec.body("payload").add_geom(
            type=shape.mjGEOM_SPHERE,
            size=[0.9 * thick, 0.0, 0.0],
            pos=list(robot.disturbance.offset),
            rgba=LOAD,
            mass=0.0,
        )
    for place in reference:
        spec.worldbody.add_geom(
            type=shape.mjGEOM_SPHERE, pos=list(place), size=[0.005 * reach, 0.0, 0.0], rgba=PATH
        )
    spec.worldbody.add_geom(
        type=shape.mjGEOM_PLANE, size=[3.0, 3.0, 0.1], rgba=[0.95, 0.95, 0.96, 1.0]
    )
    spec.worldbody.add_light(
        pos=[0.0, 0.0, 4.0],
        dir=[-0.4, 0.3, -1.0],
        type=lib.mjtLightType.mjLIGHT_DIRECTIONAL,
        diffuse=[0.35, 0.35, 0.35],
        castshadow=False,
    )
    # Without a sky the background is black.
    spec.add_texture(
        name="sky",
        type=lib.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=lib.mjtBuiltin.mjBUILTIN_FLAT,
        rgb1=[1.0, 1.0, 1.0],
        rgb2=[1.0, 1.0, 1.0],
        width=64,
        height=64 * 6,
    )
    spec.visual.global_.offwidth = spec.visual.global_.offheight = max(size, 64)
    spec.visual.headlight.ambient = [0.5, 0.5, 0.5]
    spec.visual.quality.offsamples = 4
    return reach


def _reach(model: Model) -> float:
    """Return the length of the longest chain of joints, including the contact's offset [m]."""
    lengths: list[float] = []
    for body in model.bodies:
        before = lengths[body.parent] if body.parent >= 0 else 0.0
        lengths.append(before + float(np.linalg.norm(body.joint.tree.r)))
    for contact in contacts_of(model):
        lengths[contact.body] += float(np.linalg.norm(contact.placement.r))
    return max(lengths)


def _stroke(lib: Any, scene: Any, begin: Floats, end: Floats) -> None:
    if scene.ngeom >= scene.maxgeom:
        return
    geom, kind = scene.geoms[scene.ngeom], lib.mjtGeom.mjGEOM_CAPSULE
    colour = np.array(TRAIL, dtype=np.float32)
    lib.mjv_initGeom(geom, kind, np.zeros(3), np.zeros(3), np.eye(3).ravel(), colour)
    lib.mjv_connector(geom, kind, 0.006, begin, end)
    scene.ngeom += 1


def _write(job: dict[str, Any], frames: list[NDArray[np.uint8]]) -> None:
    image = import_module("PIL.Image")
    stills = [frames[round(k)] for k in (len(frames) - 1) * np.array(STILLS)]
    image.fromarray(np.concatenate(stills, axis=1)).quantize(96).save(job["still"], optimize=True)
    pictures = [image.fromarray(frame).quantize(64) for frame in frames]
    pictures[0].save(
        job["moving"],
        save_all=True,
        append_images=pictures[1:],
        duration=round(1000 * job["seconds"]),
        loop=0,
        optimize=False,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
