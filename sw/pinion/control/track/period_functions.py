r"""Functions of a controller's period that are compiled together with ``period.hpp``.

Matrices are in rows that are padded with zeros to whole vectors: a half [q | 1] or [qd | 0] of a
row has ``width`` numbers, at least nv + 1, a row of efforts ``effort_width``, at least nu. Of a
robot with turning joints, changes of states are in the coordinates of
:mod:`pinion.control.solve.coordinates`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pinion import dynamics
from pinion.api import EFFORT, POSITION, array
from pinion.control.plant import contacts_in
from pinion.control.solve.cones import FACETS, Cones
from pinion.control.solve.coordinates import Coordinates
from pinion.control.solve.kernels import (
    ANY,
    by_joint,
    expansion,
    reference_arrays,
    state_arrays,
    step_function,
)
from pinion.control.solve.weights import Cost, Weights
from pinion.control.state import StateSpace
from pinion.dynamics.displacements import joint_difference
from pinion.dynamics.matrices import Rows, product
from pinion.dynamics.scalar import add, less, mul, select, sub
from pinion.dynamics.steps import joints_of, moved_joint
from pinion.functions import Function, Quantity
from pinion.robot import Model

CONES = ("force_x", "force_u", "weighted_x", "weighted_u")
"""Results of the gradient for a cost with friction cones."""


@dataclass(frozen=True, kw_only=True)
class PeriodFunctions:
    """A robot's functions for a control period, with rows padded to given widths.

    Members
    -------
    model, cost : the robot and the cost of its motions.
    step : of the horizon [s].
    velocity_gain, damping : of the robot's contacts, as :class:`.plant.Plant` has them.
    width, effort_width : numbers of a half row of a state, and of a row of efforts.
    """

    model: Model
    cost: Cost
    step: float
    velocity_gain: float
    damping: float
    width: int
    effort_width: int

    @property
    def space(self) -> StateSpace:
        """States and actuators of the robot."""
        return StateSpace(self.model)

    def all(self) -> dict[str, tuple[Function, bool]]:
        """Return each function, and whether it computes many samples at once, by name."""
        functions = {
            "forward": (self.forward(), False),
            "gradient": (self.gradient(), True),
            "running": (self.expansion(self.cost.running), True),
            "final": (self.expansion(self.cost.final), True),
        }
        if not self.space.flat:
            functions["moved"] = (self.moved(), False)
            functions["difference"] = (self.difference(), False)
            functions["gains"] = (self.gains(), True)
            functions["planned"] = (self.moved(), True)
            functions["plan"] = (self.plan(), True)
        return functions

    def forward(self) -> Function:
        """Return the function for accelerations ``qdd`` (nv,) from state, efforts and contacts."""
        contacts = self._contacts

        def forward(model: Model, *, region: Any, **values: Any) -> dict[str, Any]:
            state = values["q"], values["qd"], self._efforts(values["tau"])
            if not contacts:
                return {"qdd": dynamics.aba_scalars(model, *state, region=region)}
            qdd, _ = dynamics.constraint_dynamics_scalars(
                model, *state, values["active"], self.damping, region, **self._returning
            )
            return {"qdd": qdd}

        return step_function(
            "forward_rows",
            "forward dynamics of actuated joints",
            forward,
            inputs=self._request,
            outputs={"qdd": array("nv", unit="rad/s^2")},
            joint_space=not contacts,
        )

    def gradient(self) -> Function:
        """Return the function for the dynamics' gradient: F = [dqdd/dq, dqdd/dqd], M = dqdd/du.

        ``F`` (nv, 2 width) and ``M`` (nv, effort_width). From a step's end to the next knot's state
        is a gap of rates, in the column after the first half of ``F``, divided by the step, and one
        of positions, ``gap`` (nv,), beside what that of rates adds. With friction cones also
        `CONES`: the
        gradient of the k components of contact forces, ``force_x`` (k, 2 width) and ``force_u``
        (k, effort_width); their products with the Hessian of the cones' cost by forces,
        ``weighted_x`` and ``weighted_u``; and the cost's gradient by forces, in the column after
        the first half of ``weighted_x``.
        """
        contacts, turning = self._contacts, not self.space.flat
        n, driven = self.model.nv, self.space.actuated
        pad_efforts = [0.0] * (self.effort_width - len(driven))

        def gradient(model: Model, *, region: Any, **values: Any) -> dict[str, Any]:
            state = values["q"], values["qd"], self._efforts(values["tau"])
            result: Any
            if contacts:
                result = dynamics.constraint_dynamics_derivatives_scalars(
                    model,
                    *state,
                    values["active"],
                    self.damping,
                    region,
                    reference="local_world_aligned",
                    **self._returning,
                )
                by_u = [[row[i] for i in driven] for row in result.dqdd_dtau]
            else:
                result = dynamics.fd_derivatives_scalars(model, *state, region=region)
                by_u = [[row[i] for i in driven] for row in result.minv]
            F = [[*a, *b] for a, b in zip(result.dqdd_dq, result.dqdd_dqd, strict=True)]
            gap, late = self._gaps(result.qdd, values)
            if turning:
                now = self._coordinates(values["q"], values["qd"], values)
                then = self._coordinates(values["q_next"], values["qd_next"], values)
                F, by_u = now.dynamics(then, result.dqdd_dq, result.dqdd_dqd, by_u)
                gap, late = then.change(gap, late)
            results = {
                "F": self._halves(F, [mul(1.0 / self.step, rate) for rate in late]),
                "M": [[*row, *pad_efforts] for row in by_u],
                "gap": [sub(x, mul(self.step, rate)) for x, rate in zip(gap, late, strict=True)],
            }
            if self.forces:
                force_x, force_u, weighted_x, weighted_u, slope = self._weighed(result)
                if turning:
                    force_x, weighted_x = now.states(force_x), now.states(weighted_x)
                zeros = [0.0] * self.forces
                results["force_x"] = self._halves(force_x, zeros)
                results["force_u"] = [[*row, *pad_efforts] for row in force_u]
                results["weighted_x"] = self._halves(weighted_x, slope)
                results["weighted_u"] = [[*row, *pad_efforts] for row in weighted_u]
            return results

        outputs = {
            "F": array(n, 2 * self.width),
            "M": array(n, self.effort_width),
            "gap": array(n),
        }
        if self.forces:
            for name in CONES:
                columns = 2 * self.width if name.endswith("x") else self.effort_width
                outputs[name] = array(self.forces, columns)
        return step_function(
            "gradient_rows",
            "the gradient of forward dynamics by rows of whole vectors",
            gradient,
            inputs={**self._request, **state_arrays("q_next", "qd_next"), **self._origin},
            outputs=outputs,
            joint_space=not contacts,
        )

    def expansion(self, weights: Weights) -> Function:
        """Return the function that expands a knot's cost to second order in the state.

        ``by_q`` (nv, width) has lqq and in the column after it lq, ``by_qd`` (nv,) is lqd. lqdqd is
        ``weights.qd``; of turning joints it is ``turned`` (nv, width).
        """
        n, turning, cost = self.model.nv, not self.space.flat, self.cost
        pad = self._padding(n + 1)

        def expanded(model: Model, *, region: Any, **values: Any) -> dict[str, Any]:
            q, qd = values["q"], values["qd"]
            _, lq, lqd, lqq = expansion(model, cost, weights, q, qd, values, region)
            results: dict[str, Any] = {}
            if turning:
                rates = by_joint(weights, "qd", n)
                lqdqd: Rows = [[rates[i] if i == j else 0.0 for j in range(n)] for i in range(n)]
                coordinates = self._coordinates(q, qd, values)
                lq, lqd, lqq, lqdqd = coordinates.cost(lq, lqd, lqq, lqdqd)
                results["turned"] = [[*row, *self._padding(n)] for row in lqdqd]
            rows = [[*row, slope, *pad] for row, slope in zip(lqq, lq, strict=True)]
            return {"by_q": rows, "by_qd": lqd, **results}

        outputs = {"by_q": array(n, self.width), "by_qd": array(n)}
        if turning:
            outputs["turned"] = array(n, self.width)
        return step_function(
            "cost_rows",
            "the cost of a knot, expanded by rows of whole vectors",
            expanded,
            inputs={**state_arrays(), **reference_arrays(cost), **self._origin},
            outputs=outputs,
            joint_space=not cost.has_tip,
        )

    def moved(self) -> Function:
        """Return the function for positions ``end`` (nq,) after a ``change`` (nv,)."""

        def moved(model: Model, *, region: Any, **values: Any) -> dict[str, Any]:
            end: list[Any] = []
            for kind, at, by in joints_of(self.model):
                end += moved_joint(kind, values["q"][at], values["change"][by])
            return {"end": end}

        return step_function(
            "moved",
            "positions after a change",
            moved,
            inputs={
                "q": array("nq", unit="rad", sampling=POSITION),
                "change": array("nv", unit="rad", sampling=ANY),
            },
            outputs={"end": array("nq", unit="rad")},
        )

    def difference(self) -> Function:
        """Return the function for the ``change`` (nv,) that takes positions ``q`` to ``end``."""

        def difference(model: Model, *, region: Any, **values: Any) -> dict[str, Any]:
            change: list[Any] = []
            for kind, at, _ in joints_of(self.model):
                change += joint_difference(kind, values["q"][at], values["end"][at])
            return {"change": change}

        return step_function(
            "difference",
            "the change between positions",
            difference,
            inputs={
                "q": array("nq", unit="rad", sampling=POSITION),
                "end": array("nq", unit="rad", sampling=POSITION),
            },
            outputs={"change": array("nv", unit="rad")},
        )

    def gains(self) -> Function:
        """Return the function that turns a knot's gains (nu, 2 width) into tangent gains."""
        n, nu, width = self.model.nv, self.space.nu, self.width

        def gains(model: Model, *, region: Any, **values: Any) -> dict[str, Any]:
            rows = [list(row) for row in values["K"]]
            states = [[*row[:n], *row[width : width + n]] for row in rows]
            turned = self._coordinates(values["q"], values["qd"], values).gains(states)
            for row, changed in zip(rows, turned, strict=True):
                row[:n], row[width : width + n] = changed[:n], changed[n:]
            return {"turned": rows}

        return step_function(
            "gains",
            "gains of tangents",
            gains,
            inputs={
                **state_arrays(),
                "K": array(nu, 2 * width, sampling=ANY),
                **self._origin,
            },
            outputs={"turned": array(nu, 2 * width)},
        )

    def plan(self) -> Function:
        """Return the function that adds a change ``z, w`` (nv,) to a knot of the plan.

        ``plan`` (nv,) has its positions as a change of the ``reference`` (nq,), ``rates`` (nv,) its
        rates.
        """

        def plan(model: Model, *, region: Any, **values: Any) -> dict[str, Any]:
            coordinates = self._coordinates(values["q"], values["qd"], values)
            dq, dqd = coordinates.tangents(values["z"], values["w"])
            change: list[Any] = []
            for kind, at, by in joints_of(self.model):
                end = moved_joint(kind, values["q"][at], dq[by])
                change += joint_difference(kind, values["reference"][at], end)
            rates = [add(x, y) for x, y in zip(values["qd"], dqd, strict=True)]
            return {"plan": change, "rates": rates}

        return step_function(
            "plan",
            "a knot of the plan after a change",
            plan,
            inputs={
                **state_arrays(),
                **{name: array("nv", sampling=ANY) for name in ("z", "w")},
                "reference": array("nq", unit="rad", sampling=POSITION),
                **self._origin,
            },
            outputs={"plan": array("nv"), "rates": array("nv")},
        )

    @property
    def forces(self) -> int:
        """Number of contact-force components in the cost."""
        return 3 * len(self.model.contacts) if self.cost.has_cones else 0

    def _gaps(self, qdd: Sequence[Any], values: dict[str, Any]) -> tuple[list[Any], list[Any]]:
        """Return the changes of positions and rates from the next knot's state to a step's end."""
        ends = [add(x, mul(self.step, y)) for x, y in zip(values["qd"], qdd, strict=True)]
        late = [sub(x, y) for x, y in zip(ends, values["qd_next"], strict=True)]
        gap: list[Any] = []
        for kind, at, by in joints_of(self.model):
            end = moved_joint(kind, values["q"][at], [mul(self.step, x) for x in ends[by]])
            gap += joint_difference(kind, values["q_next"][at], end)
        return gap, late

    def _weighed(self, result: Any) -> tuple[Rows, Rows, Rows, Rows, Any]:
        """Return the forces' gradient, plain and weighted, and the gradient of their cost.

        That of a foot in the air is zero, and so is what its cost adds to a pass.
        """
        cost, driven = self.cost, self.space.actuated
        cones = Cones.of(self.model, cost.friction, cost.least_force)
        force_x: Rows = []
        force_u: Rows = []
        weighted_x: Rows = []
        weighted_u: Rows = []
        slope: list[Any] = []
        for number, components in enumerate(cones.forces):
            by_x = [
                [*a, *b]
                for a, b in zip(
                    result.dforce_dq[components], result.dforce_dqd[components], strict=True
                )
            ]
            by_u = [[row[i] for i in driven] for row in result.dforce_dtau[components]]
            hessian: Rows = [[0.0] * 3 for _ in range(3)]
            gradient: list[Any] = [0.0] * 3
            facets = slice(FACETS * number, FACETS * (number + 1))
            for facet, least in zip(
                cones.facets[facets, components], cones.least[facets], strict=True
            ):
                normal = [float(x) for x in facet]
                beyond: Any = float(least)
                for x, f in zip(normal, result.force[components], strict=True):
                    beyond = add(beyond, mul(x, f))
                weight = select(less(0.0, beyond), cost.running.cones, 0.0)
                for i in range(3):
                    scaled = mul(normal[i], weight)
                    gradient[i] = add(gradient[i], mul(scaled, beyond))
                    for j in range(3):
                        hessian[i][j] = add(hessian[i][j], mul(scaled, normal[j]))
            force_x += by_x
            force_u += by_u
            weighted_x += product(hessian, by_x)
            weighted_u += product(hessian, by_u)
            slope += gradient
        return force_x, force_u, weighted_x, weighted_u, slope

    def _halves(self, matrix: Rows, column: Sequence[Any]) -> Rows:
        """Return a matrix's rows padded to whole vectors, with a column after the first half."""
        n = self.model.nv
        pad, rest = self._padding(n), self._padding(n + 1)
        return [
            [*row[:n], last, *rest, *row[n:], *pad]
            for row, last in zip(matrix, column, strict=True)
        ]

    @property
    def _contacts(self) -> int:
        return contacts_in(self.model)

    @property
    def _returning(self) -> dict[str, Any]:
        """Arguments of dynamics in contact that hold contacts in place (Baumgarte)."""
        return (
            {"velocity_gain": [self.velocity_gain] * self._contacts} if self.velocity_gain else {}
        )

    @property
    def _request(self) -> dict[str, Any]:
        space, contacts = self.space, self._contacts
        sampling = EFFORT if space.nu == space.nv else ANY
        request = {**state_arrays(), "tau": array(space.nu, unit="N m", sampling=sampling)}
        if contacts:
            request["active"] = array(contacts, sampling=Quantity.CONTACT_MASK)
        return request

    @property
    def _origin(self) -> dict[str, Any]:
        if self.space.flat:
            return {}
        return {"origin": array("nq", unit="rad", sampling=POSITION)}

    def _padding(self, count: int) -> list[float]:
        return [0.0] * (self.width - count)

    def _efforts(self, efforts: Any) -> list[Any]:
        """Return efforts of all joints (nv,) from those of the actuators."""
        tau: list[Any] = [0.0] * self.model.nv
        for place, effort in zip(self.space.actuated, efforts, strict=True):
            tau[place] = effort
        return tau

    def _coordinates(self, q: Any, qd: Any, values: dict[str, Any]) -> Coordinates:
        origin = values["origin"]
        return Coordinates(model=self.model, q=q, qd=qd, origin=origin, step=self.step)
