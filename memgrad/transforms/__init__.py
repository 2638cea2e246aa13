r"""The same memories for JAX, as optax gradient transformations.

They compose with optax's own: `optax.chain`, `inject_hyperparams`, `multi_transform`, `MultiSteps`. The step count $k$
is an array in the state, so nothing is compiled again as it grows; it stops at the largest int32 instead of wrapping
around. Averages are kept in the parameters' dtype, or in `accumulator_dtype` if one is given. Updates keep the dtype of
the gradients.

Where to find what::

    method                  any `Method` as a transformation
    named                   `memsgd`, `memadam`, `polyadam` and `adana`
    averages                transformations to chain with others
    options                 learning rates, weight decay and its masks, dtypes
    state                   what is kept between steps
"""

from memgrad.deprecation import deprecated_names
from memgrad.extras import require

require("memgrad.transforms", extra="jax", modules=("jax", "optax"))

# After the check, so that a missing jax is named.
from memgrad.transforms.averages import average_iterates, scale_by_memory, scale_by_memory_adam  # noqa: E402
from memgrad.transforms.method import from_method, scale_by_method  # noqa: E402
from memgrad.transforms.named import adana, memadam, memsgd, polyadam  # noqa: E402
from memgrad.transforms.state import MemoryAdamState, MemoryState, MethodState  # noqa: E402

__all__ = [
    "MemoryAdamState",
    "MemoryState",
    "MethodState",
    "adana",
    "average_iterates",
    "from_method",
    "memadam",
    "memsgd",
    "polyadam",
    "scale_by_memory",
    "scale_by_memory_adam",
    "scale_by_method",
]

__getattr__ = deprecated_names(__name__, {"memory_average": "memgrad.transforms.average_iterates"})
