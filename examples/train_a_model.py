"""Train a small network three times: with torch.optim.SGD, and with one line changed, with MemSGD and with MemAdam.

    python examples/train_a_model.py

Momentum sums past gradients, with a gain of 1 / (1 - 0.9) = 10; a memory averages them, with a gain of 1. The learning
rate of MemSGD is therefore ten times that of SGD, and both take steps of the same length. Its memory is
polynomial of degree 20: the mean age of the gradients in its average is 1/21 of the training so far.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from memgrad import MemAdam, MemSGD, Polynomial


def make_network(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(10, 64), nn.Tanh(), nn.Linear(64, 1))


def make_data(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """Inputs, and the noisy outputs of an unknown network for them."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 10, generator=random)
    teacher = torch.randn(10, 3, generator=random) / 10**0.5
    noise = 0.1 * torch.randn(rows, 1, generator=random)
    return x, torch.sin(2 * x @ teacher).sum(1, keepdim=True) + noise


def train(
    network: nn.Module, optimizer: torch.optim.Optimizer, batches: Iterable[tuple[Tensor, Tensor]]
) -> tuple[float, float]:
    """Train once over the batches; return the mean loss over the first and the last 20 of them."""
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(network(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses[:20]) / len(losses[:20]), sum(losses[-20:]) / len(losses[-20:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000, help="gradient steps of each training (default: 1000)")
    parser.add_argument("--batch-size", type=int, default=64, help="examples in a batch (default: 64)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the data and of the network (default: 0)")
    options = parser.parse_args()

    torch.set_num_threads(1)  # faster for so small a network
    x, y = make_data(options.steps * options.batch_size, options.seed)
    batches = list(zip(x.split(options.batch_size), y.split(options.batch_size), strict=True))

    for name in ("SGD", "MemSGD", "MemAdam"):
        network = make_network(options.seed)
        optimizer: torch.optim.Optimizer
        if name == "SGD":
            optimizer = torch.optim.SGD(network.parameters(), lr=0.02, momentum=0.9)
        elif name == "MemSGD":
            optimizer = MemSGD(network.parameters(), lr=0.2, memory=Polynomial(20))
        else:
            optimizer = MemAdam(network.parameters(), lr=0.005)
        first, last = train(network, optimizer, batches)
        print(f"{name:8} loss {first:.4f} -> {last:.4f}")


if __name__ == "__main__":
    main()
