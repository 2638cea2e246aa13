"""Numbers in text forms, and what a ramp refuses."""

from __future__ import annotations

import pytest

from memgrad.memory import Instantaneous, Mixture, Polynomial, RampedExponential


@pytest.mark.parametrize(
    ("text", "degree"), [("inst + poly:1e+2", 100.0), ("poly:1e+2 + inst", 100.0), ("poly:2.e+1+inst", 20.0)]
)
def test_the_sign_of_an_exponent_does_not_separate_parts(text: str, degree: float) -> None:
    assert {part.memory for part in Mixture.parse(text)} == {Instantaneous(), Polynomial(degree)}


@pytest.mark.parametrize(("name", "value"), [("beta", 1.0), ("beta", 1.5), ("beta", 0.0), ("start", 1.0)])
def test_a_ramp_refuses_decays_outside_of_0_and_1_by_name(name: str, value: float) -> None:
    decays = {"beta": 0.99, "start": 0.9} | {name: value}
    with pytest.raises(ValueError, match=rf"needs 0 < {name} < 1, got {name}={value}"):
        RampedExponential(decays["beta"], start=decays["start"], steps=10)
