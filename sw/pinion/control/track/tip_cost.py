"""Cost models whose tip pose and Jacobian are compiled, for real-time control."""

from __future__ import annotations

import numpy as np

from pinion.api import backend
from pinion.base.arrays import Floats
from pinion.batch import Backend
from pinion.control.solve.cost import CostModel
from pinion.control.solve.weights import Cost
from pinion.robot import Model


class CompiledTip(CostModel):
    """A cost model that computes the tip with a compiled function.

    Parameters
    ----------
    model, cost : as for :class:`.cost.CostModel`; the cost's frame is the robot's tip.
    jacobian : computes ``J``, ``R`` and ``p`` of ``q``.
    """

    _jacobian: Backend
    _last: tuple[Floats, Floats, Floats, Floats] | None

    def __init__(self, model: Model, cost: Cost, jacobian: Backend) -> None:
        super().__init__(model, cost)
        object.__setattr__(self, "_jacobian", jacobian)
        object.__setattr__(self, "_last", None)

    def pose(self, q: Floats, frame: str) -> tuple[Floats, Floats]:
        """Return the tip's R (..., 3, 3) and p (..., 3) [m] at joint positions (..., nq)."""
        R, p, _ = self._all(q, frame)
        return R, p

    def pose_jacobian(self, q: Floats, frame: str) -> Floats:
        """Return the tip's Jacobian (..., 6, nv), as :meth:`.CostModel.pose_jacobian`."""
        return self._all(q, frame)[2]

    def _all(self, q: Floats, frame: str) -> tuple[Floats, Floats, Floats]:
        assert frame == self.cost.frame
        # An expansion evaluates the same positions three times.
        last = self._last
        if last is not None and last[0].shape == q.shape and np.array_equal(last[0], q):
            return last[1:]
        results = self._jacobian(q=np.ascontiguousarray(q.reshape(-1, q.shape[-1])))
        R, p, J = (
            np.asarray(values, dtype=np.float64).reshape(*q.shape[:-1], *values.shape[1:])
            for values in (results.R, results.p, results.J)
        )
        object.__setattr__(self, "_last", (q.copy(), R, p, J))
        return R, p, J


def tip_costs(model: Model, cost: Cost, *, compiled: bool = True) -> CostModel:
    """Return a controller's cost model, with a compiled tip if the cost weights the robot's tip.

    The compiled function knows only the robot's tip; NumPy computes other links.
    """
    if not compiled or not cost.has_tip or model.tips != (cost.frame,):
        return CostModel(model, cost)
    jacobian = backend(model, "frame_jacobian", outputs=("R", "p"), device="cpu")
    return CompiledTip(model, cost, jacobian)
