"""Policies written in Python decide and measure as the engine's own."""

import numpy as np
import pandas as pd
import pytest

import kvsim
import written_policies as written
from conftest import SAMPLE
from nightly import a_third_by_day, sample_of

# Decisions, and what only they decide: never rounded.
EXACT = [
    "trace_id", "sequence", "layer", "kv_head", "budget", "mode", "seed", "budget_request", "steps",
    "miss_rate", "token_accesses", "token_misses", "bound_violations", "evictions", "peak_tokens",
    "cache_bytes", "device", "kvsim_version", "ties",
]  # fmt: skip
STREAM = {}
PREFILL = {"mode": "prefill"}
ONCE = {"mode": "prefill", "eviction_interval": "never"}
INTERVAL = {"eviction_interval": 7}


def swept(policies, **options):
    chosen = {"layers": "0-1", "budgets": [9, "20%"], "threads": 2, **options}
    return kvsim.sweep(SAMPLE, policies, **chosen)


def same(policy, built_in, bit_for_bit, **options):
    """Compares the rows of two policies."""
    left, right = (swept(spec, **options) for spec in (policy, built_in))
    assert len(left) > 20
    differing = ["policy", "policy_code"]
    left, right = left.drop(columns=differing), right.drop(columns=differing)
    pd.testing.assert_frame_equal(left[EXACT], right[EXACT], check_exact=True)
    pd.testing.assert_frame_equal(left, right, check_exact=bit_for_bit, rtol=1e-5, atol=1e-6)


def under(protocols, pairs):
    """Pairs of policies with options: by night all, else each pair under every other protocol."""
    found = [
        (policy, built_in, options)
        for place, (policy, built_in) in enumerate(pairs)
        for options in sample_of(protocols[place % 2 :: 2], protocols)
    ]
    return pytest.mark.parametrize(("policy", "built_in", "options"), found, ids=str)


@a_third_by_day
@under(
    [STREAM, PREFILL, ONCE, INTERVAL],
    [
        ("written-h2o", "h2o"),
        ("written-h2o:recent=0.25", "h2o:recent=0.25"),
        ("compiled-h2o", "h2o"),
        ("written-window", "window"),
        ("written-tova", "tova"),
        ("written-tova:full=yes", "tova:score=full"),
        ("written-knorm", "knorm"),
        ("written-h2o+protect:first=2", "h2o+protect:first=2"),
        ("written-h2o@pyramid", "h2o@pyramid"),
        ("written-window@persistence", "window@persistence"),
        ("written-tova@adaptive", "tova@adaptive"),
    ],
)
def test_a_policy_that_the_engine_replays_by_kernels_is_decided_alike(policy, built_in, options):
    same(policy, built_in, bit_for_bit=False, **options)


@a_third_by_day
@under(
    [STREAM, PREFILL, INTERVAL],
    [
        ("written-h2o+quant:bits=4", "h2o+quant:bits=4"),
        ("compiled-h2o+quant:bits=4", "h2o+quant:bits=4"),
        ("written-tova:scope=layer", "tova:scope=layer"),
        ("written-topk", "topk"),
    ],
)
def test_a_policy_that_the_engine_replays_step_by_step_has_equal_rows(policy, built_in, options):
    same(policy, built_in, bit_for_bit=True, **options)


@pytest.mark.parametrize("options", [STREAM, PREFILL, ONCE], ids=str)
def test_a_compiled_update_and_one_of_numpy_have_equal_rows(options):
    same("compiled-h2o", "written-h2o", bit_for_bit=True, **options)


def test_other_policies_of_the_sweep_change_nothing():
    alone = swept(written.H2O, threads=1)
    together = swept(["h2o", written.H2O, "optimal", written.Window, "compiled-h2o"], threads=2)
    of_policy = together[together.policy == "written-h2o:recent=0.5"].reset_index(drop=True)
    pd.testing.assert_frame_equal(alone, of_policy, rtol=1e-5, atol=1e-6)
    assert (together.policy_code.groupby(together.policy).nunique() == 1).all()


def test_rows_do_not_depend_on_threads():
    frames = [swept([written.H2O, "tova"], threads=threads) for threads in (1, 3)]
    pd.testing.assert_frame_equal(*frames, check_exact=True)


def test_a_policy_for_the_prompt_alone_is_replayed_in_its_protocol():
    frame = swept([written.LastQuery, "snapkv:window=1,kernel=1"], **ONCE)
    assert (frame.peak_tokens > frame.budget).all()
    with pytest.raises(kvsim.UsageError, match=r"last-query scores a prompt.*--eviction-interval"):
        swept(written.LastQuery)


def test_queries_keys_and_scale_give_the_attention(monkeypatch):
    seen = []

    class Recomputes(kvsim.Policy):
        rules = kvsim.Rules(sees_queries=True)

        def update(self, step, scores):
            logits = self.scale * (step.queries @ step.keys.T)
            weights = np.exp(logits - logits.max(axis=1, keepdims=True))
            mean = (weights / weights.sum(axis=1, keepdims=True)).mean(axis=0)
            seen.append(np.abs(mean - step.attention).max())
            scores += step.attention

    swept(Recomputes, layers=0)
    assert len(seen) > 1000 and max(seen) < 1e-5


def test_a_nested_policy_has_the_curve_of_the_built_in_one():
    for policy, built_in in (("nested-tova", "tova:score=full"), ("written-window", "window")):
        left, right = (kvsim.curve(SAMPLE, spec, layers=0) for spec in (policy, built_in))
        differing = ["policy", "policy_code"]
        pd.testing.assert_frame_equal(
            left.drop(columns=differing), right.drop(columns=differing), check_exact=True
        )
    with pytest.raises(kvsim.UsageError, match="written-tova"):
        kvsim.curve(SAMPLE, "written-tova", layers=0)


def test_one_unit_is_replayed_step_by_step():
    chosen = {"budget": 9, "sequence": "held-out-text", "layer": 1, "kv_head": 0}
    mine, built_in = (kvsim.replay(SAMPLE, policy, **chosen) for policy in (written.H2O, "h2o"))
    np.testing.assert_array_equal(mine.evicted_after, built_in.evicted_after)


def test_the_listing_shows_where_a_policy_is_from():
    listing = kvsim.policies()
    (row,) = listing[listing.name == "written-h2o"].to_dict("records")
    assert row["keeps"] == "Recent tokens and those with the most accumulated attention."


def test_the_seed_is_that_of_the_unit():
    seeds = []

    class Draws(kvsim.Policy):
        def __init__(self, budget, seed):
            self.seed = seed

        def update(self, step, scores):
            if step.index == 0:
                seeds.append(self.seed)

    swept(Draws, seed=0, budgets=[9])
    first = set(seeds)
    assert len(first) == len(seeds)
    swept(Draws, seed=1, budgets=[9])
    assert first.isdisjoint(seeds[len(first) :])
