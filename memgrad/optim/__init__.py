"""Memory for PyTorch: optimizers, averages of iterates, and audits of what any optimizer remembers."""

from memgrad.extras import require

require("memgrad.optim", extra="torch", modules=("torch",))

from memgrad.optim.adana import ADana  # noqa: E402  # after the check, so that a missing torch is named
from memgrad.optim.audit import Audit, Remembered, audit  # noqa: E402
from memgrad.optim.averaging import memory_average  # noqa: E402
from memgrad.optim.memadam import MemAdam, PolyAdam  # noqa: E402
from memgrad.optim.memsgd import MemSGD  # noqa: E402
from memgrad.optim.momentum import HeavyBall, Nesterov  # noqa: E402

__all__ = [
    "ADana",
    "Audit",
    "HeavyBall",
    "MemAdam",
    "MemSGD",
    "Nesterov",
    "PolyAdam",
    "Remembered",
    "audit",
    "memory_average",
]
