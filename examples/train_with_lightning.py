"""Train with Lightning and MemSGD, keep a checkpoint of every epoch, and continue from one of them.

    pip install lightning
    python examples/train_with_lightning.py --folder run
    python examples/train_with_lightning.py --folder resumed --resume run/epoch=1.ckpt

The second command ends with the same weights and averages as the first. The data are synthetic; nothing is downloaded.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from memgrad import MemSGD


class Classifier(lightning.LightningModule):
    """A small network that tells four clouds of points apart."""

    def __init__(self, lr: float) -> None:
        super().__init__()
        self.lr = lr
        self.network = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4))
        self.losses: list[float] = []

    def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        x, label = batch
        loss = nn.functional.cross_entropy(self.network(x), label)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self) -> dict[str, object]:
        optimizer = MemSGD(self.parameters(), lr=self.lr, memory="poly:3")
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)  # once every epoch
        return {"optimizer": optimizer, "lr_scheduler": scheduler}


def make_loader() -> DataLoader[tuple[Tensor, ...]]:
    random = torch.Generator().manual_seed(0)
    label = torch.randint(4, (1024,), generator=random)
    centers = torch.randn(4, 8, generator=random)
    x = centers[label] + 0.7 * torch.randn(1024, 8, generator=random)
    return DataLoader(TensorDataset(x, label), batch_size=32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where checkpoints are written")
    parser.add_argument("--epochs", type=int, default=4, help="passes over the data, in all (default: 4)")
    parser.add_argument("--lr", type=float, default=0.3, help="learning rate (default: 0.3)")
    parser.add_argument("--resume", type=Path, help="a checkpoint to continue from")
    options = parser.parse_args()

    lightning.seed_everything(0, verbose=False)
    model = Classifier(options.lr)
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=options.epochs,
        callbacks=[ModelCheckpoint(options.folder, filename="{epoch}", save_top_k=-1)],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, make_loader(), ckpt_path=options.resume)
    first, last = model.losses[:32], model.losses[-32:]  # an epoch each
    print(f"loss {sum(first) / 32:.4f} -> {sum(last) / 32:.4f} after {trainer.global_step} steps")


if __name__ == "__main__":
    main()
