"""The transformer by hand against automatic differentiation and a plain formula; texts and how they are cut."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

from memgrad.experiments.planning.problem_choice import ProblemChoice, fingerprint_of_ours
from memgrad.problems import check_problem, datasets, get, passes
from memgrad.problems.transformer import Transformer

SMALL = {"layers": 2, "width": 12, "heads": 3, "context": 7, "held_out": 20}


def test_the_gradient_by_hand_is_that_of_automatic_differentiation() -> None:
    problem = get("char-transformer", sample=True, dtype=torch.float64, options=SMALL)
    parameters = problem.stacked_initial_parameters([1, 2, 3])
    for p in parameters.values():
        p.mul_(3.0)  # away from the start, where attention is flat
    shape = (3, 5, 7)
    inputs, targets = (data[:15].reshape(shape) for data in problem.train)
    mine = problem.stacked_gradient(parameters, inputs, targets)
    outputs = problem.stacked.outputs(parameters, inputs)  # type: ignore[union-attr]
    for run in range(3):
        own = {name: p[run] for name, p in parameters.items()}
        expected = passes.one_run(problem, own).gradient(inputs[run], targets[run])
        assert expected.keys() == mine.keys()
        for name, g in expected.items():
            torch.testing.assert_close(mine[name][run], g, rtol=1e-11, atol=1e-14, msg=name)
        torch.testing.assert_close(outputs[run], problem.outputs(own, inputs[run]), rtol=1e-11, atol=1e-13)
    shared = problem.stacked_gradient(parameters, inputs[0], targets[0])
    for name, g in problem.stacked_gradient(parameters, inputs[:1].expand(shape), targets[:1].expand(shape)).items():
        torch.testing.assert_close(shared[name], g, rtol=0, atol=0)


def test_the_model_is_its_formula_and_does_not_look_ahead() -> None:
    torch.manual_seed(0)
    model = Transformer(11, layers=1, width=8, heads=2, context=5).double()
    tokens = torch.randint(0, 11, (1, 5), dtype=torch.uint8)
    layer = model.layers[0]
    normal = lambda h: (h - h.mean(-1, keepdim=True)) / (h.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()  # noqa: E731
    h = model.token[tokens[0].long()] + model.position
    q, k, v = (normal(h) @ w.T for w in layer.attend.weight.split(8))
    rows = []
    for i in range(5):  # position by position and head by head, over the positions so far
        heads = []
        for part in (slice(0, 4), slice(4, 8)):
            p = torch.softmax(torch.stack([q[i, part] @ k[j, part] / 2 for j in range(i + 1)]), 0)
            heads.append(sum(p[j] * v[j, part] for j in range(i + 1)))
        rows.append(torch.cat(heads))
    h = h + torch.stack(rows) @ layer.join.weight.T
    h = h + torch.clamp(normal(h) @ layer.up.weight.T, min=0) @ layer.down.weight.T
    torch.testing.assert_close(model(tokens)[0], normal(h) @ model.head.weight.T, rtol=1e-10, atol=1e-12)
    changed = tokens.clone()
    changed[0, 3] = (changed[0, 3] + 1) % 11
    assert torch.equal(model(tokens)[0, :3], model(changed)[0, :3])


def test_the_problem_passes_every_check_and_starts_at_the_entropy_of_equal_bytes() -> None:
    problem = get("char-transformer", sample=True, options=SMALL)
    report = check_problem(problem)
    assert not [each for each in report.findings if each.status == "failed"], str(report)
    values = problem.evaluate(problem.initial_parameters(0), metrics=["validation_loss", "test_loss"])
    tokens = problem.initial_parameters(0)["token"].shape[0]
    assert values["validation_loss"] == pytest.approx(np.log(tokens), abs=0.3)
    assert values["validation_loss"] != values["test_loss"]


def test_examples_follow_one_another_and_targets_are_the_next_bytes(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_bytes(bytes(range(33, 123)) * 40)  # 3,600 bytes
    problem = get("char-transformer", options={"data": str(path), "context": 8})
    inputs, targets = problem.train
    assert inputs.shape == ((3240 - 1) // 8, 8)
    assert inputs.flatten()[1:].equal(targets.flatten()[:-1])
    assert inputs[0].tolist() == list(range(8))
    assert problem.validation is not None
    assert problem.validation[0][0, 0] == 3240 % 90
    first = fingerprint_of_ours(ProblemChoice("char-transformer", options=(("data", str(path)),)))
    path.write_bytes(b"!" + path.read_bytes()[1:-1] + b"?")
    assert fingerprint_of_ours(ProblemChoice("char-transformer", options=(("data", str(path)),))) != first


def test_the_sample_is_the_beginning_of_the_text_and_is_split_by_position() -> None:
    text = datasets.load_text("sotu", sample=True)
    whole = np.concatenate([text.train, text.validation, text.test]).tobytes()
    assert len(whole) == 300_000
    assert whole.startswith(b"Fellow-Citizens of the Senate and House of Representatives")
    assert (
        hashlib.sha256(whole).hexdigest() == hashlib.sha256(datasets_sample()).hexdigest()
    )  # and nothing was lost by splitting
    assert repr(text) == "<Text sotu (a sample): 270,000 + 15,000 + 15,000 bytes>"


def datasets_sample() -> bytes:
    from importlib.resources import files

    with np.load(str(files("memgrad.problems.datasets") / "samples" / "sotu.npz")) as archive:
        return bytes(archive["text"].tobytes())


@pytest.mark.slow
def test_complete_texts_have_their_digests() -> None:
    """Only where they are in the cache: getting them needs a registry."""
    for name in datasets.text_names():
        if datasets.path(name).exists():
            assert datasets.verify(name) == "complete"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"some text\0and more" * 100, "is binary, not a text: byte 9 is 0"),
        (b"\xff\xfe" * 100, "is not a text in UTF-8: .* at byte 0"),
        (b"too short", r"needs a text of at least 660 bytes for context=32: .* has 9\."),
        (b"no validation text " * 30, r"at least 660 bytes .* has 570\."),
    ],
)
def test_what_is_no_text_is_refused_by_key_file_rule_and_value(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=words) as refused:
        get("char-transformer", options={"data": str(path)})
    assert f"data={str(path)!r}" in str(refused.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"data": "nowhere.txt"}, "the text file nowhere.txt cannot be read: No such file"),
        ({"data": "sotuu"}, "unknown text 'sotuu'; did you mean 'sotu'"),
        ({"widht": 3}, "has no option 'widht'; did you mean 'width'"),
        ({"width": 10, "heads": 3}, "width=10 and heads=3"),
        ({"layers": 0}, "layers"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        get("char-transformer", options=options)


def test_a_text_is_not_loaded_as_a_table_and_has_no_sample_if_it_has_none() -> None:
    with pytest.raises(ValueError, match=r"is a text: load_text\('sotu'\) loads it"):
        datasets.load("sotu")
    with pytest.raises(ValueError, match="'shakespeare' has no sample; sotu has one"):
        datasets.load_text("shakespeare", sample=True)
