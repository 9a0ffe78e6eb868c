"""Identification of a payload and joint friction from noisy data, which improves tracking.

Run ``python examples/identify.py``. An iiwa14 in MuJoCo carries 2 kg that its controller does not
know of, along a motion that excites every parameter. One call of the compiled backend computes the
regressors of all samples. Least squares give the ten parameters of the last link, and the friction
and damping of each joint. The controller then follows the same motion with the identified model.

The residual efforts of both models are drawn to ``identify.png``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import pinion.api as pinion
from pinion.control.track.disturbance import Disturbance
from pinion.control.track.mujoco_robot import MujocoRobot
from pinion.dynamics import parameter_values
from pinion.functions import FUNCTIONS
from pinion.robot import Model, load

Array = NDArray[np.float64]

LINK = "iiwa_link_7"
PAYLOAD, OFFSET = 2.0, (0.02, 0.03, 0.08)
FRICTION, DAMPING = 0.6, 0.8
STEP, SECONDS, NOISE = 1e-3, 10.0, 0.01
MOVING = 0.05  # rad/s: slower samples are left out, as the sign of dry friction is uncertain


def excitation(nv: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Return positions [rad], rates and accelerations, (n, nv) each: a sum of sines per joint."""
    t = np.arange(0.0, SECONDS, STEP)[:, None, None]
    w = 2.0 * np.pi * rng.uniform(0.1, 0.6, (nv, 4))
    size = rng.uniform(0.1, 0.3, (nv, 4))
    phase = rng.uniform(0.0, 2.0 * np.pi, (nv, 4))
    q = (size * np.sin(w * t + phase)).sum(axis=-1)
    qd = (size * w * np.cos(w * t + phase)).sum(axis=-1)
    qdd = (-size * w**2 * np.sin(w * t + phase)).sum(axis=-1)
    return q, qd, qdd


def followed(
    model: Model, plant: MujocoRobot, motion: tuple[Array, Array, Array], feedforward: Array
) -> dict[str, Array]:
    """Follow a motion with feed-forward efforts (n, nv) and PD control; return the measurements."""
    q, qd, _ = motion
    plant.reset(q[0], qd[0])
    stiffness = np.array([400.0, 400.0, 200.0, 200.0, 100.0, 100.0, 30.0])
    damping = np.array([40.0, 40.0, 20.0, 20.0, 6.0, 6.0, 1.0])
    log: dict[str, list[Array]] = {"q": [], "qd": [], "qdd": [], "tau": []}
    for k, efforts in enumerate(feedforward):
        x = plant.state
        tau = efforts + stiffness * (q[k] - x[: model.nv]) + damping * (qd[k] - x[model.nv :])
        for name, values in (("q", x[: model.nv]), ("qd", x[model.nv :]), ("tau", tau)):
            log[name].append(values)
        log["qdd"].append(plant.accelerations(x[: model.nv], x[model.nv :], tau))
        plant.advance(tau)
    return {name: np.array(values) for name, values in log.items()}


def noisy(measured: dict[str, Array], rng: np.random.Generator) -> dict[str, Array]:
    """Add noise to measurements: `NOISE` times each signal's standard deviation."""
    return {
        name: values + NOISE * values.std(axis=0) * rng.normal(size=values.shape)
        for name, values in measured.items()
    }


def identified(model: Model, data: dict[str, Array]) -> tuple[Array, Array, Array, Array]:
    """Return changes to the last link (10,), friction and damping (nv,), residuals (2, n, nv)."""
    regressor = pinion.backend(model, "rnea_regressor", outputs=("Y_damping", "Y_friction"))
    y = regressor.run(q=data["q"], qd=data["qd"], qdd=data["qdd"])
    n, nv = data["q"].shape
    columns = [int(np.linalg.matrix_rank(y.Y.reshape(n * nv, -1), rtol=1e-6)), y.Y.shape[-1]]
    print(f"base parameters of the whole arm: {columns[0]} of {columns[1]}")
    nominal = FUNCTIONS["rnea"].evaluate(model, data)["tau"]
    unexplained = data["tau"] - nominal
    A = np.concatenate([y.Y[:, :, -10:], y.Y_friction, y.Y_damping], axis=-1)
    rows = np.abs(data["qd"]) > MOVING
    scale = unexplained.std(axis=0)  # so that joints with small efforts count as much
    weights = np.broadcast_to(1.0 / scale, rows.shape)[rows]
    x, *_ = np.linalg.lstsq(A[rows] * weights[:, None], unexplained[rows] * weights, rcond=None)
    return x[:10], x[10 : 10 + nv], x[10 + nv :], np.stack([unexplained, unexplained - A @ x])


def picture(residuals: Array, path: Path) -> None:
    """Plot the residual efforts of the model from the file and of the identified one."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 4.0), layout="constrained")
    axes = figure.subplots()
    for values, label in zip(residuals, ("from the file", "identified"), strict=True):
        axes.plot(np.arange(len(values)) * STEP, values[:, 1], label=label, linewidth=0.8)
    axes.set(xlabel="time [s]", ylabel="residual effort of joint 2 [N m]")
    axes.legend()
    figure.savefig(path, dpi=150)


def main(path: Path = Path("identify.png")) -> dict[str, float]:
    """Run the example; return the payload's mass [kg] and the largest tracking errors [rad]."""
    rng = np.random.default_rng(7)
    model = load("iiwa14")
    plant = MujocoRobot(
        model,
        step=STEP,
        disturbance=Disturbance(payload=PAYLOAD, offset=OFFSET, friction=FRICTION, damping=DAMPING),
        frame=LINK,
    )
    motion = excitation(model.nv, rng)
    # Estimates from noisy data need not be those of a body.
    dynamics_of = pinion.backend(
        model, "rnea", device="cpu", parameters=(LINK,), accept_inertia=True
    )
    q, qd, qdd = motion
    before = dynamics_of(q, qd, qdd).tau
    measured = followed(model, plant, motion, before)
    load_of, friction, damping, residuals = identified(model, noisy(measured, rng))
    better = np.array(parameter_values(model, (LINK,))) + load_of
    after = dynamics_of(q, qd, qdd, inertia={LINK: better}).tau
    after = after + friction * np.tanh(qd / MOVING) + damping * qd
    tracked = followed(model, plant, motion, after)
    errors = [float(np.abs(run["q"] - q).max()) for run in (measured, tracked)]
    centre = load_of[1:4] / load_of[0]
    print(f"payload {load_of[0]:.4f} kg of {PAYLOAD} at {np.round(centre, 4)} m of {OFFSET}")
    print(f"friction {np.round(friction, 3)} N m of {FRICTION}")
    print(f"damping {np.round(damping, 3)} N m s/rad of {DAMPING}")
    print(f"largest tracking error {errors[0]:.2e} rad before, {errors[1]:.2e} rad after")
    picture(residuals, path)
    return {"mass": float(load_of[0]), "before": errors[0], "after": errors[1]}


if __name__ == "__main__":
    main()
