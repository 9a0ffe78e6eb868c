"""Gradient of a simulated step of an arm with JAX: custom calls with analytic gradients."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from pinion.compute.frameworks.jax import dynamics


def main() -> float:
    forward = dynamics("iiwa14", "aba", dtype="float32")
    step = 0.01

    def cost(tau: jax.Array, q: jax.Array, qd: jax.Array) -> jax.Array:
        qd = qd + step * forward(q, qd, tau)
        return jnp.sum((q + step * qd) ** 2)

    q, qd, tau = jax.random.uniform(jax.random.key(0), (3, 64, 7), minval=-0.5, maxval=0.5)
    gradient = jax.jit(jax.grad(cost))(tau, q, qd)

    # Compare with differences of the cost.
    direction = jax.random.normal(jax.random.key(1), tau.shape)
    h = 0.05
    slope = (cost(tau + h * direction, q, qd) - cost(tau - h * direction, q, qd)) / (2 * h)
    error = float(jnp.abs(jnp.sum(gradient * direction) - slope) / jnp.abs(slope))
    print(f"gradient against finite differences: {error:.1e} of the slope")
    return error


if __name__ == "__main__":
    main()
