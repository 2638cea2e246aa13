"""One run trained alone, with the public optimizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import torch
from torch import Tensor

from memgrad.experiments.digests import initial_seed, noise_seed
from memgrad.experiments.planning.runs import Run
from memgrad.experiments.training.minibatch_order import MinibatchOrder
from memgrad.experiments.training.nested import PLAIN, UnsavableError, packed, unpacked, unsavable
from memgrad.problems import Problem


@final
class Alone:
    """A run trained by the public optimizer of its recipe: for large models, and for optimizers that are no method."""

    run_order = (0,)

    def __init__(self, problem: Problem, run: Run) -> None:
        self._problem, self._run = problem, run
        self._model = problem.model(initial_seed(problem.name, run.seed))
        self._parameters = {name: p for name, p in self._model.named_parameters() if p.requires_grad}
        self._optimizer = run.recipe.build(self._parameters.values(), run.lr)
        self._has_modes = all(callable(getattr(self._optimizer, mode, None)) for mode in ("train", "eval"))
        if self._has_modes:
            self._enter("train")
        size = run.batch_size
        self._minibatches = None if size is None else MinibatchOrder(problem.name, problem.examples, size, [run.seed])
        torch.default_generator.manual_seed(noise_seed(problem.name, run.seed))  # for dropout and the like

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The parameters, with a run axis of length 1."""
        return {name: p.detach()[None] for name, p in self._parameters.items()}

    @property
    def evaluated(self) -> dict[str, Tensor]:
        """What metrics are about: the parameters, in the mode `eval` of an optimizer that has modes.

        Such an optimizer (Schedule-Free ones, for example) takes gradients at one point and is judged at another.
        """
        if not self._has_modes:
            return self.parameters
        stepping = {name: p.detach().clone() for name, p in self._parameters.items()}
        self._enter("eval")
        found = {name: p.detach().clone()[None] for name, p in self._parameters.items()}
        self._enter("train")
        with torch.no_grad():  # going back may round: a run must not depend on when it is evaluated
            for name, p in self._parameters.items():
                p.copy_(stepping[name])
        return found

    def _enter(self, mode: str) -> None:
        getattr(self._optimizer, mode)()

    def step(self, k: int) -> None:
        """Take step k = 0, 1, ..."""
        if self._minibatches is None:
            for name, g in self._problem.full_gradient(self._parameters).items():
                self._parameters[name].grad = g
        else:
            self._differentiate(self._minibatches.at(k)[0].to(self._problem.device))
        if self._run.clip is not None:
            torch.nn.utils.clip_grad_norm_(self._parameters.values(), self._run.clip)
        if self._run.factors is not None:
            for group in self._optimizer.param_groups:
                # A plan measures longer than a short run takes.
                group["lr"] = self._run.lr * float(self._run.factors[min(k, len(self._run.factors) - 1)])
        self._optimizer.step()

    def _differentiate(self, rows: Tensor) -> None:
        """Set the parameters' `grad` to the gradient of a minibatch."""
        problem = self._problem
        inputs, targets = (data.index_select(0, rows) for data in problem.train)
        for p in self._parameters.values():
            p.grad = None
        problem.loss(self._model(inputs), targets).backward()  # type: ignore[no-untyped-call]  # torch's
        if problem.l2:
            for p in self._parameters.values():
                p.grad = p.detach() * problem.l2 if p.grad is None else p.grad.add_(p.detach(), alpha=problem.l2)

    def evaluate(self, metrics: Sequence[str], parameters: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
        """The metrics, each a tensor with one element; of other parameters, with a run axis, if they are given."""
        own = {name: p[0] for name, p in (parameters or self.evaluated).items()}
        run = self._run
        values = self._problem.evaluate(
            own, metrics=metrics, gradient_examples=run.gradient_examples, loss_examples=run.loss_examples
        )
        return {name: torch.tensor([value], dtype=torch.float64) for name, value in values.items()}

    def state(self) -> dict[str, Any]:
        """All that the next steps depend on: tensors, and what else an optimizer keeps."""
        state: dict[str, Any] = {f"x/{name}": p.detach() for name, p in self._parameters.items()}
        kept = self._optimizer.state_dict()
        for i, buffers in kept["state"].items():
            for name, value in buffers.items():
                if (why := unsavable(value)) is not None:
                    raise UnsavableError(f"{self._run.recipe.optimizer} keeps {name!r} in its state: {why}")
                state[f"optimizer/{i}/{name}"] = value
        for i, group in enumerate(kept["param_groups"]):  # some optimizers count steps there
            for name, value in group.items():
                # Options that cannot be saved, such as functions, are set again when the optimizer is built.
                if name != "params" and value is not None and unsavable(value) is None:
                    state[f"group/{i}/{name}"] = value
        return state | {"random": torch.default_generator.get_state()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        kept: dict[int, dict[str, Any]] = {}
        groups = self._optimizer.state_dict()["param_groups"]
        for key, value in state.items():
            kind, _, name = key.partition("/")
            if kind == "x":
                with torch.no_grad():
                    self._parameters[name].copy_(value)
            elif kind in ("optimizer", "group"):
                number, _, entry = name.partition("/")
                (kept.setdefault(int(number), {}) if kind == "optimizer" else groups[int(number)])[entry] = value
        self._optimizer.load_state_dict({"state": kept, "param_groups": groups})
        # load_state_dict casts buffers to the precision of the parameters; NAdam keeps a product in a different one.
        for i, p in enumerate(self._parameters.values()):
            loaded = self._optimizer.state[p]
            for name, value in kept.get(i, {}).items():
                if isinstance(value, Tensor):
                    loaded[name] = value.to(loaded[name].device)
                elif not isinstance(value, PLAIN):
                    loaded[name] = _moved(value, p.device)
        torch.default_generator.set_state(state["random"])


def _moved(value: Any, device: torch.device) -> Any:
    tensors: list[Tensor] = []
    plain = packed(value, tensors)
    return unpacked(plain, [each.to(device) for each in tensors])
