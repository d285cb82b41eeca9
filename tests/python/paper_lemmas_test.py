"""Lemmas of H2O and Scissorhands that are steps of proofs, on drawn examples.

analysis/papers.md says of each what is checked here.
"""

from itertools import combinations
from math import e, exp

import numpy as np
import pytest

SEEDS = range(20)


def covered(sets, weights):
    """A monotone submodular function of the sets chosen: the weight of what they cover."""

    def value(chosen):
        return sum(weights[element] for element in set().union(*(sets[j] for j in chosen)))

    return value


def greedy(value, ground, size, noise):
    """Corollary D.18's algorithm: adds what an oracle, off by `noise`, says adds the most."""
    chosen = ()
    for _ in range(size):
        gains = {
            j: value((*chosen, j)) - value(chosen) + noise() for j in ground if j not in chosen
        }
        chosen = (*chosen, max(gains, key=gains.get))
    return chosen


def drawn_cover(random):
    """Weighted coverage: greed takes three blocks, copies and small sets tempt other rules."""
    blocks = [set(range(12)), set(range(12, 21)), set(range(21, 30))]
    small = [set(random.integers(0, 30, 2).tolist()) for _ in range(4)]
    sets = [blocks[0], blocks[0], *blocks, *small]
    return covered(sets, random.uniform(0.9, 1, 30)), range(len(sets))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_greedy_choice_with_an_inexact_oracle_loses_as_little_as_corollary_d18_says(seed):
    random = np.random.default_rng(seed)
    value, ground = drawn_cover(random)
    epsilon, size = 0.1, 3
    best = max(value(chosen) for chosen in combinations(ground, size))
    bound = (1 - 1 / e) * best - size * (2 - 1 / e) * epsilon
    assert value(greedy(value, ground, size, lambda: random.uniform(-epsilon, epsilon))) >= bound
    # What is not greedy misses it: the sets that are worth most, or least, by themselves.
    by_worth = sorted(ground, key=lambda j: value((j,)))
    assert value(by_worth[-size:]) < bound
    assert value(by_worth[:size]) < bound


@pytest.mark.parametrize("seed", SEEDS)
def test_a_function_near_f_finds_a_set_nearly_as_good_as_lemma_d19_says(seed):
    # S_i is the cache, i the new token; candidates differ from S_i + i by one token.
    random = np.random.default_rng(seed)
    n, cache, epsilon = 12, list(range(8)), 3.0
    worth = random.uniform(0, 1, n)
    candidates = [set(cache) | {8}]
    candidates = [candidates[0] - {token} for token in candidates[0]]
    exact = [sum(worth[list(one)]) for one in candidates]
    # As far off as the premise lets it be, so that the best candidate often is not taken.
    near = exact + random.choice([-1, 1], len(exact)) * epsilon / (2 * n)
    # The premise gives a loss of at most epsilon / n, which is within the lemma's epsilon.
    bound = max(exact) - epsilon / n
    assert exact[int(np.argmax(near))] >= bound - 1e-12
    assert min(exact) < bound


def hessian(a, b, w, x):
    """Of L = 0.5 |f - b|^2 + <u, 1> + 0.5 |diag(w) A x|^2, by differences of its gradient."""

    def gradient(x):
        u = np.exp(a @ x)
        f = u / u.sum()
        c = f - b
        return a.T @ (f * c - f * (f @ c) + u + w**2 * (a @ x))

    step = 1e-5
    columns = [
        (gradient(x + step * axis) - gradient(x - step * axis)) / (2 * step)
        for axis in np.eye(len(x))
    ]
    return np.array(columns)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_hessian_changes_no_faster_than_lemma_d48_says(seed):
    random = np.random.default_rng(seed)
    n, d, radius = 6, 3, 1.0
    a = random.normal(size=(n, d))
    a *= radius / np.linalg.norm(a, 2)
    b = random.dirichlet(np.ones(n))
    x, y = (drawn / max(1, np.linalg.norm(drawn)) for drawn in random.normal(size=(2, d)))
    change = np.linalg.norm(hessian(a, b, np.ones(n), x) - hessian(a, b, np.ones(n), y), 2)
    assert change <= n**2 * exp(40 * radius**2) * np.linalg.norm(x - y)
    assert change <= n**2 * np.linalg.norm(x - y)  # the exponential is not needed here


def unit_rows(random, *shape):
    rows = random.normal(size=shape)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def near(random, x, distance):
    """Another unit vector that is at most `distance` away."""
    moved = x + 0.5 * distance * unit_rows(random, len(x))
    return moved / np.linalg.norm(moved)


def softmax(logits):
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


@pytest.mark.parametrize("seed", SEEDS)
def test_scissorhands_lemma_b1_holds_for_unit_vectors(seed):
    random = np.random.default_rng(seed)
    first = unit_rows(random, 5)
    second = near(random, first, 0.5)
    delta = 1 - first @ second
    y = random.normal(size=5)
    assert abs(first @ y - second @ y) <= np.sqrt(2 * delta) * np.linalg.norm(y) + 1e-12


def attention_difference(x, y, projection):
    """Left side of Lemma B.3: rows are tokens 1 .. t, the last of which asks."""
    t = len(x)
    scores = [softmax(tokens[-1] @ projection @ tokens[:-1].T / t) for tokens in (x, y)]
    return np.linalg.norm(scores[0] - scores[1])


@pytest.mark.parametrize("seed", SEEDS)
def test_scissorhands_lemma_b3_holds_where_no_token_differs_more_than_the_last(seed):
    random = np.random.default_rng(seed)
    t, d = 9, 4
    projection = 3 * random.normal(size=(d, d))
    x = unit_rows(random, t, d)
    y = np.array([near(random, token, 0.3) for token in x])
    delta = np.linalg.norm(x - y, axis=1).max()
    bound = 2 * np.sqrt(t - 1) / t * np.linalg.norm(projection, 2) * delta
    assert attention_difference(x, y, projection) <= bound


def test_scissorhands_lemma_b3_is_wrong_as_printed_where_only_earlier_tokens_differ():
    x = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    y = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    assert np.linalg.norm(x[-1] - y[-1]) == 0  # Delta_t, so that the printed bound is 0
    assert attention_difference(x, y, np.eye(2)) > 0.05


@pytest.mark.parametrize("seed", SEEDS)
def test_scissorhands_lemma_b5_bounds_how_much_the_mlp_stretches(seed):
    random = np.random.default_rng(seed)
    inner, outer = random.normal(size=(8, 4)), random.normal(size=(4, 8))

    def mlp(x):
        return x + outer @ np.maximum(inner @ x, 0)

    x, y = random.normal(size=(2, 4))
    stretch = 1 + np.linalg.norm(inner, 2) * np.linalg.norm(outer, 2)
    assert np.linalg.norm(mlp(x) - mlp(y)) <= stretch * np.linalg.norm(x - y)
