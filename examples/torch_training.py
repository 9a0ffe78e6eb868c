"""Learning of unmodelled torques with PyTorch: analytic gradients inside a training loop.

The torques of an arm are those of the model plus an unknown constant in each joint (a load that was
not modelled, friction). Forward dynamics is a layer; its gradient is Pinion's, not from autodiff.
"""

from __future__ import annotations

import torch

from pinion.compute.frameworks.torch import dynamics


def main(steps: int = 60) -> float:
    torch.manual_seed(0)
    forward = dynamics("iiwa14", "aba", dtype="float64")
    q, qd, tau = (torch.rand(256, 7, dtype=torch.float64) - 0.5 for _ in range(3))
    hidden = torch.linspace(-1.0, 1.0, 7, dtype=torch.float64)
    measured = forward(q, qd, tau + hidden)

    bias = torch.zeros(7, dtype=torch.float64, requires_grad=True)
    learner = torch.optim.LBFGS([bias], max_iter=steps, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        learner.zero_grad()
        value = (forward(q, qd, tau + bias) - measured).square().mean()
        value.backward()
        return value

    learner.step(loss)
    error = float((bias.detach() - hidden).abs().max())
    print(f"largest error of the learnt torques: {error:.2e} N m")
    return error


if __name__ == "__main__":
    main()
