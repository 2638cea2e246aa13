"""What all optimizers with memory share: groups, counters, state, and the choice of the fastest correct path."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, overload

import numpy as np
import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, ParamsT

from memgrad.memory import Memory
from memgrad.memory.text import as_memory
from memgrad.optim.arithmetic import Arithmetic, Foreach, Scalar, Single, Tensors, rounded_decay
from memgrad.optim.buckets import Bucket, as_plain_tensors, counter, lies_alike

Group = dict[str, Any]
FUSED_DTYPES = (torch.float32, torch.float64)
FUSED_DEVICES = ("cpu", "cuda")

# Options of other optimizers, and of constructors. Left in a group, they would be ignored silently.
_OPTIONS_ELSEWHERE = frozenset(
    {"alpha", "amsgrad", "beta", "betas", "centered", "dampening", "decoupled_weight_decay", "delta", "eps", "kappa"}
    | {"lr_decay", "memory", "momentum", "nesterov", "omega", "p", "rho", "second_memory", "viscosity", "weight_decay"}
)

# Looked up once: on small models the step is made of such look-ups.
_STRIDED = torch.strided


class MemoryOptimizer(Optimizer):
    """Base of the optimizers with memory: everything but the update rule.

    A subclass names its `buffers` and its `memories` (the options that hold one), and writes its rule in `_update`
    against `Arithmetic`; where a fused kernel of torch computes the same, it calls it in `_fused_update`.

    Memories are kept in the parameter groups in their text form, so groups and checkpoints are plain data. A memory
    made of code (`Sampled`, a callable) is kept beside them and must be given again when a checkpoint is loaded.
    """

    buffers: ClassVar[tuple[str, ...]]
    memories: ClassVar[tuple[str, ...]] = ()

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self._memories: dict[str, Memory] = {}
        if defaults["foreach"] and defaults["fused"]:
            raise ValueError(f"{type(self).__name__} takes one of foreach=True and fused=True, got both.")
        if defaults["differentiable"] and (defaults["foreach"] or defaults["fused"]):
            raise ValueError(f"{type(self).__name__} with differentiable=True needs foreach and fused not to be True.")
        super().__init__(params, defaults)

    # --- parameter groups ----------------------------------------------------------------------------------------

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters, with options of their own; they start at k = 0, whatever the others have done."""
        known = [*self.defaults, "params"]
        for option in param_group:
            if option in known:
                continue
            near = difflib.get_close_matches(str(option), known, n=1, cutoff=0.8)
            if near:
                raise ValueError(f"{type(self).__name__} has no option {option!r}; did you mean {near[0]!r}?")
            if option in _OPTIONS_ELSEWHERE:  # anything else may be a tag of the user's
                raise ValueError(f"{type(self).__name__} has no option {option!r} in its groups; it has {known}.")
        super().add_param_group(param_group)
        try:
            self._check_group(self.param_groups[-1])
        except (TypeError, ValueError):
            self.param_groups.pop()
            raise

    def _check_group(self, group: Group) -> None:
        """Refuse options that make no sense; a subclass adds its own."""
        self._refuse_unless_real(group, "lr", tensor=True)
        if "weight_decay" in self.defaults:
            self._refuse_unless_real(group, "weight_decay")
        for name in self.memories:
            self._memory(group, name)
        self._state_dtype(group)

    def _refuse_unless_real(self, group: Group, name: str, *, tensor: bool = False, high: float = math.inf) -> None:
        value = group[name]
        if tensor and isinstance(value, Tensor):
            if value.numel() != 1:
                raise ValueError(f"{type(self).__name__} needs a tensor {name} with 1 element, got {value.numel()}.")
            if value.device.type == "meta" or torch.compiler.is_compiling():
                return
            value = value.item()
        if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
            raise TypeError(f"{type(self).__name__} needs a real number {name}, got {name}={value!r}.")
        if isinstance(value, np.generic):
            group[name] = value = value.item()  # plain data, for checkpoints
        if not 0 <= value < high:
            bound = "" if math.isinf(high) else f" < {high:g}"
            raise ValueError(f"{type(self).__name__} needs a finite {name} >= 0{bound}, got {name}={value!r}.")

    def _memory(self, group: Group, name: str = "memory") -> Memory:
        """The memory in a group's option, which is put into its text form."""
        value = group[name]
        known = self._memories.get(value) if type(value) is str else None
        if known is not None:
            return known
        memory = as_memory(type(self).__name__, name, value)
        text = str(memory)
        if len(self._memories) > 100:  # a schedule of memories must not pile them up
            self._memories = {known: each for known, each in self._memories.items() if each.is_code}
        if self._memories.setdefault(text, memory) != memory:
            raise ValueError(
                f"{type(self).__name__} got two memories with the text form {text!r}; name their functions differently."
            )
        group[name] = text
        return memory

    def _state_dtype(self, group: Group) -> torch.dtype | None:
        """The dtype in a group's option, which is put into its text form: plain data, for checkpoints."""
        name = group["state_dtype"]
        if isinstance(name, torch.dtype):
            name = group["state_dtype"] = str(name).removeprefix("torch.")
        if name not in (None, "float64", "float32", "bfloat16", "float16"):
            raise ValueError(
                f"{type(self).__name__} needs state_dtype None or torch.float64, float32, bfloat16 or float16, "
                f"got state_dtype={name!r}."
            )
        return None if name is None else getattr(torch, name)

    # --- the step ------------------------------------------------------------------------------------------------

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Take one step with the gradients in `.grad`, which are left as they are.

        Args:
            closure: Evaluates the model again and returns the loss, which is then returned.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.set_grad_enabled(self.defaults["differentiable"]):
            for group in self.param_groups:
                for bucket in self._buckets(group):
                    self._take(bucket, group)
        return loss

    def _buckets(self, group: Group) -> Iterable[Bucket]:
        """The group's parameters that have a gradient, together where they take the same step."""
        lots: dict[Any, tuple[Tensors, Tensors, list[dict[str, Any]]]] = {}
        states = self.state
        names = self._buffer_names(group)
        marker = names[0] if names else "step"  # a state may lack its buffer where a memory follows none
        tensor_steps = bool(group["capturable"] or torch.compiler.is_compiling())
        last: tuple[Any, Any, Any, Any] = (None, None, None, None)
        for p in group["params"]:
            g = p.grad
            if g is None:
                continue
            if g.layout is not _STRIDED:
                raise RuntimeError(
                    f"{type(self).__name__} does not support sparse gradients: a memory decays every entry at every "
                    f"step. Use dense gradients (sparse=False), or torch.optim.SGD for this parameter."
                )
            state = states[p]
            if marker not in state:
                self._begin(state, p, group)
            k = state["step"]
            if (type(k) is int) is tensor_steps:
                k = state["step"] = counter(k, p, as_tensor=tensor_steps)
            sort = (k, p.dtype, p.device, type(p))
            # Mostly a parameter is of the sort of the one before. Counters that are tensors cannot be compared without
            # reading them, so each takes its own step.
            if tensor_steps or sort != last:
                last = sort
                x, gradients, kept = lots.setdefault(id(p) if tensor_steps else sort, ([], [], []))
            x.append(p)
            gradients.append(g)
            kept.append(state)
        return [
            Bucket(kept[0]["step"], x, gradients, tuple([[state[name] for state in kept] for name in names]), kept)
            for x, gradients, kept in lots.values()
        ]

    def _buffer_names(self, group: Group) -> Sequence[str]:
        return self.buffers

    def _begin(self, state: dict[str, Any], p: Tensor, group: Group) -> None:
        """Fill the state of a parameter that takes its first step."""
        state["step"] = 0
        dtype = self._state_dtype(group)
        if dtype is not None and p.is_complex():
            dtype = dtype.to_complex()
        for name in self._buffer_names(group):
            state[name] = torch.zeros_like(p, dtype=dtype, memory_format=torch.preserve_format)

    def _take(self, bucket: Bucket, group: Group) -> None:
        """Update the parameters of one bucket by the fastest path that is right for them, and count the step."""
        if group["differentiable"]:  # autograd keeps the old averages: leave them as they are
            bucket = bucket._replace(buffers=tuple([t.clone() for t in tensors] for tensors in bucket.buffers))
        local = as_plain_tensors(bucket)
        fused = self._may_fuse(local, group) and self._fused_update(local, group)
        if not fused:
            kept = local.buffers[0] if local.buffers else local.x
            local = local._replace(
                g=[g if g.dtype is t.dtype else g.to(t.dtype) for g, t in zip(local.g, kept, strict=True)]
            )
            if isinstance(local.k, Tensor):
                local = local._replace(k=local.k.to(torch.float32 if local.k.device.type == "mps" else torch.float64))
            self._update(Foreach if self._uses_foreach(local, group) else Single, local, group)
        if group["differentiable"]:
            for i, state in enumerate(bucket.states):
                for name, tensors in zip(self._buffer_names(group), bucket.buffers, strict=True):
                    state[name] = tensors[i]
        if isinstance(bucket.k, Tensor):
            bucket.k.add_(1)
        else:
            following = bucket.k + 1
            for state in bucket.states:
                state["step"] = following

    def _uses_foreach(self, bucket: Bucket, group: Group) -> bool:
        if group["foreach"] is not None:
            return bool(group["foreach"])
        # As torch: on a CPU the calls that foreach saves cost less than its worse use of caches.
        return bucket.x[0].device.type != "cpu" and not group["differentiable"]

    def _may_fuse(self, bucket: Bucket, group: Group) -> bool:
        """Whether torch's fused kernels are right for these tensors. Each guard was found through a wrong result."""
        if group["fused"] is False or group["foreach"] or group["differentiable"] or isinstance(bucket.k, Tensor):
            return False
        first = bucket.x[0]
        if first.device.type not in FUSED_DEVICES or first.dtype not in FUSED_DTYPES:
            return False  # the CPU kernel for SGD never updates bf16 and fp16 tensors of 16 elements or more
        return lies_alike(bucket)

    def _update(self, do: Arithmetic, bucket: Bucket, group: Group) -> None:
        """The rule: one step of all parameters `bucket.x`, from their gradients, at count `bucket.k`."""
        raise NotImplementedError

    def _fused_update(self, bucket: Bucket, group: Group) -> bool:
        """The same by a fused kernel, if it can: False, and nothing done, if not."""
        return False

    def _fused_sgd(
        self, bucket: Bucket, group: Group, momentum: float, *, dampening: float, nesterov: bool = False
    ) -> bool:
        """Step by torch's fused kernel for SGD, if it can: False, and nothing done, if not."""
        if group["decoupled_weight_decay"] and group["weight_decay"]:
            return False  # it has none
        first = bool(bucket.k == 0 and bucket.buffers)
        # It refuses the momentum 0 beside buffers. On the first step it uses one only to look ahead: it gets another.
        if bucket.buffers and momentum == 0 and (nesterov or not first):
            return False
        torch._fused_sgd_(
            bucket.x,
            bucket.g,
            bucket.buffers[0] if bucket.buffers else [],
            weight_decay=group["weight_decay"],
            momentum=momentum or (0.5 if first else 0.0),
            lr=float(self._lr(group)),
            dampening=dampening,
            nesterov=nesterov,
            maximize=group["maximize"],
            is_first_step=first,
        )
        return True

    def _fused_decay(self, group: Group, name: str, bucket: Bucket) -> float | None:
        """The decay b_k of a memory as a fused kernel may have it; None where it would be rounded too much."""
        memory = self._memories.get(group[name]) or self._memory(group, name)
        first = bucket.x[0]
        # On an accelerator the kernel casts the decay to float32, whatever the parameters are.
        return rounded_decay(memory.fresh(int(bucket.k)), first.dtype if first.is_cpu else torch.float32)

    # --- pieces of rules -----------------------------------------------------------------------------------------

    @staticmethod
    def _lr(group: Group) -> Scalar:
        lr = group["lr"]
        if isinstance(lr, Tensor):
            if group["capturable"] or group["differentiable"] or torch.compiler.is_compiling():
                return lr.reshape(())
            return lr.item()
        return lr  # type: ignore[no-any-return]  # a group's values are untyped; _check_group has checked this one

    def _with_weight_decay(self, do: Arithmetic, bucket: Bucket, group: Group) -> Tensors:
        """The gradients to descend: negated if maximizing, with the L2 term; or shrink x if it is decoupled."""
        x = bucket.x
        g = do.negated(bucket.g) if group["maximize"] else bucket.g
        if group["weight_decay"] == 0:
            return g
        if group["decoupled_weight_decay"]:
            do.scale_(x, 1 - self._lr(group) * group["weight_decay"])
            return g
        return do.plus(g, x, group["weight_decay"])

    # --- checkpoints ---------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The state and the options as plain data: tensors, numbers and text."""
        for group in self.param_groups:  # options may have been changed since the last step
            self._check_group(group)
        return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a checkpoint, or change nothing if it does not fit.

        The state keeps the dtype it was saved with. torch would cast it to the dtype of its parameter, and round a
        float32 average of bfloat16 gradients.
        """
        seen: list[dict[str, Any]] = []

        def look(_: Optimizer, loaded: dict[str, Any]) -> None:
            self._check_checkpoint(loaded)
            seen.append(loaded)

        last = self.register_load_state_dict_pre_hook(look)
        self._loading = seen
        try:
            super().load_state_dict(state_dict)
        finally:
            last.remove()
            del self._loading

    def _check_checkpoint(self, saved: dict[str, Any]) -> None:
        for saved_group in saved["param_groups"]:
            group = {**self.defaults, **saved_group}
            self._check_group(group)
            for number in saved_group["params"]:
                state = saved["state"].get(number)
                missing = {"step", *self._buffer_names(group)} - state.keys() if state else set()
                if missing:
                    raise ValueError(
                        f"this checkpoint is not one of {type(self).__name__}: the state of parameter {number} lacks "
                        f"{', '.join(sorted(missing))}, it has {', '.join(map(str, state))}."
                    )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("_memories", {})
        loaded = self.__dict__.get("_loading")
        if loaded:
            self._keep_saved_dtypes(loaded[0])
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)  # an option that is newer than the checkpoint
            self._check_group(group)

    def _keep_saved_dtypes(self, saved: dict[str, Any]) -> None:
        ours = [p for group in self.param_groups for p in group["params"]]
        theirs = [number for group in saved["param_groups"] for number in group["params"]]
        for p, number in zip(ours, theirs, strict=True):
            for name, value in saved["state"].get(number, {}).items():
                if isinstance(value, Tensor) and self.state[p][name].dtype != value.dtype:
                    self.state[p][name] = value.to(p.device, copy=True)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_memories": self._memories}
