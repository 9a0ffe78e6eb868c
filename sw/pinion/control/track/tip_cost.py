"""Cost models whose tip position and Jacobian are compiled, for real-time control."""

from __future__ import annotations

import numpy as np

from pinion.api import backend
from pinion.base.arrays import Floats
from pinion.batch import Backend
from pinion.control.solve.cost import Cost, CostModel
from pinion.robot import Model


class CompiledTip(CostModel):
    """A cost model that computes the tip with a compiled function.

    Parameters
    ----------
    model, cost : as for :class:`.cost.CostModel`; the cost's frame is the robot's tip.
    jacobian : computes ``J`` and ``p`` of ``q``.
    """

    _jacobian: Backend
    _last: tuple[Floats, Floats, Floats] | None

    def __init__(self, model: Model, cost: Cost, jacobian: Backend) -> None:
        super().__init__(model, cost)
        object.__setattr__(self, "_jacobian", jacobian)
        object.__setattr__(self, "_last", None)

    def tip(self, q: Floats) -> Floats:
        """Return positions of the tip, (..., 3) [m], at joint positions (..., nq)."""
        return self._both(q)[0]

    def tip_jacobian(self, q: Floats) -> Floats:
        """Return derivatives of `tip` with respect to q, (..., 3, nv)."""
        return self._both(q)[1]

    def _both(self, q: Floats) -> tuple[Floats, Floats]:
        # An expansion evaluates the same positions three times.
        last = self._last
        if last is not None and last[0].shape == q.shape and np.array_equal(last[0], q):
            return last[1], last[2]
        tip_results = self._jacobian(q=np.ascontiguousarray(q.reshape(-1, q.shape[-1])))
        place = np.asarray(tip_results.p, dtype=np.float64).reshape(*q.shape[:-1], 3)
        J = np.asarray(tip_results.J, dtype=np.float64)[:, 3:]
        J = J.reshape(*q.shape[:-1], 3, self.space.nv)
        object.__setattr__(self, "_last", (q.copy(), place, J))
        return place, J


def tip_costs(model: Model, cost: Cost, *, compiled: bool = True) -> CostModel:
    """Return a controller's cost model, with a compiled tip if the cost weights the robot's tip.

    The compiled function knows only the robot's tip; NumPy computes other links.
    """
    if not compiled or not cost.has_tip or model.tips != (cost.frame,):
        return CostModel(model, cost)
    return CompiledTip(model, cost, backend(model, "frame_jacobian", outputs=("p",), device="cpu"))
