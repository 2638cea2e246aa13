"""Train a tiny GPT-2 with the Hugging Face Trainer and MemAdam, and continue from a checkpoint.

    pip install transformers accelerate
    python examples/train_with_transformers.py --folder run
    python examples/train_with_transformers.py --folder resumed --resume run/checkpoint-30

The second command ends with the same weights and averages as the first. The model begins with random weights and the
text is synthetic; nothing is downloaded.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch.utils.data import Dataset
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainingArguments,
    get_cosine_schedule_with_warmup,
    set_seed,
)

from memgrad import MemAdam

WORDS = 32


class Counting(Dataset[dict[str, torch.Tensor]]):
    """Sequences that count upwards, modulo the number of words, in steps of 1, 2 or 3."""

    def __len__(self) -> int:
        return 512

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        words = (index + torch.arange(24) * (1 + index % 3)) % WORDS
        return {"input_ids": words, "labels": words}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where checkpoints are written")
    parser.add_argument("--steps", type=int, default=60, help="optimizer steps, in all (default: 60)")
    parser.add_argument("--lr", type=float, default=3e-3, help="largest learning rate (default: 0.003)")
    parser.add_argument("--resume", type=Path, help="a checkpoint to continue from")
    options = parser.parse_args()

    set_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=WORDS, n_positions=24, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
    )
    optimizer = MemAdam(model.parameters(), lr=options.lr, weight_decay=0.01)
    scheduler = get_cosine_schedule_with_warmup(optimizer, num_warmup_steps=5, num_training_steps=options.steps)
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=str(options.folder),
            max_steps=options.steps,
            per_device_train_batch_size=16,
            logging_steps=10,
            save_steps=options.steps // 2,
            report_to="none",
            use_cpu=True,
            disable_tqdm=True,
        ),
        train_dataset=Counting(),
        optimizers=(optimizer, scheduler),
    )
    trainer.train(resume_from_checkpoint=None if options.resume is None else str(options.resume))
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    print(f"loss {float(losses[0]):.4f} -> {float(losses[-1]):.4f} after {trainer.state.global_step} steps")


if __name__ == "__main__":
    main()
