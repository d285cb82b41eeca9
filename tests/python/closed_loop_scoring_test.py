"""What the closed loop computes from logits and kept sets, by its definitions."""

import hashlib

import numpy as np
import pytest
import torch

from closed_loop_reference import scores
from kvsim.closed_loop.loops import Job
from kvsim.closed_loop.overlap import overlap
from kvsim.closed_loop.scoring import Scorer
from kvsim.model.model_id import model_id
from kvsim.model.spans import Span
from record_zoo import build

N, VOCABULARY = 20, 7


def job(*spans):
    ids = np.random.default_rng(5).integers(0, VOCABULARY, N).astype(np.int32)
    return Job("text", "", ids, 0, spans, "text")


def logits(seed):
    return np.random.default_rng(seed).normal(size=(N, VOCABULARY)).astype(np.float32) * 3


@pytest.mark.parametrize("first", [0, 8, N - 2])
@pytest.mark.parametrize("elements", [1, 40, 1 << 20])
@pytest.mark.parametrize("kept_bytes", [0, 1 << 20])
def test_scores_are_those_of_the_definitions(first, elements, kept_bytes, monkeypatch):
    monkeypatch.setattr("kvsim.closed_loop.scoring.ELEMENTS_AT_ONCE", elements)
    monkeypatch.setattr("kvsim.closed_loop.scoring.KEPT_BYTES", kept_bytes)
    full, other = logits(1), logits(2)
    score = Scorer(job(), torch.from_numpy(full), first).score(torch.from_numpy(other))
    expected = scores(full, other, job().ids, first)
    assert {name: getattr(score, name) for name in expected} == pytest.approx(expected, abs=1e-12)
    assert score.delta_nll == pytest.approx(expected["nll"] - expected["nll_full"], abs=1e-12)
    assert (score.steps, score.answers) == (N - first, 0)


def test_without_a_next_token_there_is_no_likelihood():
    score = Scorer(job(), torch.from_numpy(logits(1)), N - 1).score(torch.from_numpy(logits(2)))
    assert (score.nll, score.nll_full, score.delta_nll) == (None, None, None)
    assert score.kl_mean > 0 and score.steps == 1


def logits_for(right):
    """Logits that predict these tokens of the text, and no other."""
    ids = job().ids
    found = np.zeros((N, VOCABULARY), np.float32)
    for t in range(N - 1):
        found[t, ids[t + 1] if t + 1 in right else (ids[t + 1] + 1) % VOCABULARY] = 5
    return torch.from_numpy(found)


def test_an_answer_is_right_if_each_of_its_tokens_is_the_likeliest():
    spans = [
        Span(0, 2, "answer"), Span(4, 7, "answer"), Span(9, 10, "answer"), Span(12, 14, "needle"),
    ]  # fmt: skip
    everything = logits_for(set(range(N)))
    for right, count in (({1, 4, 5, 6, 9}, 3), ({1, 4, 6, 9}, 2), ({9}, 1), (set(), 0)):
        score = Scorer(job(*spans), everything, 0).score(logits_for(right))
        assert (score.answers, score.answers_right_full, score.answers_right) == (3, 3, count)


def test_only_answers_that_a_measured_step_predicts_count():
    spans = [Span(4, 7, "answer"), Span(9, 10, "answer"), Span(0, 1, "answer")]
    for first, count in ((0, 2), (5, 2), (6, 1), (8, 1), (9, 0)):
        score = Scorer(job(*spans), logits_for({9}), first).score(logits_for(set()))
        right = int(first < 9) if count else None
        assert (score.answers, score.answers_right_full) == (count, right)


def test_overlap_is_the_mean_of_what_sets_share():
    random = np.random.default_rng(3)
    n, steps = 12, np.arange(12)
    a, b = ({layer: np.minimum(steps + random.integers(0, 9, (2, n)), n) for layer in (1, 4)}
            for _ in range(2))  # fmt: skip
    for first in (0, 5):
        shares = []
        for layer in (1, 4):
            for head in range(2):
                for t in range(first, n):
                    of_a, of_b = (
                        {j for j in range(t + 1) if x[layer][head, j] > t} for x in (a, b)
                    )
                    either = len(of_a | of_b)
                    shares.append(len(of_a & of_b) / either if either else 1)
        assert overlap(a, b, first) == pytest.approx(np.mean(shares), abs=1e-12)
    assert overlap(a, a, 0) == 1


def test_the_model_id_is_a_digest_of_every_weight():
    model = build("llama").to(torch.bfloat16)
    lines = []
    for name, weight in model.state_dict().items():
        numbers = weight.contiguous().view(torch.int16).numpy().astype("<i2").tobytes()
        shape = ",".join(str(size) for size in weight.shape)
        lines.append(f"{name} bfloat16 {shape} {hashlib.sha256(numbers).hexdigest()}\n")
    expected = hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()
    assert model_id(model) == expected
    with torch.no_grad():
        model.model.norm.weight[3] += 1
    assert model_id(model) != expected
