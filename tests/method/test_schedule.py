"""Schedules of the learning rate: closed forms, torch's own schedulers, text forms, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memgrad.method import Schedule


def test_the_factors_are_those_of_the_formulas_written_out() -> None:
    steps, w, f = 200, 10, 0.1
    k = np.arange(steps)
    rising = (k[:w] + 1) / 10
    left = k[w:] - 10
    after = {
        "constant": np.ones(190),
        "linear": f + 0.9 * (1 - left / 190),
        "cosine": f + 0.9 * 0.5 * (1 + np.cos(math.pi * left / 190)),
        "wsd": f + 0.9 * np.minimum(1, (200 - k[w:]) / 40),
        "inverse-root": np.maximum(f, np.sqrt(10 / (k[w:] + 1))),
    }
    for shape, values in after.items():
        floor = {} if shape == "constant" else {"floor": f}
        found = Schedule(shape, warmup=0.05, **floor).factors(steps)  # type: ignore[arg-type]
        np.testing.assert_allclose(found, np.concatenate([rising, values]), rtol=1e-14, err_msg=shape)


def test_linear_decay_is_torch_s_linear_lr_and_cosine_its_cosine_annealing() -> None:
    for shape, make in (
        ("linear", lambda opt: torch.optim.lr_scheduler.LinearLR(opt, 1.0, 0.2, total_iters=50)),
        ("cosine", lambda opt: torch.optim.lr_scheduler.CosineAnnealingLR(opt, 50, eta_min=0.2)),
    ):
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        scheduler = make(optimizer)
        theirs = []
        for _ in range(50):
            theirs.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
        mine = Schedule(shape, floor=0.2).factors(50)  # type: ignore[arg-type]
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, err_msg=shape)


@given(
    st.sampled_from(["linear", "cosine", "wsd", "inverse-root"]),
    st.sampled_from([0.0, 0.05, 0.3, 7.0]),
    st.floats(0, 1),
    st.integers(20, 300),
)
def test_factors_rise_to_one_then_fall_to_the_floor_and_have_a_text_form(
    shape: str, warmup: float, floor: float, steps: int
) -> None:
    schedule = Schedule(shape, warmup=warmup, floor=floor)  # type: ignore[arg-type]
    found = schedule.factors(steps)
    top = int(np.argmax(found))
    assert (found > 0).all()
    assert found.max() <= 1 + 1e-12
    assert (np.diff(found[: top + 1]) > 0).all()
    assert (np.diff(found[top:]) <= 1e-12).all()
    assert Schedule.parse(str(schedule)) == schedule
    over = schedule.over(steps)
    assert [over(k) for k in (0, steps - 1, steps)] == [found[0], found[-1], found[-1]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("linnear", "unknown schedule 'linnear'; did you mean 'linear'"),
        ("linear(warm=3)", "has no option 'warm'; did you mean 'warmup'"),
        ("linear(warmup=x)", "needs a number for warmup, got 'x'"),
        ("linear(warmup=1.5)", "a share of the steps below 1 or a whole number of them, got warmup=1.5"),
        ("linear(warmup=-1)", "got warmup=-1.0"),
        ("wsd(decay=0)", "0 < decay"),
        ("linear(decay=0.5)", "has no decay"),
        ("constant(floor=0.5)", "has no floor"),
        ("cosine(floor=2)", "0 <= floor <= 1, got floor=2.0"),
        ("linear(", "is not a schedule"),
        ("", "is not a schedule"),
    ],
)
def test_what_is_no_schedule_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        Schedule.parse(text)


def test_a_schedule_longer_than_its_run_is_refused() -> None:
    with pytest.raises(ValueError, match="longer than the run: a warm-up of 100 steps and a decay of 50 need at least"):
        Schedule("wsd", warmup=100, decay=50).factors(120)
    with pytest.raises(ValueError, match="needs more than 100 steps, got 100"):
        Schedule("linear", warmup=100).factors(100)


def test_an_option_of_a_schedule_is_given_once() -> None:
    with pytest.raises(ValueError, match="gives warmup twice"):
        Schedule.parse("linear(warmup=0.05,warmup=0.5)")
