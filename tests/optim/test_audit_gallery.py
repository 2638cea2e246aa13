"""The audit gallery of the docs: what its tables say of torch and optax is what closed forms say."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "extensions"))

import audit_gallery as gallery

from memgrad import figures

STEPS = 30
K = np.arange(STEPS)


def name(row: gallery.Row) -> str:
    return f"{row.call} {row.where} {row.memory} {','.join(dict(row.options))} {row.note}"


# The rows whose weights are not those of the memory in the table, and by how much they are off.
DAMPENED = 0.9**K * (1 - 0.1 / (1 - 0.9 ** (K + 1)))  # the first gradient weighs 0.9^k, all else less in proportion
GAIN = 1 + 0.9 * (1 - 0.9 ** (K + 1)) / 0.1  # of Nesterov: g, and 0.9 times the sum
NESTEROV = 1.9 / GAIN - 0.1 / (1 - 0.9 ** (K + 1))  # what the newest gradient has too much
LOST = np.where(K == 0, 0, 2 / ((K + 1) * (K + 2)))  # the weight of the first gradient in linear memory


def expected_off(row: gallery.Row) -> Any:
    options = dict(row.options)
    if "dampening" in options:
        return DAMPENED
    if "nesterov" in options:
        return NESTEROV
    return LOST if row.before_step is gallery.set_momentum else 0


@pytest.mark.parametrize("row", gallery.TORCH, ids=name)
def test_a_row_of_torch_is_off_by_what_its_definition_says(row: gallery.Row) -> None:
    found, _ = gallery.audit_torch(row, STEPS)
    assert np.allclose(gallery.off_by(found.weights, row.memory), expected_off(row), atol=1e-9)


@pytest.mark.parametrize("row", gallery.OPTAX, ids=name)
def test_a_row_of_optax_is_off_by_what_its_definition_says(row: gallery.Row) -> None:
    found, _ = gallery.audit_optax(row, STEPS)
    assert np.allclose(gallery.off_by(found.weights, row.memory), expected_off(row), atol=3e-6)  # float32


def test_a_wrong_memory_in_a_row_is_noticed() -> None:
    row = gallery.Row("SGD", "step", "exp:0.8", {"momentum": 0.9})
    found, _ = gallery.audit_torch(row, STEPS)
    assert gallery.off_by(found.weights, row.memory).max() > 0.1
    assert "| 0 |" not in gallery.table([row], lambda row: gallery.audit_torch(row, STEPS))


def test_the_steps_in_the_table_are_those_of_closed_forms() -> None:
    steps = {row.call: gallery.audit_torch(row, STEPS)[1] for row in gallery.TORCH if not row.options}
    assert np.allclose(steps["RMSprop"], 1 / np.sqrt(1 - 0.99 ** (K + 1)), rtol=1e-6)
    assert np.allclose(steps["Adagrad"], 1 / np.sqrt(K + 1), rtol=1e-6)
    assert steps["Adadelta"][0] == pytest.approx(np.sqrt(1e-6 / (0.1 + 1e-6)), rel=1e-6)
    scheduled = next(row for row in gallery.TORCH if row.before_step is gallery.set_betas)
    found = gallery.audit_torch(scheduled, STEPS)[1]
    assert np.allclose(found[1:], 1 / (1 - (K[1:] / (K[1:] + 2)) ** (K[1:] + 1)), rtol=1e-6)


@pytest.mark.parametrize("weights", [[1.0, -1.0, 0.5], [1.0, -1.0], [0.0, 0.0]])
def test_weights_that_are_no_shares_are_not_drawn(weights: list[float]) -> None:
    with pytest.raises(ValueError, match=r"one sign.*'momentum'.*leave it out"):
        figures.audits({"momentum": np.array(weights)}, {}, exact={})


def test_weights_of_one_sign_are_drawn_up_to_rounding() -> None:
    figure = figures.audits({"ax": np.array([-1e-18, 0.0, 1.0])}, {"ax": np.ones(3)}, exact={})
    drawn = np.asarray(figure.axes[0].lines[0].get_ydata())
    assert drawn[0] == pytest.approx(1)
    assert np.isnan(drawn[1:]).all()  # a logarithmic axis has no place for zeros
