"""User-defined functions in a module that another process can import."""

from __future__ import annotations

from typing import Any

from pinion import api as pinion


@pinion.function(
    inputs={"x": pinion.array(sampling=pinion.uniform(-1.0, 1.0))}, outputs={"y": pinion.array()}
)
def cube_of_cube(x: Any) -> Any:
    """Return x^9, which overflows float64 within float32's range."""
    cube = x * x * x
    return cube * cube * cube


@pinion.function(
    inputs={"x": pinion.array(sampling=pinion.uniform(-1.0, 1.0))},
    outputs={"y": pinion.array()},
    states={"total": pinion.state()},
)
def running_sum(x: Any, total: Any) -> dict[str, Any]:
    """Return the sum of all requests so far."""
    return {"y": total + x, "total": total + x}
