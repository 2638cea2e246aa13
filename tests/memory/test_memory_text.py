"""Memories as text and data in both directions, and all bad input refused with its value, the rule and the way out."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_table import ROWS, Row, properties

from memgrad.memory import (
    CONSTANT,
    CUBIC,
    FAMILIES,
    LINEAR,
    QUADRATIC,
    SQUARE_ROOT,
    Exponential,
    FromDecays,
    Instantaneous,
    Logarithmic,
    Memory,
    Polynomial,
    PowerDecay,
    Sampled,
    Stretched,
)

# --- there and back --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [row for row in ROWS if row.is_data], ids=str)
@settings(properties, max_examples=40)
@given(data=st.data())
def test_text_and_data_give_the_same_memory_back(row: Row, data: st.DataObject) -> None:
    memory = data.draw(row.cases(legal=True)).memory
    assert Memory.parse(str(memory)) == memory
    assert Memory.parse(f"  {str(memory).upper()}\n") == memory
    assert Memory.from_dict(memory.to_dict()) == memory
    assert Memory.from_dict(json.loads(json.dumps(memory.to_dict()))) == memory


# The middle column is also what is written: changing it breaks every checkpoint and config.
TEXTS = [
    (Polynomial(2), "poly:2", {"family": "poly", "p": 2.0}),
    (Polynomial(0.1), "poly:0.1", {"family": "poly", "p": 0.1}),
    (Exponential(0.9), "exp:0.9", {"family": "exp", "beta": 0.9}),
    (Exponential(0.9, h=0.5), "exp:0.9,h=0.5", {"family": "exp", "beta": 0.9, "h": 0.5}),
    (Exponential.from_alpha(10, 1e-3), "exp:alpha=10,h=0.001", {"family": "exp", "alpha": 10.0, "h": 0.001}),
    (Exponential.from_alpha(1e-20), "exp:alpha=1e-20", {"family": "exp", "alpha": 1e-20}),
    (Instantaneous(), "inst", {"family": "inst"}),
    (Logarithmic(), "log", {"family": "log"}),
    (Logarithmic(h=0.25), "log:h=0.25", {"family": "log", "h": 0.25}),
    (Stretched(1.5), "stretch:1.5", {"family": "stretch", "alpha": 1.5}),
    (Stretched(1.5, h=2), "stretch:1.5,h=2", {"family": "stretch", "alpha": 1.5, "h": 2.0}),
    (PowerDecay(0.8), "power:0.8", {"family": "power", "c": 0.8}),
    (FromDecays([0, 0.5]), "decays:0,0.5", {"family": "decays", "b": [0.0, 0.5]}),
    (FromDecays([0]), "decays:0", {"family": "decays", "b": [0.0]}),
]


@pytest.mark.parametrize(("memory", "text", "data"), TEXTS, ids=[text for _, text, _ in TEXTS])
def test_the_forms_that_are_written_down(memory: Memory, text: str, data: dict[str, Any]) -> None:
    assert str(memory) == text
    assert Memory.parse(text) == memory
    assert memory.to_dict() == data
    assert Memory.from_dict(data) == memory


@pytest.mark.parametrize(
    ("text", "memory"),
    [
        ("constant", CONSTANT),
        ("square-root", SQUARE_ROOT),
        ("linear", LINEAR),
        ("quadratic", QUADRATIC),
        ("cubic", CUBIC),
        ("Linear", Polynomial(2)),
        ("p=2", Polynomial(2)),
        ("p=1.5", Polynomial(1.5)),
        ("p=e", Exponential(0.9)),
        ("p=e,beta=0.95", Exponential(0.95)),
        ("p=e,0.95", Exponential(0.95)),
        ("p=inf", Instantaneous()),
        ("poly:p=2", Polynomial(2)),
        ("exp:beta=0.9", Exponential(0.9)),
        ("exp:h=0.5,beta=0.9", Exponential(0.9, h=0.5)),
        ("stretch:h=2, alpha=1.5", Stretched(1.5, h=2)),
        ("poly:1e2", Polynomial(100)),
    ],
)
def test_other_spellings_are_understood(text: str, memory: Memory) -> None:
    assert Memory.parse(text) == memory


def test_the_named_rows_are_the_degrees_of_the_paper() -> None:
    # "order p - 1" of Table 2: t, t^1.5, t^2, t^3, t^4
    assert [row.p for row in (CONSTANT, SQUARE_ROOT, LINEAR, QUADRATIC, CUBIC)] == [1, 1.5, 2, 3, 4]


@pytest.mark.parametrize("family", [family for family in FAMILIES.values() if family is not Sampled])
def test_the_example_of_a_family_is_one(family: type[Memory]) -> None:
    assert type(Memory.parse(family.example)) is family


@settings(properties, max_examples=200)
@given(
    st.text(max_size=12)
    | st.builds(
        lambda name, rest: f"{name}{rest}",
        st.sampled_from([*FAMILIES, "p=", "p=e", "linear", ""]),
        st.text("0123456789.,:=-+e_inf alphbtc", max_size=12),
    )
    | st.builds(
        lambda name, words: f"{name}:{','.join(words)}",
        st.sampled_from(sorted(FAMILIES)),
        st.lists(
            st.sampled_from(["0", "0.5", "2", "nan", "inf", "1e-320", "1e400", "b=0", "b=0.5", "p=2", "h=1e-320"])
        ),
    )
)
def test_arbitrary_text_is_a_memory_or_a_value_error(text: str) -> None:
    result = memory_or_refusal(text)
    if isinstance(result, str):
        assert result[-1] in ".?", "an error is a sentence"
    else:
        assert Memory.parse(str(result)) == result
        assert (result.decay(0), result.fresh(0)) == (0, 1)


def memory_or_refusal(text: str) -> Memory | str:
    try:
        return Memory.parse(text)
    except ValueError as error:
        return str(error)


# --- refused ---------------------------------------------------------------------------------------------------------

NOT_POSITIVE = [0, -1, math.nan, math.inf, 0.0, -math.inf]
NOT_NUMBERS = [True, "2", None, 2j, [2.0], np.array([2.0])]


def rising(t: Any) -> Any:
    return t**2


def slope(t: Any) -> Any:
    return 2 * t


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    *((lambda p=p: Polynomial(p), ValueError, rf"finite degree p > 0, got p={p!r}\.") for p in NOT_POSITIVE),
    *((lambda p=p: Polynomial(p), TypeError, rf"real number p, got p={re.escape(repr(p))}") for p in NOT_NUMBERS),
    *((lambda b=b: Exponential(b), ValueError, rf"0 < beta < 1.*got beta={b}\.") for b in (1, 0, -0.1, 1.5, math.nan)),
    *((lambda b=b: Exponential(b), TypeError, "real number beta") for b in NOT_NUMBERS),
    *((lambda h=h: Exponential(0.9, h=h), ValueError, rf"time step h > 0, got h={h}") for h in NOT_POSITIVE),
    *((lambda a=a: Exponential.from_alpha(a), ValueError, rf"rate alpha > 0, got alpha={a}") for a in NOT_POSITIVE),
    *((lambda a=a: Exponential.from_alpha(a, a), ValueError, "neither 0 nor infinite") for a in (1e-200, 1e200)),
    (lambda: Exponential(0.9, h=1e-320), ValueError, "Exponential memory needs"),  # alpha = -log(beta)/h is infinite
    (lambda: Exponential.from_alpha(1.0, "1"), TypeError, "real number h, got h='1'"),
    *((lambda h=h: Logarithmic(h=h), ValueError, rf"Logarithmic.*h > 0, got h={h}") for h in NOT_POSITIVE),
    *((lambda a=a: Stretched(a), ValueError, rf"exponent alpha > 0, got alpha={a}") for a in NOT_POSITIVE),
    *((lambda a=a: Stretched(a), TypeError, "real number alpha") for a in NOT_NUMBERS),
    (lambda: Stretched(3, h=1e-200), ValueError, r"h\*\*alpha.*got h=1e-200, alpha=3"),
    (lambda: Stretched(3, h=1e200), ValueError, r"h\*\*alpha.*got h=1e\+200, alpha=3"),
    *((lambda c=c: PowerDecay(c), ValueError, rf"exponent c > 0, got c={c}") for c in NOT_POSITIVE),
    *((lambda c=c: PowerDecay(c), TypeError, "real number c") for c in NOT_NUMBERS),
    # memory functions
    (lambda: Sampled(lambda t: -t, lambda t: -1.0, 1.0), ValueError, r"must increase.*got -1\.0 at t=1\.0 \(step 1"),
    (lambda: Sampled(np.sin, np.cos, 0.1), ValueError, r"must increase.*at t=1\.7"),
    (lambda: Sampled(lambda t: t + 1, lambda t: 1.0, 1.0), ValueError, r"m\(0\) = 0, got m\(0\) = 1\.0; subtract it"),
    (lambda: Sampled(np.expm1, np.exp, 1.0), ValueError, r"finite, got inf at t=7.*FromDecays"),
    (lambda: Sampled(np.expm1, np.exp, 1.0, steps=710), ValueError, r"finite, got inf at t=710.0 \(step 710 of"),
    (lambda: Sampled(rising, lambda t: t, 1.0), ValueError, "dm must be the derivative of m"),
    (lambda: Sampled(rising, lambda t: 2 * t + 1e-3, 1.0), ValueError, "dm must be the derivative of m"),
    (lambda: Sampled(math.log1p, lambda t: 1 / (1 + t), 1.0), TypeError, r"numpy arrays.*np\.log1p instead of math"),
    (lambda: Sampled(rising, None, 1.0), TypeError, "two functions of time, got .*dm=None"),
    (lambda: Sampled(rising, slope, 0), ValueError, "time step h > 0, got h=0"),
    (lambda: Sampled(rising, slope, 1.0, steps=0), ValueError, "steps >= 1, got steps=0"),
    (lambda: Sampled(np.expm1, np.exp, 1.0, steps=100).decay(1000), ValueError, "overflows at step k=1000"),
    # decays
    (lambda: FromDecays([]), ValueError, "at least the decay b_0 = 0"),
    (lambda: FromDecays([0.5]), ValueError, r"b_0 = 0.*got b_0=0\.5"),
    (lambda: FromDecays(lambda k: 0.5), ValueError, r"b_0 = 0.*got b_0=0\.5"),
    (lambda: FromDecays([0, 1]), ValueError, r"in \[0, 1\), got b_1=1\.0"),
    (lambda: FromDecays([0, 0.5, -0.1]), ValueError, r"in \[0, 1\), got b_2=-0\.1"),
    (lambda: FromDecays([0, math.nan]), ValueError, r"in \[0, 1\), got b_1=nan"),
    (lambda: FromDecays([0, None]), TypeError, "must be a number.*got b_1=None"),
    (lambda: FromDecays([0, "0.5"]), TypeError, "must be a number.*got b_1='0.5'"),
    (lambda: FromDecays("0"), TypeError, "must be a number|sequence"),
    (lambda: FromDecays([False, 0.5]), TypeError, "must be a number.*got b_0=False"),
    (lambda: FromDecays(0.0), TypeError, r"FromDecays.*0\.0"),
    (lambda: FromDecays(lambda k: 0.5 * k).decay(2), ValueError, r"in \[0, 1\), got b_2=1\.0"),
    (lambda: FromDecays([0, 0.5]).decay(2), ValueError, r"2 decays, for the steps 0\.\.1, .*k=2; give it more"),
    (lambda: FromDecays([0, 0.5]).fresh(np.arange(3)), ValueError, "was asked for step k=2"),
    # data
    (lambda: Sampled(rising, slope, 1.0).to_dict(), ValueError, r"code, not data.*FromDecays\(memory\.decay\("),
    (lambda: FromDecays(lambda k: 0).to_dict(), ValueError, r"code, not data.*FromDecays\(memory\.decay\("),
    (lambda: Memory.from_dict({"family": "sampled"}), ValueError, "made of functions.*build it in code"),
    (lambda: Memory.from_dict({"p": 2.0}), ValueError, "table with a 'family'"),
    (lambda: Memory.from_dict("poly"), ValueError, "table with a 'family'.*got 'poly'"),
    (lambda: Memory.from_dict({"family": "poly", "q": 2.0}), ValueError, "gives q, but poly takes p"),
    (lambda: Memory.from_dict({"family": "poly", "p": "2"}), TypeError, "real number p, got p='2'"),
    (lambda: Memory.from_dict({"family": "decays", "b": 0.0}), TypeError, r"FromDecays.*0\.0"),
    (lambda: Memory.from_dict({"family": "exp", "beta": 0.9, "alpha": 1.0}), ValueError, "beta or alpha, not both"),
    # text
    (lambda: Memory.parse(2), TypeError, "string such as 'poly:2', got 2"),
    *((lambda text=text: Memory.parse(text), ValueError, "does not give p; .*'poly:2'") for text in ("poly", "poly:")),
    (lambda: Memory.parse("poly:x"), ValueError, "'poly:x' needs a number where it says 'x'; .*'poly:2'"),
    (
        lambda: Memory.parse("ploy:2"),
        ValueError,
        f"'ploy:2'; did you mean 'poly:2'.*Known.*{'.*'.join(FAMILIES)}.*linear",
    ),
    (lambda: Memory.parse("linaer"), ValueError, r"did you mean 'linear'\?"),
    (lambda: Memory.parse("qwertz"), ValueError, r"Known memories: poly, exp.* p=inf\.$"),
    (lambda: Memory.parse(""), ValueError, "unknown memory ''"),
    (lambda: Memory.parse("poly:2,3"), ValueError, r"gives 3\.0, but poly takes p"),
    (lambda: Memory.parse("poly:2,p=3"), ValueError, "gives p, but"),
    (lambda: Memory.parse("poly:p=2,p=3"), ValueError, "gives p twice"),
    (lambda: Memory.parse("inst:2"), ValueError, "inst takes no parameter"),
    (lambda: Memory.parse("poly:0"), ValueError, r"degree p > 0, got p=0\.0"),
    (lambda: Memory.parse("exp"), ValueError, "does not give beta; .*'exp:0.9'"),
    (lambda: Memory.parse("exp:1"), ValueError, r"0 < beta < 1.*got beta=1\.0"),
    (lambda: Memory.parse("p=x"), ValueError, "needs a number where it says 'x'"),
    (lambda: Memory.parse("p=0"), ValueError, r"got p=0\.0"),
    (lambda: Memory.parse("p=2,beta=0.9"), ValueError, r"write p=2, p=inf, p=e or p=e,beta=0\.95"),
    (lambda: Memory.parse("decays:b=0"), ValueError, "decays"),
    (lambda: Memory.parse("sampled:f"), ValueError, "made of functions.*build it in code"),
]


@pytest.mark.parametrize(
    ("attempt", "error", "message"), REFUSED, ids=[f"{i}: {row[2]}" for i, row in enumerate(REFUSED)]
)
def test_bad_input_is_refused_with_the_value_and_the_rule(
    attempt: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"(?s){message}"):
        attempt()


@pytest.mark.parametrize("t", [True, np.True_, np.array([1.0]) > 0, torch.ones(2) > 0], ids=repr)
@pytest.mark.parametrize("name", ["m", "dm", "rate"])
def test_a_boolean_is_no_time(name: str, t: Any) -> None:
    with pytest.raises(TypeError, match="a time t must be a real number, got the boolean t="):
        getattr(Memory.parse("poly:2"), name)(t)


BAD_STEPS: list[tuple[Any, type[Exception], str]] = [
    (-1, ValueError, "integer >= 0, got k=-1"),
    (2.5, ValueError, r"integer >= 0, got k=2\.5"),
    (math.nan, ValueError, "integer >= 0, got k=nan"),
    (math.inf, ValueError, "integer >= 0, got k=inf"),
    (True, TypeError, "boolean k=True"),
    ("3", TypeError, "got '3' of type str"),
    (None, TypeError, "got None of type NoneType"),
    ([1, 2], TypeError, "of type list"),
    (np.float64(0.5), ValueError, r"got k=.*0\.5"),
    (np.array([3, -2]), ValueError, "got k=.*-2.* among them"),
    (np.array([0.5, 1.0]), ValueError, r"got k=.*0\.5.* among them"),
    (np.array([math.nan]), ValueError, "nan"),
    (np.array([True]), TypeError, "boolean"),
    (np.array(["3"]), TypeError, "dtype"),
    (np.array([1j]), TypeError, "dtype complex128"),
    (torch.tensor([True]), TypeError, "boolean"),
    (jnp.array([True]), TypeError, "boolean"),
]


@pytest.mark.parametrize(("k", "error", "message"), BAD_STEPS, ids=[repr(row[0])[:20] for row in BAD_STEPS])
@pytest.mark.parametrize("memory", [Polynomial(2), Exponential(0.9), FromDecays([0, 0.5])], ids=str)
def test_what_is_not_a_step_count_is_refused(memory: Memory, k: Any, error: type[Exception], message: str) -> None:
    for ask in (memory.decay, memory.fresh, memory.weights, memory.passport):
        with pytest.raises(error, match=message):
            ask(k)


@pytest.mark.parametrize("k", [torch.tensor(-3), torch.tensor(2.5), np.array([1, 2]), np.array([3])], ids=repr)
def test_weights_and_passports_are_for_one_step(k: Any) -> None:
    for ask in (Polynomial(2).weights, Polynomial(2).passport):
        with pytest.raises((TypeError, ValueError), match="step count k"):
            ask(k)


def test_steps_past_the_end_of_a_sequence_are_nan_where_values_cannot_be_checked() -> None:
    for k in (torch.tensor([1, 2, -1]), jnp.array([1, 2, -1])):
        assert np.isnan(np.asarray(FromDecays([0, 0.5]).decay(k))).tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda m: m.m(-1.0), ValueError, r"t must be finite and >= 0, got t=-1\.0"),
        (lambda m: m.dm(math.nan), ValueError, "got t=nan"),
        (lambda m: m.m(math.inf), ValueError, "got t=inf"),
        (lambda m: m.rate(0), ValueError, r"t must be finite and > 0 \(m\(0\) = 0"),
        (lambda m: m.rate(np.array([1.0, 0.0])), ValueError, r"got t=0\.0"),
        (lambda m: m.m(True), TypeError, "boolean t=True"),
        (lambda m: m.m("1"), TypeError, "got '1' of type str"),
        (lambda m: m.influence(2.0, 1.0), ValueError, r"s <= t, got s=2\.0, t=1\.0"),
        (lambda m: m.influence(np.array([0.5, 2.0]), 1.0), ValueError, "s <= t"),
        (lambda m: m.influence(-1.0, 1.0), ValueError, r"time s must be .* >= 0, got s=-1\.0"),
        (lambda m: m.influence(0.0, 0.0), ValueError, "time t must be finite and > 0"),
    ],
)
@pytest.mark.parametrize("memory", [Polynomial(2), Exponential(0.9), Logarithmic(), Stretched(1.5)], ids=str)
def test_what_is_not_a_time_is_refused(
    memory: Memory, ask: Callable[[Memory], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ask(memory)


def test_a_long_text_form_is_read_in_one_pass() -> None:
    """The time grew with the square of the length: minutes for a drawn memory of some thousand decays."""
    decays = ",".join(["0", *(f"{k / (k + 2)!r}" for k in range(1, 20_000))])
    began = time.process_time()
    with pytest.raises(ValueError, match="unknown memory"):
        Memory.parse(f"inst + 1e+0*nothing:{decays}")
    assert time.process_time() - began < 5
