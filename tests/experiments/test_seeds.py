"""What a seed means, written down: rows of one version stand beside those of another only if it means the same."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from memgrad.dynamics import GradientFlow, simulate
from memgrad.experiments.digests import seed_from
from memgrad.experiments.planning.problem_choice import ProblemChoice, facts_about, fingerprint_of_ours, share_of
from memgrad.experiments.training.minibatch_order import MinibatchOrder
from memgrad.problems import Problem
from memgrad.problems.passes import drawn

X = torch.arange(20.0).reshape(20, 1)
PROBLEM = Problem("p", (X, X), lambda: nn.Linear(1, 1), nn.functional.mse_loss)


@pytest.mark.parametrize(
    ("words", "seed"),
    [
        (("initial", "p", 0), 3454672275576000328),
        (("order", "p", 3, 1), 927808557626780977),
        (("noise", "p", 2), 1197929662147004502),
    ],
)
def test_words_make_a_seed_of_63_bits_of_their_hash(words: tuple[str | int, ...], seed: int) -> None:
    text = "\0".join(map(str, words)).encode()
    assert seed == int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 1  # as the docstring says
    assert seed_from(*words) == seed


def test_the_order_of_minibatches_is_the_one_it_always_was() -> None:
    order = MinibatchOrder("p", examples=8, batch_size=4, seeds=[3])
    assert [order.at(k)[0].tolist() for k in range(4)] == [[7, 1, 2, 5], [4, 6, 0, 3], [1, 7, 2, 6], [3, 4, 5, 0]]


def test_the_initial_parameters_of_a_seed_are_those_they_always_were() -> None:
    found = PROBLEM.initial_parameters(seed_from("initial", "p", 0))
    assert {name: p.item().hex() for name, p in found.items()} == {
        "weight": "0x1.6c6fa00000000p-4",
        "bias": "0x1.5409580000000p-2",
    }


def test_a_share_is_drawn_at_random_and_is_the_one_it_always_was() -> None:
    """Not the first rows, which a sorted data set would make one class; sorted, so that nothing else changes."""
    inputs, targets = share_of(PROBLEM, 6).train
    assert inputs[:, 0].tolist() == targets[:, 0].tolist() == [3, 9, 10, 16, 18, 19]
    assert drawn(PROBLEM, 5)[0][:, 0].tolist() == [4, 5, 13, 19, 7]


def test_every_example_is_as_likely_to_be_in_a_share() -> None:
    """Over problems of other names: 400 draws of 5 of 20; each count is binomial with the deviation 8.7, 5 of these."""
    counts = np.zeros(20)
    for i in range(400):
        share = share_of(Problem(f"p{i}", (X, X), PROBLEM.make_model, PROBLEM.loss), 5)
        counts[share.train[0][:, 0].long().numpy()] += 1
    assert np.abs(counts - 100).max() < 44


def test_simulated_paths_take_their_noise_from_streams_of_8192_paths_each() -> None:
    """Brownian motion at t = 1 from one step; the streams are numpy's, and path 8192 is the first of the second."""
    flow = GradientFlow(gradient=lambda x: 0 * x, noise=1.0)
    options = {"paths": 8195, "dt": 1.0, "seed": 5, "scheme": "euler-maruyama", "keep_paths": True}
    found = simulate(flow, [1.0], 0.0, **options).x[-1, :, 0]
    known = {0: 0.15761234320110798, 1: -0.027401051761102527, 8191: -0.5093284088439861, 8192: 0.08702733088261211}
    assert {i: found[i] for i in known} == pytest.approx(known, rel=1e-12)
    streams = [np.random.default_rng(np.random.SeedSequence(5, spawn_key=(i,))) for i in range(2)]
    normals = np.concatenate([streams[0].standard_normal(8192), streams[1].standard_normal(3)])
    np.testing.assert_allclose(found, -normals, rtol=1e-12)


# --- fingerprints ----------------------------------------------------------------------------------------------------


def test_a_sample_has_another_fingerprint_than_the_complete_data() -> None:
    assert fingerprint_of_ours(ProblemChoice("fashion-mlp")) == "d1a9b035247f201afceee83d6e41340e"
    assert fingerprint_of_ours(ProblemChoice("fashion-mlp", sample=True)) == "826e1426774938f86974df3741dff5b8"
    assert fingerprint_of_ours(ProblemChoice("logistic")) == "85844c58f8f92857aef70d5a1927a178"


def test_an_l2_term_that_the_source_does_not_say_is_in_the_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "import json, pathlib, torch\nfrom memgrad.problems import Problem\n"
        "def problem():\n"
        "    l2 = json.loads((pathlib.Path(__file__).parent / 'l2.json').read_text())\n"
        "    x = torch.ones(4, 1)\n"
        "    return Problem('own', (x, x), lambda: torch.nn.Linear(1, 1), torch.nn.functional.mse_loss, l2=l2)\n"
    )
    found = []
    for l2 in (0.0, 0.1, 0.0):
        (tmp_path / "l2.json").write_text(json.dumps(l2))
        choice = ProblemChoice(f"{tmp_path}/own.py:problem")
        found.append(facts_about(choice, choice.load()).fingerprint)
    assert found[0] == found[2] != found[1]
