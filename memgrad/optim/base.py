"""What all optimizers with memory share: groups, counters, state, and the choice of the fastest correct path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, overload

import numpy as np
import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, ParamsT

from memgrad.memory import Memory, Mixture
from memgrad.optim import checkpoints, kernels, options
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
from memgrad.optim.kernel_guards import Inspector, are_plain, fits_widened
from memgrad.optim.kernels import Pull
from memgrad.optim.options import Group
from memgrad.optim.recall import Recall, is_its_text, memory_of, recall_of
from memgrad.optim.workspace import Workspace

State = dict[str, Any]

MANY_MEMORIES = 100


class MemoryOptimizer(Optimizer):
    """Base of the optimizers with memory: everything except the update rule.

    A subclass names its `rule`, its `buffers` and its `memories` (the options that hold one), and writes the rule in
    `_update` in terms of `Arithmetic`; where a fused kernel of torch computes the same, it calls it in `_fused_update`.
    Checkpoints store the name of the rule, so a subclass that takes the same steps as its parent inherits it.

    Memories are kept in the parameter groups in their text form, so groups and checkpoints are plain data. A memory
    defined by code (`Sampled`, a callable) is kept separately and must be given again when a checkpoint is loaded.
    """

    rule: ClassVar[str]
    buffers: ClassVar[tuple[str, ...]]
    memories: ClassVar[tuple[str, ...]] = ()
    mixtures: ClassVar[tuple[str, ...]] = ()
    """Those of them that may be mixtures with gain."""
    scaled: ClassVar[tuple[str, ...]] = ()
    """Those of them that may be one memory with a gain."""
    has_decay_kinds: ClassVar[bool] = False
    """Whether the weight decay may be a text that states its kind, such as `independent=4/t`."""
    constructor_options: ClassVar[tuple[str, ...]] = ()
    """Options that a group may have in addition to the defaults; `_complete_group` converts them."""

    _derived_options: ClassVar[tuple[str, ...]] = ()
    """Entries of a group that are derived from its options, and are not options themselves."""

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self._memories: dict[str, Memory | Mixture] = {}
        self._recalls: dict[str, Recall] = {}
        self._inspector = Inspector()
        self._workspace = Workspace()
        self._counters = Counters()
        self._compiler = Compiler()
        super().__init__(params, defaults)

    @property
    def _required_options(self) -> tuple[str, ...]:
        """The options that every checkpoint has, of whatever version."""
        return self.memories

    # --- parameter groups ----------------------------------------------------------------------------------------

    def add_param_group(self, param_group: Group) -> None:
        """Add a group of parameters with its own options. They start at k = 0, regardless of the other groups."""
        options.refuse_unless_known(type(self).__name__, param_group, self._option_names())
        self._complete_group(param_group)
        super().add_param_group(param_group)
        try:
            self._check_group(self.param_groups[-1])
        except (TypeError, ValueError):
            self.param_groups.pop()
            raise

    def _option_names(self) -> list[str]:
        return list(dict.fromkeys([*self.defaults, *self.constructor_options, "params"]))

    def _complete_group(self, group: Group) -> None:
        """Convert constructor options in a group, such as `PolyAdam`'s p, to the entries that the step reads."""

    def _check_group(self, group: Group) -> None:
        """Refuse invalid options; a subclass adds its own checks."""
        who = type(self).__name__
        options.refuse_unless_switches(who, group)
        options.refuse_unless_real(who, group, "lr", tensor=True)
        if self.has_decay_kinds and isinstance(group["weight_decay"], str):
            options.complete_decay(who, group)
        elif "weight_decay" in self.defaults:
            options.refuse_unless_real(who, group, "weight_decay")
        for name in self.memories:
            self._memory(group, name)
        self._state_dtype(group)

    def _memory(self, group: Group, name: str = "memory") -> Memory | Mixture:
        """The memory or mixture in a group's option, which is replaced by its text form."""
        value = group[name]
        known = self._memories.get(value) if type(value) is str else None
        if known is not None:
            return known
        memory = memory_of(type(self).__name__, name, value, mixes=name in self.mixtures, scales=name in self.scaled)
        text = str(memory)
        # Here and not in the step, which torch.compile traces. It refuses a mixture of too many parts.
        recall = {text: recall_of(memory)} if name in self.mixtures else {}
        if len(self._memories) > MANY_MEMORIES + len(self.memories) * len(self.param_groups):
            self._forget_unused_memories(group)
        if self._memories.setdefault(text, memory) != memory:
            raise ValueError(
                f"{type(self).__name__} got two memories with the text form {text!r}; name their functions differently."
            )
        self._recalls.update(recall)
        group[name] = text
        return memory

    def _forget_unused_memories(self, group: Group) -> None:
        """Forget memories that are in no group and can be read again: a schedule of memories must not accumulate them.

        `group` may not be one of the optimizer's groups yet.
        """
        used = [each.get(name) for each in (*self.param_groups, group) for name in self.memories]
        kept = {text: each for text, each in self._memories.items() if text in used or not is_its_text(each)}
        self._memories = kept
        self._recalls = {text: each for text, each in self._recalls.items() if text in kept}

    def _state_dtype(self, group: Group, like: Tensor | None = None) -> torch.dtype | None:
        """The dtype of the state of a tensor such as `like`, real or complex; None means that of the tensor itself."""
        dtype = options.state_dtype(type(self).__name__, group)
        return dtype.to_complex() if dtype is not None and like is not None and like.is_complex() else dtype

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

    def _buffer_names(self, group: Group) -> Sequence[str]:
        return self.buffers

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

    def _recall(self, group: Group) -> Recall:
        """Which averages are kept for the group's memory."""
        text = group["memory"]
        if text not in self._recalls:
            self._recalls[text] = recall_of(self._memories[text])
        return self._recalls[text]

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

    # --- checkpoints ---------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The state, the options and the name of the rule as plain data: tensors, numbers and text."""
        saved = super().state_dict()
        for group in saved["param_groups"]:  # copies: what was written into a group since the last step stays there
            self._write_as_data(group)
        return {**saved, checkpoints.RULE: self.rule}

    def _write_as_data(self, group: Group) -> None:
        """Convert options to plain data. Invalid ones are left unchanged, so that a checkpoint can always be saved."""
        for name in self.memories:
            if isinstance(group.get(name), Memory | Mixture):
                self._memories.setdefault(str(group[name]), group[name])
                group[name] = str(group[name])
        for name in self.defaults.keys() & group.keys():
            if isinstance(group[name], torch.dtype):
                group[name] = str(group[name]).removeprefix("torch.")
            elif isinstance(group[name], np.generic):
                group[name] = group[name].item()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a checkpoint, or raise an error and change nothing if it does not fit.

        The tensors are copied. The state keeps the dtype it was saved with, unless this optimizer has a `state_dtype`
        of its own. torch would cast it to the dtype of its parameter, and round a float32 average of bfloat16
        gradients.
        """
        seen: list[dict[str, Any]] = []

        def look(_: Optimizer, loaded: dict[str, Any]) -> dict[str, Any]:
            seen.append(checkpoints.fitted(self, loaded))
            return seen[-1]

        last = self.register_load_state_dict_pre_hook(look)
        self._loading = seen
        try:
            super().load_state_dict(state_dict)
        finally:
            last.remove()
            del self._loading

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        made = {"_recalls": dict, "_inspector": Inspector, "_counters": Counters, "_compiler": Compiler}
        for name, make in {**made, "_memories": dict}.items():
            self.__dict__.setdefault(name, make())
        self._workspace = Workspace()  # the old one holds views of the state that is being replaced
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)  # an option that is newer than the checkpoint
            self._write_as_data(group)
        if loaded := self.__dict__.get("_loading"):
            checkpoints.take_over(self, loaded[0])

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_memories": self._memories, "_recalls": self._recalls}
