"""Rows that are stored are found again by their digests: what a digest is, written out."""

from __future__ import annotations

import hashlib

from memgrad.experiments.planning.recipe import Recipe
from memgrad.experiments.planning.runs import Run


def test_a_digest_is_the_hash_of_the_attributes_in_alphabetical_order() -> None:
    """Whatever the order of the attributes in the code, and of the options in a specification."""
    run = Run("p", "f", 100, None, 8, 20, (0, 10, 20), ("loss",), Recipe.of("HeavyBall", momentum=0.8), 0.1, 0)
    text = (
        '{"batch": 8, "dtype": null, "evaluate_at": [0, 10, 20], "examples": 100, "fingerprint": "f", "lr": 0.1, '
        '"metrics": ["loss"], "numerics": 1, "optimizer": "HeavyBall", "options": {"decoupled_weight_decay": false, '
        '"momentum": 0.8, "state_dtype": null, "viscosity": null, "weight_decay": 0.0}, "problem": "p", "seed": 0, '
        '"steps": 20}'
    )
    assert run.digest == hashlib.sha256(text.encode()).hexdigest()[:32]
