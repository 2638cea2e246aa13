"""Train with Accelerate and MemSGD, keep a checkpoint of every epoch, and continue from one of them.

    pip install accelerate
    python examples/train_with_accelerate.py --folder run
    python examples/train_with_accelerate.py --folder resumed --resume run/epoch3

The second command ends with the same weights and averages as the first. The data are synthetic; nothing is downloaded.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from memgrad import MemSGD


class Progress:
    """The number of epochs done, which Accelerate keeps in its checkpoints."""

    def __init__(self) -> None:
        self.epochs = 0

    def state_dict(self) -> dict[str, int]:
        return {"epochs": self.epochs}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epochs = state["epochs"]


def make_loader() -> DataLoader[tuple[Tensor, ...]]:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(1024, 8, generator=random)
    y = torch.sin(x @ torch.randn(8, 1, generator=random) / 2)
    return DataLoader(TensorDataset(x, y), batch_size=16)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where checkpoints are written")
    parser.add_argument("--epochs", type=int, default=6, help="passes over the data, in all (default: 6)")
    parser.add_argument("--lr", type=float, default=0.5, help="largest learning rate (default: 0.5)")
    parser.add_argument("--resume", type=Path, help="a checkpoint to continue from")
    options = parser.parse_args()

    set_seed(0)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    loader = make_loader()
    optimizer = MemSGD(model.parameters(), lr=options.lr, memory="poly:4")
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=options.epochs * len(loader) // 2)
    progress = Progress()
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    accelerator.register_for_checkpointing(progress)
    if options.resume is not None:
        accelerator.load_state(str(options.resume))

    means = []
    while progress.epochs < options.epochs:
        losses = []
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.mse_loss(model(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            losses.append(loss.item())
        progress.epochs += 1
        means.append(sum(losses) / len(losses))
        accelerator.save_state(str(options.folder / f"epoch{progress.epochs}"))
    accelerator.print(f"loss {means[0]:.4f} -> {means[-1]:.4f} after {progress.epochs} epochs")


if __name__ == "__main__":
    main()
