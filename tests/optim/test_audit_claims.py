"""An audit claims only what it saw: what is not linear, rounded, hidden, decayed or refused is said to be that."""

from __future__ import annotations

import math
import re
from typing import Any

import nasty_optimizers as nasty
import numpy as np
import pytest
import torch

from memgrad import MemSGD, audit
from memgrad.memory import Exponential, Instantaneous, Polynomial
from memgrad.optim import AuditError

STEPS = 30
K = np.arange(STEPS)
AGE = K[:, None] - K[None, :]

NONLINEAR = [
    nasty.AverageOfAbsolutes,
    nasty.AverageOfCubes,
    nasty.AverageOfSignedSquares,
    nasty.AverageOfRoots,
    nasty.AverageOfSigns,
    nasty.AverageOfClipped,
    nasty.SquareOfTheSum,
    nasty.Maximum,
    nasty.Belief,
]


def averaged(beta: float) -> Any:
    """Weights of an average of decay beta that starts from zero, from its sum."""
    return np.where(AGE >= 0, (1 - beta) * beta ** np.abs(AGE), 0.0)


# --- what is not a weighted sum --------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", NONLINEAR, ids=lambda each: each.__name__)
def test_a_buffer_that_is_not_linear_is_said_to_change_and_not_taken_for_a_memory(optimizer: Any) -> None:
    found = audit(optimizer, STEPS)
    assert "buffer" not in found.buffers
    assert "changes with the gradients, but neither" in found.unidentified["buffer"]
    assert f"buffer {found.unidentified['buffer']}" in str(found)
    assert "no state" not in str(found)


def test_a_threshold_far_from_1_is_noticed() -> None:
    found = audit(nasty.ClippedFarOut, STEPS)
    assert not found.buffers
    assert "for gradients of size 1, but not" in found.unidentified["buffer"]


def test_a_threshold_far_below_1_is_noticed() -> None:
    found = audit(nasty.DeadNearZero, STEPS)
    assert not found.buffers
    assert "rounded or not linear" in found.unidentified["buffer"]


def test_amsgrads_maximum_is_no_memory_though_it_is_near_one_after_few_steps() -> None:
    found = audit(lambda params: torch.optim.Adam(params, lr=0.1, amsgrad=True), STEPS)
    assert found.buffers.keys() == {"exp_avg", "exp_avg_sq"}
    assert "max_exp_avg_sq is near a weighted sum of the squared gradients, but misses it by" in str(found)


@pytest.mark.parametrize("steps", [2, 3, STEPS])
def test_rprops_buffer_is_no_memory_because_it_forgets_when_signs_change(steps: int) -> None:
    assert "prev" in audit(torch.optim.Rprop, steps).unidentified


def test_a_constant_buffer_is_said_to_be_the_same() -> None:
    found = audit(nasty.Constant, STEPS)
    assert found.unidentified["buffer"] == "is the same whatever the gradients are"


def test_a_buffer_that_comes_and_goes_is_not_identified() -> None:
    assert "not there" in audit(nasty.Vanishing, STEPS).unidentified["buffer"]


def test_a_sum_that_starts_from_something_is_found_beside_it() -> None:
    found = audit(lambda params: torch.optim.Adagrad(params, lr=0.1, initial_accumulator_value=0.25), STEPS)
    assert np.allclose(found.buffers["sum"].weights, np.where(AGE >= 0, 1.0, 0.0), rtol=1e-12)
    assert found.buffers["sum"].offset is not None
    assert np.allclose(found.buffers["sum"].offset, 0.25)
    assert "plus 0.25 at the last step that does not come from gradients" in str(found)


# --- rounding --------------------------------------------------------------------------------------------------------


def test_a_state_in_bfloat16_is_found_to_its_precision_and_that_is_said() -> None:
    found = audit(nasty.Bfloat16, STEPS).buffers["buffer"]
    assert 2**-9 < found.rounding < 0.05  # half a unit in the last place is 2^-9, and errors add up
    assert np.allclose(found.weights, averaged(0.9), rtol=0.05)
    fit = found.found.fit
    assert fit is not None
    assert fit.low <= 0.9 <= fit.high
    assert "rounded: this holds only to a relative error of 0.0" in str(found)
    assert "kept in torch.bfloat16" in str(found)


def test_a_state_in_8_bits_is_said_to_be_that() -> None:
    found = audit(nasty.Int8, STEPS)
    assert not found.buffers
    assert "is rounded, kept in torch.int8" in found.unidentified["buffer"]


def test_an_optimizer_for_float32_alone_is_watched_in_it() -> None:
    found = audit(nasty.WantsFloat32, STEPS)
    assert any("float32" in note for note in found.notes)
    assert found.step is not None
    assert np.allclose(found.step.weights, averaged(0.9), rtol=1e-4, atol=1e-6)
    assert 1e-9 < found.step.rounding < 1e-4


# --- weights of both signs -------------------------------------------------------------------------------------------


def test_weights_that_sum_to_zero_have_no_mean_age_and_no_nearest_memory() -> None:
    found = audit(nasty.Difference, STEPS).step
    assert found is not None
    expected = [averaged(beta) / (1 - beta ** (K[:, None] + 1)) for beta in (0.5, 0.9)]
    assert np.allclose(found.weights, expected[0] - expected[1], atol=1e-12)
    assert math.isnan(found.mean_age)
    assert math.isnan(found.distance)
    assert found.nearest is None
    assert "weights of both signs" in str(found)
    assert "gain 0 (the weights cancel), no mean age" in str(found)


def test_weights_of_both_signs_with_a_sum_have_no_distance_above_100_percent() -> None:
    found = audit(nasty.Lookahead, STEPS).step
    assert found is not None
    assert np.allclose(found.gain, 1, rtol=1e-12)
    assert found.nearest is None
    assert math.isnan(found.mean_age)
    assert "off by" not in str(found)


# --- weight decay ----------------------------------------------------------------------------------------------------

DECAYED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "SGD": (torch.optim.SGD, {"momentum": 0.9}, "0.1 x is added to the gradients (L2);"),
    "SGD without momentum": (torch.optim.SGD, {}, "0.1 x is added to the gradients (L2) or the steps"),
    "Adam": (torch.optim.Adam, {}, "0.1 x is added to the gradients"),
    "RMSprop": (torch.optim.RMSprop, {}, "0.1 x is added to the gradients"),
    "Adagrad": (torch.optim.Adagrad, {}, "0.1 x is added to the gradients"),
    "AdamW": (torch.optim.AdamW, {}, "0.1 x is added to a step (decoupled)"),
    "MemSGD": (MemSGD, {"memory": "poly:3"}, "0.1 x is added to"),
}


@pytest.mark.parametrize("name", DECAYED)
def test_weight_decay_is_named_measured_and_kept_out(name: str) -> None:
    optimizer, options, words = DECAYED[name]
    without = audit(lambda params: optimizer(params, lr=0.05, weight_decay=0.0, **options), STEPS)
    found = audit(lambda params: optimizer(params, lr=0.05, weight_decay=0.1, **options), STEPS)
    assert any("weight decay: found" in note and words in note for note in found.notes)
    assert not any("decay" in note for note in without.notes)
    assert (found.step is None) == (without.step is None)
    assert found.buffers.keys() == without.buffers.keys()
    for before, after in zip(
        [*without.buffers.values(), *filter(None, [without.step])],
        [*found.buffers.values(), *filter(None, [found.step])],
        strict=True,
    ):
        assert (after.name, after.power) == (before.name, before.power)
        assert np.allclose(after.weights, before.weights, rtol=1e-9, atol=1e-13)
    assert np.allclose(found.constant_gain, without.constant_gain, rtol=1e-9)


def test_what_holds_iterates_is_not_taken_for_a_memory_of_gradients_under_weight_decay() -> None:
    """ASGD has a decay by default, and its average of iterates would look instantaneous with the parameters held."""
    found = audit(torch.optim.ASGD, STEPS)
    assert any("weight decay: found" in note for note in found.notes)
    assert "ax" in found.unidentified
    assert found.step is not None
    assert found.step.nearest == Instantaneous()


def test_steps_that_depend_on_the_parameters_otherwise_are_not_identified() -> None:
    found = audit(nasty.TrustRatio, STEPS)
    assert found.step is None
    assert "weight decay does not explain" in found.unidentified["step"]
    assert any("depend on the parameters, but not as by weight decay" in note for note in found.notes)
    assert np.allclose(found.buffers["buffer"].weights, averaged(0.9), atol=1e-14)


# --- where state is kept ---------------------------------------------------------------------------------------------


def test_velocities_in_a_dict_are_found_one_by_one() -> None:
    found = audit(nasty.InDict, STEPS)
    assert found.buffers.keys() == {"velocity[0.5]", "velocity[0.9]"}
    assert np.allclose(found.buffers["velocity[0.5]"].weights, averaged(0.5), atol=1e-14)


def test_a_long_history_and_tensors_of_another_shape_are_said_to_be_there() -> None:
    assert audit(nasty.LongHistory, STEPS).unidentified["history"] == "is a deque of 20 entries: not inspected"
    shape = re.escape("is a tensor of the shape (2, ")
    assert re.match(shape, audit(nasty.OtherShape, STEPS).unidentified["both"])


def test_a_memory_outside_the_state_is_noticed_in_the_steps() -> None:
    hidden, sign = audit(nasty.Hidden, STEPS), audit(nasty.Sign, STEPS)
    assert hidden.unidentified["step"].endswith("it depends on earlier gradients")
    assert sign.unidentified["step"].endswith("it depends on the newest gradient alone, where tried")
    assert "no state was found that changes with the gradients" in str(sign)


@pytest.mark.parametrize("optimizer", NONLINEAR, ids=lambda each: each.__name__)
@pytest.mark.parametrize("steps", [2, 9])
def test_a_memory_behind_a_sign_is_noticed_in_few_steps(optimizer: Any, steps: int) -> None:
    if optimizer is not nasty.Maximum:  # whose steps are signs of the newest gradient
        assert audit(optimizer, steps).unidentified["step"].endswith("earlier gradients")


def test_an_optimizer_that_does_not_move_is_said_not_to() -> None:
    assert audit(nasty.Still, STEPS).unidentified["step"] == "is 0 whatever the gradients are"


def test_a_buffer_called_step_is_not_mixed_up_with_the_step() -> None:
    found = audit(nasty.CalledStep, STEPS)
    assert found.step is None
    assert np.allclose(found.buffers["state[step]"].weights, averaged(0.9), atol=1e-14)


# --- randomness, and coordinates that mix ----------------------------------------------------------------------------


def test_randomness_is_noted_and_leaves_the_callers_generator_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    found = audit(nasty.Noisy, STEPS)
    assert torch.equal(torch.rand(2), expected)
    assert any(note.startswith("randomness") for note in found.notes)
    assert found.step is None
    assert not found.buffers
    assert "differ randomly" in found.unidentified["buffer"]


def test_coordinates_that_mix_are_noted() -> None:
    found = audit(nasty.GlobalNorm, STEPS)
    assert any(note.startswith("coordinates mix") for note in found.notes)
    assert found.step is None
    assert np.allclose(found.buffers["buffer"].weights, averaged(0.9), atol=1e-14)
    plain = audit(lambda params: torch.optim.Adam(params, lr=0.1), STEPS)
    assert not plain.notes


def test_the_default_device_does_not_matter() -> None:
    with torch.device("meta"):
        found = audit(lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9), STEPS)
    assert found.step is not None
    assert found.step.nearest == Exponential(0.9)


# --- what optimizers need --------------------------------------------------------------------------------------------


def test_without_a_learning_rate_steps_are_as_they_are() -> None:
    found = audit(nasty.NoRate, STEPS)
    assert found.step is not None
    assert np.allclose(found.step.weights, 0.1 * averaged(0.9), atol=1e-14)
    assert any("no learning rate" in note for note in found.notes)
    assert "in units of" not in str(found)


@pytest.mark.parametrize("optimizer", [nasty.WantsClosure, nasty.AsksForClosure, nasty.WantsTrain])
def test_a_closure_or_a_mode_that_is_needed_is_given(optimizer: Any) -> None:
    found = audit(optimizer, STEPS)
    assert found.step is not None
    assert np.allclose(found.step.weights, averaged(0.9), atol=1e-14)
    assert any("closure" in note for note in found.notes) == (optimizer is not nasty.WantsTrain)


REFUSED: dict[str, tuple[Any, str]] = {
    "Muon": (torch.optim.Muon, r"Muon.*2D.*coordinate"),
    "SparseAdam": (torch.optim.SparseAdam, r"cannot step SparseAdam.*to_sparse"),
    "matrices": (nasty.WantsMatrices, r"cannot step WantsMatrices: at step 0.*whole matrices"),
    "calls": (nasty.WantsCalls, r"cannot step WantsCalls.*prepare\(\).*before_step"),
    "late": (nasty.Breaks, r"cannot step Breaks: at step 5 .*IndexError.*before_step"),
    "making": (lambda params: torch.optim.SGD(params, lr=0.1, momentum=-1.0), r"making it.*momentum.*make_optimizer"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_optimizer_that_raises_is_answered_by_name_need_and_way_out(name: str) -> None:
    make, words = REFUSED[name]
    with pytest.raises(AuditError, match=words):
        audit(make, STEPS)


def test_the_ways_out_work() -> None:
    def prepare(optimizer: Any, k: int) -> None:
        optimizer.ready = True

    found = audit(nasty.WantsCalls, STEPS, before_step=prepare)
    assert found.step is not None

    def to_sparse(optimizer: Any, k: int) -> None:
        p = optimizer.param_groups[0]["params"][0]
        p.grad = p.grad.to_sparse()

    # Without gradients, which a sparse zero is, it does nothing: each average is of the gradients that are there.
    lazy = audit(torch.optim.SparseAdam, STEPS, before_step=to_sparse)
    assert not lazy.buffers
    assert "exp_avg" in lazy.unidentified


EVERY_TORCH_OPTIMIZER = sorted(
    name
    for name, each in vars(torch.optim).items()
    if isinstance(each, type) and issubclass(each, torch.optim.Optimizer) and each is not torch.optim.Optimizer
)


@pytest.mark.parametrize("name", EVERY_TORCH_OPTIMIZER)
def test_every_optimizer_of_torch_is_answered(name: str) -> None:
    """Each claim is the method's definition: its betas for both moments, and none for a maximum or a sign."""
    known: dict[str, dict[str, Any]] = {
        "ASGD": {},
        "Adadelta": {"square_avg": Exponential(0.9)},
        "Adafactor": {"variance": None},
        "Adagrad": {"sum": Polynomial(1)},
        "Adam": {"exp_avg": Exponential(0.9), "exp_avg_sq": Exponential(0.999)},
        "AdamW": {"exp_avg": Exponential(0.9), "exp_avg_sq": Exponential(0.999)},
        "Adamax": {"exp_avg": Exponential(0.9)},
        "LBFGS": {"prev_flat_grad": Instantaneous()},
        "NAdam": {"exp_avg": Exponential(0.9), "exp_avg_sq": Exponential(0.999)},
        "RAdam": {"exp_avg": Exponential(0.9), "exp_avg_sq": Exponential(0.999)},
        "RMSprop": {"square_avg": Exponential(0.99)},
        "Rprop": {},
        "SGD": {},
    }
    make = getattr(torch.optim, name)
    if name in ("Muon", "SparseAdam"):
        with pytest.raises(AuditError):
            audit(make, STEPS)
        return
    found = audit(make, STEPS)
    assert found.buffers.keys() == known[name].keys()
    for buffer, memory in known[name].items():
        if memory is not None:
            assert found.buffers[buffer].nearest == memory
    assert (found.step is not None) == (name in ("ASGD", "SGD"))
