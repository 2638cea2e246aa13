"""What a problem is: data, a model, a loss; and the numbers an experiment asks of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Protocol, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from memgrad.kinds import as_number
from memgrad.problems import passes
from memgrad.problems.kinds import as_count
from memgrad.problems.passes import Pair, Parameters

STEP_NORM = "step_norm"
"""A metric that every problem has. It needs two iterates, so the training loop computes it."""


class Stacked(Protocol):
    """A model with a leading run axis, written by hand, such as `StackedDense`."""

    def outputs(self, parameters: Parameters, inputs: Tensor) -> Tensor:
        """The outputs of all runs, (runs, batch, ...); `inputs` have a run axis, or are shared by all runs."""

    def gradient(self, parameters: Parameters, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """The gradients of the losses of all runs, without the L2 term."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    r"""Something to train: data, a model and a loss, with everything an experiment needs to know about them.

    What is minimized is the mean over the training examples plus an L2 term on all parameters,

    $$F(\theta) = \frac1n \sum_{i=1}^n \ell(f_\theta(a_i), y_i) + \frac{\lambda}{2} |\theta|^2.$$

    Parameters are dictionaries of tensors by name. The functions whose names begin with `stacked` take and return many
    runs at once, with a leading run axis on every tensor; each run gets the numbers it would get alone.

    Args:
        name: A short name, for tables and legends.
        train: The inputs $a_i$ and the targets $y_i$: two tensors with one example per row.
        make_model: A function without arguments that returns the initialized model $f_\theta$, a `torch.nn.Module`.
            It is called with torch's generator seeded.
        loss: A function of outputs and targets: the mean of $\ell$ over a batch, a tensor with one number.
        test: Inputs and targets that are not trained on, or None.
        validation: Further ones that are not trained on, by which settings are selected, or None.
        l2: The factor $\lambda \ge 0$.
        metrics: Further numbers to report, by name: functions of outputs and targets with one number per example, such
            as `accuracy`. They are averaged over the examples.
        batch_size: The size of a minibatch, unless an experiment says otherwise.
        stack_width: The number of runs that are fastest to train together on one core; 1 trains them one after another.
        full_chunk: The number of examples per forward pass when all examples are needed.
        stacked: The model with a run axis, written by hand, if there is one that is faster than torch's `vmap`.
        reconstruct: For models whose outputs encode images of the inputs: the function that turns outputs into images.
        dtype: The precision of the parameters; that of the inputs if they are floats, else PyTorch's default.

    Example:
        >>> inputs, targets = torch.eye(2), torch.tensor([0, 1])
        >>> problem = Problem("two points", (inputs, targets), lambda: nn.Linear(2, 2), nn.functional.cross_entropy)
        >>> parameters = problem.initial_parameters(seed=0)
        >>> {name: tuple(tensor.shape) for name, tensor in parameters.items()}
        {'weight': (2, 2), 'bias': (2,)}
        >>> sorted(problem.evaluate(parameters))
        ['gradient_norm', 'loss']
    """

    name: str
    train: Pair
    make_model: Callable[[], nn.Module]
    loss: Callable[[Tensor, Tensor], Tensor]
    _: KW_ONLY
    test: Pair | None = None
    validation: Pair | None = None
    l2: float = 0.0
    metrics: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = field(default_factory=dict)
    batch_size: int = 32
    stack_width: int = 1
    full_chunk: int = 4096
    stacked: Stacked | None = None
    reconstruct: Callable[[Tensor], Tensor] | None = None
    dtype: torch.dtype | None = None

    def __post_init__(self) -> None:
        owner = f"problem {self.name!r}"
        _check_pair(owner, "train", self.train)
        for name in ("test", "validation"):
            if getattr(self, name) is not None:
                _check_pair(owner, name, getattr(self, name))
        for name in ("make_model", "loss", *(["reconstruct"] if self.reconstruct is not None else [])):
            if not callable(getattr(self, name)):
                raise TypeError(f"{owner} needs a function {name}, got {name}={getattr(self, name)!r}.")
        if isinstance(self.make_model, nn.Module):
            made = type(self.make_model).__name__
            raise TypeError(
                f"{owner} needs a function make_model that returns a new model each time, got a {made}; write lambda: "
                f"{made}(...)."
            )
        as_number(owner, "l2", self.l2, least=0.0)
        for name in ("batch_size", "stack_width", "full_chunk"):
            object.__setattr__(self, name, as_count(owner, name, getattr(self, name)))
        taken = {"loss", "gradient_norm", STEP_NORM} & self.metrics.keys()
        if taken:
            raise ValueError(f"{owner} has a metric called {', '.join(taken)}, which every problem has; rename yours.")
        object.__setattr__(self, "metrics", MappingProxyType(dict(self.metrics)))
        if twice := {name for name in self.metric_names if self.metric_names.count(name) > 1}:
            raise ValueError(
                f"{owner} has a metric called {', '.join(sorted(twice))}, which is that of its held-out data; rename "
                f"yours."
            )

    # --- parts -------------------------------------------------------------------------------------------------------

    @property
    def examples(self) -> int:
        """The number n of training examples."""
        return len(self.train[0])

    @property
    def device(self) -> torch.device:
        """The device of data and parameters."""
        return self.train[0].device

    @property
    def metric_names(self) -> tuple[str, ...]:
        """All metrics. The training loop computes `step_norm`, the length of a step; `evaluate` computes the others."""
        held_out = [name for name in ("test", "validation") if getattr(self, name) is not None]
        own = [f"{part}_{name}" for part in held_out for name in ("loss", *self.metrics)]
        return ("loss", "gradient_norm", *self.metrics, *own, STEP_NORM)

    def to(self, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Problem:
        """The same problem on another device or in another precision; integers stay integers.

        Example:
            >>> problem = Problem("p", (torch.eye(2), torch.eye(2)), lambda: nn.Linear(2, 2), nn.functional.mse_loss)
            >>> problem.to(dtype=torch.float64).initial_parameters(0)["bias"].dtype
            torch.float64
        """

        def move(pair: Pair) -> Pair:
            inputs, targets = (t.to(device=device, dtype=dtype if t.is_floating_point() else None) for t in pair)
            return inputs, targets

        test, validation = (None if pair is None else move(pair) for pair in (self.test, self.validation))
        return replace(self, train=move(self.train), test=test, validation=validation, dtype=dtype or self.dtype)

    def model(self, seed: int) -> nn.Module:
        """A model with the initial parameters of a seed, on the problem's device and in its precision.

        Only the seed matters: the state of torch's random generator is neither used nor changed. Buffers and frozen
        parameters (`requires_grad=False`) are the same for every seed, so that all runs are of one problem.
        """
        model = self._made(seed)
        if own := _untrained(model):
            with torch.no_grad():
                for name, tensor in own.items():
                    tensor.copy_(self._shared[name])
        return model

    def _made(self, seed: int) -> nn.Module:
        # CPU generators only: models are made there and moved, so that a seed means the same on every device.
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            model = self.make_model()
        if not isinstance(model, nn.Module):
            raise TypeError(f"problem {self.name!r}: make_model must return a torch.nn.Module, got {model!r}.")
        inputs = self.train[0]
        return model.to(self.device, self.dtype or (inputs.dtype if inputs.is_floating_point() else None))

    def initial_parameters(self, seed: int) -> dict[str, Tensor]:
        """The parameters that a seed initializes and training changes, by name: all but frozen ones."""
        return {name: p.detach().clone() for name, p in self.model(seed).named_parameters() if p.requires_grad}

    # --- one run -----------------------------------------------------------------------------------------------------

    def outputs(self, parameters: Parameters, inputs: Tensor) -> Tensor:
        """The outputs of the model with these parameters."""
        outputs: Tensor = functional_call(self._template, dict(parameters), (inputs,))
        return outputs

    def batch_loss(self, parameters: Parameters, inputs: Tensor, targets: Tensor) -> Tensor:
        r"""The mean loss of a batch plus the L2 term $\frac{\lambda}{2} |\theta|^2$."""
        loss = self.loss(self.outputs(parameters, inputs), targets)
        return loss + self.l2 / 2 * passes.squared_norm(parameters) if self.l2 else loss

    def gradient(self, parameters: Parameters, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """The gradient of `batch_loss` in the parameters, by name."""
        return passes.with_l2(self, parameters, passes.one_run(self, parameters).gradient(inputs, targets))

    def full_gradient(self, parameters: Parameters) -> dict[str, Tensor]:
        """The gradient over all training examples, in chunks of `full_chunk`."""
        return passes.full_gradient(self, parameters, passes.one_run(self, parameters))

    def evaluate(
        self,
        parameters: Parameters,
        *,
        metrics: Sequence[str] | None = None,
        gradient_examples: int | None = None,
        loss_examples: int | None = None,
    ) -> dict[str, float]:
        """Metrics over all examples: exact means over the rows, whatever the chunks.

        Args:
            parameters: Those of one run.
            metrics: Names among `metric_names`; all but `step_norm` unless given. `gradient_norm`, the norm of the
                full gradient, needs a backward pass.
            gradient_examples: Compute the norm of the gradient over this number of training examples, always the same
                ones, instead of all of them.
            loss_examples: Compute the loss and the other metrics of the training set over this number of training
                examples, always the same ones, instead of all of them.
        """
        through = passes.one_run(self, parameters)
        found = passes.evaluate(self, parameters, self._wanted(metrics), through, gradient_examples, loss_examples)
        return {name: float(value) for name, value in found.items()}

    def reconstructions(self, parameters: Parameters, inputs: Tensor) -> Tensor:
        """The model's images of its inputs, for problems with `reconstruct`, such as an autoencoder."""
        if self.reconstruct is None:
            raise ValueError(f"problem {self.name!r} has no images: give it `reconstruct`, a function of outputs.")
        with torch.no_grad():
            return self.reconstruct(self.outputs(parameters, inputs))

    # --- many runs ---------------------------------------------------------------------------------------------------

    def stacked_initial_parameters(self, seeds: Sequence[int]) -> dict[str, Tensor]:
        """The parameters of several seeds, with a leading run axis."""
        return passes.stack([self.initial_parameters(seed) for seed in seeds])

    def stacked_gradient(self, parameters: Parameters, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """The gradients of many runs, each on its own batch, or all on the same.

        Args:
            parameters: With a leading run axis.
            inputs: With a leading run axis; or without, shared by all runs.
            targets: With a run axis exactly if the inputs have one.
        """
        return passes.with_l2(self, parameters, passes.many_runs(self, parameters).gradient(inputs, targets))

    def stacked_full_gradient(self, parameters: Parameters) -> dict[str, Tensor]:
        """The gradients of many runs over all training examples; each chunk is read once for all runs."""
        return passes.full_gradient(self, parameters, passes.many_runs(self, parameters))

    def stacked_evaluate(
        self,
        parameters: Parameters,
        *,
        metrics: Sequence[str] | None = None,
        gradient_examples: int | None = None,
        loss_examples: int | None = None,
    ) -> dict[str, Tensor]:
        """The metrics of many runs, each a tensor with one number per run. See `evaluate`."""
        through = passes.many_runs(self, parameters)
        return passes.evaluate(self, parameters, self._wanted(metrics), through, gradient_examples, loss_examples)

    # --- inside ------------------------------------------------------------------------------------------------------

    @cached_property
    def _template(self) -> nn.Module:
        """The module that is called with given parameters; of its own, frozen ones alone are used."""
        return self.model(0)

    @cached_property
    def _shared(self) -> dict[str, Tensor]:
        """Buffers and frozen parameters of all runs; a copy, since a forward pass may change a buffer in place."""
        return {name: tensor.detach().clone() for name, tensor in _untrained(self._made(0)).items()}

    def _wanted(self, metrics: Sequence[str] | None) -> tuple[str, ...]:
        known = tuple(name for name in self.metric_names if name != STEP_NORM)
        unknown = [name for name in metrics or () if name not in known]
        if unknown:
            later = " (step_norm needs two iterates: the training loop computes it)" if STEP_NORM in unknown else ""
            raise ValueError(
                f"problem {self.name!r} has no metric {unknown[0]!r} to evaluate{later}; known: {', '.join(known)}."
            )
        return known if metrics is None else tuple(metrics)

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.train[0].shape))
        return f"<Problem {self.name}: inputs {shape}, {self.device}>"


def _untrained(model: nn.Module) -> dict[str, Tensor]:
    frozen = {name: p for name, p in model.named_parameters() if not p.requires_grad}
    return {**frozen, **dict(model.named_buffers())}


def _check_pair(owner: str, name: str, pair: Any) -> None:
    if not (isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(each, Tensor) for each in pair)):
        got = type(pair).__name__
        if isinstance(pair, tuple):
            got += f" of {', '.join(type(each).__name__ for each in pair)}"
        arrays = isinstance(pair, tuple) and any(isinstance(each, np.ndarray) for each in pair)
        way_out = "; torch.from_numpy makes a tensor of an array" if arrays else ""
        raise TypeError(f"{owner} needs {name}=(inputs, targets), two tensors, got {got}{way_out}.")
    inputs, targets = pair
    if inputs.ndim == 0 or targets.ndim == 0 or len(inputs) != len(targets) or len(inputs) == 0:
        raise ValueError(
            f"{owner} needs as many targets as inputs, one per row and at least one, got {name} with the shapes "
            f"{tuple(inputs.shape)} and {tuple(targets.shape)}."
        )
    if inputs.device != targets.device:
        raise ValueError(f"{owner} needs its data on one device, got {inputs.device} and {targets.device} in {name}.")
