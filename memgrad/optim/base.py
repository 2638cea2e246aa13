"""The step that all optimizers with memory share: counters, state, and the choice of the fastest correct path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, overload

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from memgrad.memory import Memory
from memgrad.optim import kernels, options
from memgrad.optim.arithmetic import Arithmetic, Foreach, Scalar, Single, Tensors
from memgrad.optim.buckets import (
    NO_WEIGHTS,
    Bucket,
    Counters,
    Step,
    Weights,
    as_plain_tensors,
    counter,
    is_capturing,
)
from memgrad.optim.compiled import Compiler
from memgrad.optim.groups import GroupedOptimizer
from memgrad.optim.kernel_guards import Inspector, are_plain, fits_widened
from memgrad.optim.kernels import Pull
from memgrad.optim.options import Group
from memgrad.optim.recall import Recall
from memgrad.optim.workspace import Workspace

State = dict[str, Any]


class MemoryOptimizer(GroupedOptimizer):
    """Base of the optimizers with memory: everything except the update rule.

    A subclass names its `rule`, its `buffers` and its `memories` (the options that hold one), and writes the rule in
    `_update` in terms of `Arithmetic`; where a fused kernel of torch computes the same, it calls it in `_fused_update`.
    What groups hold, and checkpoints, is in `GroupedOptimizer`.
    """

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self._inspector = Inspector()
        self._workspace = Workspace()
        self._counters = Counters()
        self._compiler = Compiler()
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for name, make in {"_inspector": Inspector, "_counters": Counters, "_compiler": Compiler}.items():
            self.__dict__.setdefault(name, make())
        self._workspace = Workspace()  # the old one holds views of the state that has been replaced

    # --- the step ------------------------------------------------------------------------------------------------

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Take one step with the gradients in `.grad`, which are not modified.

        Args:
            closure: A function that reevaluates the model and returns the loss, which `step` then returns.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            # All tensors are inspected, and all weights and gains computed, before the first tensor is changed, so that
            # an error leaves no step half done.
            changed: list[tuple[Tensor, State]] = []
            steps = [step for group in self.param_groups for step in self._inspected(group, changed)]
            for p, state in changed:
                self.state[p] = state
            for bucket, group, fits in steps:
                if group["differentiable"]:
                    with torch.enable_grad():
                        self._take(bucket, group, fits)
                else:
                    self._take(bucket, group, fits)
        return loss

    def _inspected(self, group: Group, changed: list[tuple[Tensor, State]]) -> list[tuple[Bucket, Group, bool]]:
        """The group's buckets, and whether the fused kernels may be used on their tensors.

        The states that the step needs, and `self.state` does not hold yet, are appended to `changed`.
        """
        self._look_up(group)
        who, names, inspect = type(self).__name__, self._buffer_names(group), self._inspector.inspect
        found = []
        for place, bucket in enumerate(self._buckets(group, names, changed)):
            if not bucket.x[0].is_cpu:
                self._refuse_capture_of_counts()
            if type(group.get("weight_decay")) is str and type(bucket.k) is int:
                options.refuse_to_overshoot(who, group, bucket.k, self._lr(group))
            plain, fits = inspect(who, group, place, bucket, names)
            found.append((plain, group, fits))
        return found

    def _look_up(self, group: Group) -> None:
        """Read options that were changed since the last step, and refuse those with which no step can be taken."""
        for name in self.memories:
            if type(group[name]) is not str or group[name] not in self._memories:
                self._memory(group, name)
        if options.lacks_peak(group):
            options.complete_decay(type(self).__name__, group)

    def _buckets(self, group: Group, names: Sequence[str], changed: list[tuple[Tensor, State]]) -> Iterable[Bucket]:
        """The parameters of the group that have a gradient, in buckets of those that take the same step."""
        lots: dict[Any, tuple[Tensors, Tensors, list[State]]] = {}
        state_of = self.state.get
        marker = names[-1] if names else "step"  # a state lacks buffers if there was no memory before
        complete = 1 + len(names)
        tensor_steps = bool(group["capturable"] or torch.compiler.is_compiling())
        # A graph that is being recorded may be replayed together with others that count only some of its parameters.
        alone = tensor_steps and (torch.compiler.is_compiling() or is_capturing())
        last: tuple[Any, ...] = ()
        for p in group["params"]:
            g = p.grad
            if g is None:
                continue
            state: State = state_of(p) or {}
            begins: tuple[str, ...] = ()
            if marker not in state:
                state, begins = self._begun(state, p, group)
                changed.append((p, state))
            if len(state) > complete and (outdated := self._outdated(state, names)):
                state = {name: value for name, value in state.items() if name not in outdated}
                changed.append((p, state))
            k = state["step"]
            if (type(k) is int) is tensor_steps:
                k = counter(k, p, as_tensor=tensor_steps)
                state = {**state, "step": k}
                changed.append((p, state))
            mark = k if not tensor_steps else id(p) if alone else self._counters.mark(k)
            sort = (mark, p.dtype, p.is_cpu or p.device, type(p), begins)
            if sort != last:  # usually a parameter is of the same sort as the previous one
                last = sort
                x, gradients, kept = lots.setdefault(sort, ([], [], []))
            x.append(p)
            gradients.append(g)
            kept.append(state)
        buckets = []
        for (*_, begins), (x, gradients, kept) in lots.items():
            k = kept[0]["step"]
            # A count in a tensor is converted first, and nothing that depends on its value can be refused.
            weights = self._weights(k, begins, group) if type(k) is int else NO_WEIGHTS
            buffers = tuple([[s[name] for s in kept] for name in names])
            buckets.append(Bucket(k, x, gradients, buffers, kept, begins, weights))
        return buckets

    def _outdated(self, state: State, names: Sequence[str]) -> list[str]:
        """The averages of earlier memories: one that is used again later must not continue from them."""
        return [name for name in self.buffers if name in state and name not in names]

    def _begun(self, state: State, p: Tensor, group: Group) -> tuple[State, tuple[str, ...]]:
        """The state for a first step, or a first one with a memory; and which buffers are new after other steps."""
        if not p.is_cpu:  # tensors made during a capture get their values only when the graph is replayed
            self._refuse_capture_of_counts()
        counted = "step" in state
        if not counted and type(group.get("weight_decay")) is str and isinstance(group["lr"], float):
            options.refuse_to_overshoot(type(self).__name__, group, 0, group["lr"])  # a count in a tensor is not read
        names = self._buffer_names(group)
        new = tuple(name for name in names if name not in state)
        old = {name: state[name] for name in names if name in state}
        dtype = self._state_dtype(group, p)
        if old and group["state_dtype"] is None:
            dtype = next(iter(old.values())).dtype  # a checkpoint's may differ from the parameter's
        begun = {"step": 0, **state, **{name: average.to(dtype) for name, average in old.items()}}
        for name in new:
            begun[name] = torch.zeros_like(p, dtype=dtype, memory_format=torch.preserve_format)
        return begun, new if counted else ()

    def _refuse_capture_of_counts(self) -> None:
        """Refuse to record a CUDA graph of steps whose count k is a Python int, as torch does for Adam."""
        check = getattr(self, "_accelerator_graph_capture_health_check", None)
        (check or self._cuda_graph_capture_health_check)()  # the name before torch 2.10

    def _take(self, bucket: Bucket, group: Group, fits: bool) -> None:
        """Update the parameters of one bucket by the fastest path that is correct for them, and count the step."""
        local = bucket
        if group["differentiable"]:  # autograd needs the old averages, so they must not change
            bucket = bucket._replace(buffers=tuple([t.clone() for t in tensors] for tensors in bucket.buffers))
            local = as_plain_tensors(bucket)
        if group.get("compiled") and not torch.compiler.is_compiling() and are_plain(local):
            self._compiler.take(type(self).__name__, self._update, local, group)
        elif not self._fused(local, group, fits):
            kept = local.buffers[0] if local.buffers else local.x
            local = local._replace(
                g=[g if g.dtype is t.dtype else g.to(t.dtype) for g, t in zip(local.g, kept, strict=True)]
            )
            if isinstance(local.k, Tensor):
                k = local.k.to(torch.float32 if local.k.device.type == "mps" else torch.float64)
                local = local._replace(k=k, weights=self._weights(k, local.begins, group))
            self._update(Foreach if self._uses_foreach(local, group) else Single, local, group)
        if group["differentiable"]:
            for i, state in enumerate(bucket.states):
                for name, tensors in zip(self._buffer_names(group), bucket.buffers, strict=True):
                    state[name] = tensors[i]
        if isinstance(bucket.k, Tensor):
            if torch.compiler.is_compiling():
                bucket.k.add_(1)
            else:
                self._counters.count(bucket)
        else:
            following = bucket.k + 1
            for state in bucket.states:
                state["step"] = following

    def _fused(self, bucket: Bucket, group: Group, fits: bool) -> bool:
        """Take the step with fused kernels and return True, or return False without changing anything."""
        if group["fused"] is False or group["foreach"] or group["differentiable"]:
            return False
        if fits:
            return self._fused_update(bucket, group)
        if not fits_widened(bucket):
            return False
        step = partial(self._fused_update, group=group)
        # The rules decide by the options and the count alone, so either all pieces are taken or none is.
        return all(kernels.taken_widened(piece, step) for piece in self._workspace.pieces(bucket))

    def _uses_foreach(self, bucket: Bucket, group: Group) -> bool:
        if group["foreach"] is not None:
            return bool(group["foreach"])
        # As in torch: on a CPU, foreach saves less time on calls than it loses to cache misses.
        return bucket.x[0].device.type != "cpu" and not group["differentiable"] and are_plain(bucket)

    def _weights(self, k: Step, begins: tuple[str, ...], group: Group) -> Weights:
        """What the rule needs of the memories at count k, where the buffers `begins` are new."""
        return NO_WEIGHTS

    def _update(self, do: Arithmetic, bucket: Bucket, group: Group) -> None:
        """The rule: one step of all parameters `bucket.x`, from their gradients, at count `bucket.k`."""
        raise NotImplementedError

    def _fused_update(self, bucket: Bucket, group: Group) -> bool:
        """The same with a fused kernel: True if it was possible, False if nothing was changed."""
        return False

    # --- pieces of rules -----------------------------------------------------------------------------------------

    @staticmethod
    def _lr(group: Group) -> Scalar:
        lr = group["lr"]
        if isinstance(lr, Tensor):
            if group["capturable"] or group["differentiable"] or torch.compiler.is_compiling():
                return lr.reshape(())
            return lr.item()
        return lr  # type: ignore[no-any-return]  # a group's values are untyped; _check_group has checked this one

    @staticmethod
    def _fresh(memory: Memory, buffer: str, k: Step, begins: tuple[str, ...]) -> Scalar:
        """The weight 1 - b_k of the newest gradient; 1 for an average that begins after other steps."""
        if buffer in begins:
            return torch.ones_like(k) if isinstance(k, Tensor) else 1.0
        return memory.fresh(k)

    def _weights_of(
        self, recall: Recall, k: Step, begins: tuple[str, ...], second_fresh: Scalar = 1.0, root: Scalar = 1.0
    ) -> Weights:
        """The weights and gains of averages at count k, with those of the second memory, if there is one."""
        fresh = [
            self._fresh(part.memory, name, k, begins) for part, name in zip(recall.parts, recall.names, strict=True)
        ]
        return Weights(tuple(fresh), tuple(recall.gains(k)), recall.instant_gain(k), second_fresh, root)

    @staticmethod
    def _pulls(weights: Weights) -> list[Pull]:
        """The gain and the fresh weight of each average of a mixture at this step, for kernels."""
        return [Pull(float(gain), float(fresh)) for gain, fresh in zip(weights.gains, weights.fresh, strict=True)]

    def _with_weight_decay(self, do: Arithmetic, bucket: Bucket, group: Group) -> Tensors:
        """The gradients to descend: negated if maximizing, plus the L2 term. Decoupled decay shrinks x instead."""
        x = bucket.x
        g = do.negated(bucket.g) if group["maximize"] else bucket.g
        if type(group["weight_decay"]) is str:
            decay = options.decay_of(group["weight_decay"])
            if decay.kind == "l2":
                return do.plus(g, x, decay.at(bucket.k))
            do.scale_(x, 1 - decay.shrink(bucket.k, self._lr(group), options.peak_lr(group)))
            return g
        if group["weight_decay"] == 0:
            return g
        if group["decoupled_weight_decay"]:
            do.scale_(x, 1 - self._lr(group) * group["weight_decay"])
            return g
        return do.plus(g, x, group["weight_decay"])
