"""Memory for PyTorch: optimizers, averages of iterates, and audits of what any optimizer remembers."""

from memgrad.extras import require

require("memgrad.optim", extra="torch", modules=("torch",))

from memgrad.optim.audit import Audit, Remembered, audit  # noqa: E402
from memgrad.optim.averaging import memory_average  # noqa: E402
from memgrad.optim.from_torch import decay_groups, from_torch  # noqa: E402
from memgrad.optim.memadam import MemAdam, PolyAdam  # noqa: E402
from memgrad.optim.memsgd import MemSGD  # noqa: E402
from memgrad.optim.momentum import HeavyBall, Nesterov  # noqa: E402
from memgrad.optim.named import QHM, ADana, AdEMAMix, AggMo  # noqa: E402
from memgrad.optim.watching import AuditError  # noqa: E402

__all__ = [
    "QHM",
    "ADana",
    "AdEMAMix",
    "AggMo",
    "Audit",
    "AuditError",
    "HeavyBall",
    "MemAdam",
    "MemSGD",
    "Nesterov",
    "PolyAdam",
    "Remembered",
    "audit",
    "decay_groups",
    "from_torch",
    "memory_average",
]
