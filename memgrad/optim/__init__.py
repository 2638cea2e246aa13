"""Memory for PyTorch: optimizers, averages of iterates, and audits of what any optimizer remembers.

Where to find what::

    memsgd, memadam         the two optimizers that take the steps
    momentum, named         optimizers with their own options: HeavyBall, Nesterov, AdEMAMix, QHM, AggMo, ADana
    base                    what all optimizers share: the step, state, and the choice of the fastest path
    groups                  their parameter groups: options and memories as plain data, in checkpoints too
    options, recall         the checks of options and of the keys of groups; which averages are kept, under which names
    kernels, kernel_guards  torch's fused kernels, and the conditions under which they are correct
    arithmetic, compiled    the plain operations that steps are written in; the same step with `torch.compile`
    buckets, workspace      parameters that take the same step; what is kept between steps for speed alone
    checkpoints             which checkpoints fit, and loading them
    methods                 the table from optimizer classes and their options to `Method`
    reference               every method from its definition, slow and exact
    averaging, from_torch   averages of iterates; continuing a run of a torch optimizer
    auditing                what any optimizer remembers, measured from outside
"""

from memgrad.extras import require

require("memgrad.optim", extra="torch", modules=("torch",))

from memgrad.optim.auditing.audit import Audit, Remembered, audit  # noqa: E402
from memgrad.optim.auditing.watching import AuditError  # noqa: E402
from memgrad.optim.averaging import memory_average  # noqa: E402
from memgrad.optim.from_torch import decay_groups, from_torch  # noqa: E402
from memgrad.optim.memadam import MemAdam, PolyAdam  # noqa: E402
from memgrad.optim.memsgd import MemSGD  # noqa: E402
from memgrad.optim.momentum import HeavyBall, Nesterov  # noqa: E402
from memgrad.optim.named import QHM, ADana, AdEMAMix, AggMo  # noqa: E402

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
