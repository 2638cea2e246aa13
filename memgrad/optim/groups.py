"""Parameter groups: their options and memories, which are plain data in groups and in checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, ParamsT

from memgrad.memory import Memory, Mixture
from memgrad.optim import checkpoints, options
from memgrad.optim.options import Group
from memgrad.optim.recall import Recall, is_its_text, memory_of, recall_of

MANY_MEMORIES = 100
"""So many memories are kept, beside those of the groups, before unused ones are forgotten."""


class GroupedOptimizer(Optimizer):
    """An optimizer whose groups hold memories, without the step: `MemoryOptimizer` adds it.

    Memories are kept in the parameter groups in their text form, so groups and checkpoints are plain data. A memory
    defined by code (`Sampled`, a callable) is kept separately and must be given again when a checkpoint is loaded.
    """

    rule: ClassVar[str]
    """Its name, which checkpoints store: a subclass that takes the same steps as its parent inherits it."""
    buffers: ClassVar[tuple[str, ...]]
    """The names of the averages in the state of a parameter."""
    memories: ClassVar[tuple[str, ...]] = ()
    """The options that hold a memory."""
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

    def __init_subclass__(cls, **more: Any) -> None:
        """Let the constructor say how an argument that it does not take is written: Python's error would not."""
        super().__init_subclass__(**more)
        if "__init__" in vars(cls):
            cls.__init__ = options.explained(cls.__init__)  # type: ignore[method-assign]

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self._memories: dict[str, Memory | Mixture] = {}
        self._recalls: dict[str, Recall] = {}
        super().__init__(params, defaults)

    @property
    def _required_options(self) -> tuple[str, ...]:
        """The options that every checkpoint has, of whatever version."""
        return self.memories

    # --- options -----------------------------------------------------------------------------------------------

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

    def _recall(self, group: Group) -> Recall:
        """Which averages are kept for the group's memory."""
        text = group["memory"]
        if text not in self._recalls:
            self._recalls[text] = recall_of(self._memories[text])
        return self._recalls[text]

    def _buffer_names(self, group: Group) -> Sequence[str]:
        """The buffers that a step of this group needs."""
        return self.buffers

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
        for name in ("_memories", "_recalls"):
            self.__dict__.setdefault(name, {})
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)  # an option that is newer than the checkpoint
            self._write_as_data(group)
        if loaded := self.__dict__.get("_loading"):
            checkpoints.take_over(self, loaded[0])

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_memories": self._memories, "_recalls": self._recalls}
