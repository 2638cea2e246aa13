"""Options that follow from others: what is written over them is refused, not lost."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch.nn import Parameter

from memgrad.optim import QHM, ADana, AdEMAMix, AggMo, HeavyBall, Nesterov

WRITTEN = [
    pytest.param(QHM, "memory", "poly:2", "nu, beta", id="QHM"),
    pytest.param(AggMo, "memory", "poly:2", "betas", id="AggMo"),
    pytest.param(AdEMAMix, "memory", "poly:2", "betas, alpha, ramp", id="AdEMAMix"),
    pytest.param(AdEMAMix, "second_memory", "poly:2", "betas, alpha, ramp", id="AdEMAMix's squares"),
    pytest.param(ADana, "weight_decay", 0.3, "delta, kappa, omega, through_lr", id="ADana's decay"),
]


def stepped(optimizer: Any, steps: int = 1) -> Any:
    for _ in range(steps):
        for group in optimizer.param_groups:
            for p in group["params"]:
                p.grad = torch.ones_like(p)
        optimizer.step()
    return optimizer


@pytest.mark.parametrize(("kind", "name", "value", "options"), WRITTEN)
def test_what_is_written_over_a_derived_option_is_refused(kind: Any, name: str, value: Any, options: str) -> None:
    x = Parameter(torch.ones(3))
    optimizer = stepped(kind([x]))
    before = x.detach().clone()
    optimizer.param_groups[0][name] = value
    with pytest.raises(ValueError, match=rf"{kind.__name__} derives {name} from {options}, got {name}={value!r}"):
        stepped(optimizer)
    assert torch.equal(x, before)


def test_the_options_themselves_may_change_also_after_a_copy_and_a_checkpoint() -> None:
    optimizer = stepped(AggMo([{"params": [Parameter(torch.ones(3))]}, {"params": [Parameter(torch.ones(2))]}]))
    for betas in ((0.1, 0.2), (0.1, 0.3)):
        for group in optimizer.param_groups:
            group["betas"] = betas
        optimizer = stepped(copy.deepcopy(stepped(optimizer)))
        other = AggMo([{"params": [Parameter(torch.ones(3))]}, {"params": [Parameter(torch.ones(2))]}])
        stepped(other).load_state_dict(optimizer.state_dict())
        optimizer = stepped(other)
    assert [group["memory"] for group in optimizer.param_groups] == ["0.5*sum*exp:0.1 + 0.5*sum*exp:0.3"] * 2


@pytest.mark.parametrize("kind", [HeavyBall, Nesterov])
def test_a_checkpoint_without_momentum_is_not_one_of_heavy_ball(kind: Any) -> None:
    saved = torch.optim.Rprop([Parameter(torch.ones(3))]).state_dict()  # nothing but options, none of which is known
    optimizer = kind([Parameter(torch.ones(3))], lr=0.5)
    with pytest.raises(ValueError, match=rf"not one of {kind.__name__}: group 0 of the checkpoint lacks"):
        optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["lr"] == 0.5


@pytest.mark.parametrize(
    ("kind", "option", "accepted", "refused"),
    [
        (ADana, "delta", 1, True),
        (AggMo, "betas", (0, 0.9), (False, 0.9)),
        (QHM, "nu", 1, True),
        (QHM, "beta", 0, False),
    ],
)
def test_a_value_is_refused_though_an_equal_one_was_accepted_before(
    kind: Any, option: str, accepted: Any, refused: Any
) -> None:
    """True is 1 and False is 0, for a cache too."""
    kind([Parameter(torch.ones(3))], **{option: accepted})
    with pytest.raises((TypeError, ValueError), match=kind.__name__):
        kind([Parameter(torch.ones(3))], **{option: refused})
