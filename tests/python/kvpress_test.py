"""Policies of presses keep what the presses of kvpress keep, and what they cannot is refused."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import torch
from kvpress import (
    AdaKVPress,
    BlockPress,
    ChunkKVPress,
    ChunkPress,
    CompactorPress,
    CriticalKVPress,
    DecodingPress,
    ExpectedAttentionPress,
    ExpectedAttentionStatsPress,
    FinchPress,
    KeyDiffPress,
    KeyRerotationPress,
    KnormPress,
    LagKVPress,
    LeverageScorePress,
    NonCausalAttnPress,
    ObservedAttentionPress,
    PrefillDecodingPress,
    PyramidKVPress,
    QFilterPress,
    RandomPress,
    ScorerPress,
    SnapKVPress,
    StreamingLLMPress,
    TOVAPress,
)

import kvsim
from conftest import SAMPLE
from kvsim.kvpress.press_inputs import call_press, put_in_halves
from nightly import a_third_by_day, sample_of

ONCE = {"mode": "prefill", "eviction_interval": "never"}
DECIDED = ["sequence", "layer", "kv_head", "budget", "mode", "token_misses", "evictions"]


def same_rows(policy, built_in, budgets=("10%", "20%"), **options):
    """Whether two policies keep the same tokens: rows that these decide are equal."""
    left, right = (
        kvsim.sweep(SAMPLE, [each], list(budgets), threads=1, **options)
        for each in (policy, built_in)
    )
    assert len(left) > 0
    pd.testing.assert_frame_equal(left[DECIDED], right[DECIDED])
    np.testing.assert_allclose(left.attention_recall, right.attention_recall, rtol=1e-9)


@a_third_by_day
@pytest.mark.parametrize(
    ("press", "built_in"),
    [
        (KnormPress(), "knorm"),
        (KeyDiffPress(), "keydiff"),
        (SnapKVPress(window_size=32), "snapkv:preset=code"),
        (SnapKVPress(window_size=16, kernel_size=3), "snapkv:window=16,kernel=3,pool=avg"),
        (ObservedAttentionPress(), "h2o:preset=kvpress"),
        (StreamingLLMPress(n_sink=7), "sink:sinks=7"),
        (ExpectedAttentionPress(), "expected-attention"),
        (
            ExpectedAttentionPress(epsilon=0.02, n_sink=2, n_future_positions=64),
            "expected-attention:epsilon=0.02,sinks=2,future=64",
        ),
        (
            ExpectedAttentionPress(use_covariance=False, use_vnorm=False),
            "expected-attention:covariance=no,values=no",
        ),
    ],
    ids=str,
)
def test_a_press_keeps_of_a_prompt_what_the_built_in_policy_keeps(press, built_in):
    same_rows(kvsim.from_kvpress(press), built_in, **sample_of({"layers": "1"}, {}), **ONCE)


@pytest.mark.parametrize(
    ("press", "built_in"),
    [(KeyDiffPress(), "keydiff"), (SnapKVPress(window_size=16), "snapkv:pool=avg")],
    ids=str,
)
def test_a_press_that_reads_what_the_cache_has_is_asked_at_every_overflow(press, built_in):
    same_rows(kvsim.from_kvpress(press), built_in, ["10%"], layers="1-2", heads="0")


def test_numbers_of_a_press_are_parameters_of_the_spec():
    policy = kvsim.from_kvpress(SnapKVPress(compression_ratio=0.7))
    assert policy.name == "kvpress-snapkv"
    same_rows("kvpress-snapkv:window_size=16", "snapkv:pool=avg", ["20%"], layers="1", **ONCE)
    frame = kvsim.sweep(SAMPLE, [policy], ["20%"], layers="1", **ONCE)
    assert set(frame.policy) == {"kvpress-snapkv:window_size=64,kernel_size=5"}


def test_a_press_can_be_given_a_name_and_is_copied():
    press = SnapKVPress(window_size=16)
    policy = kvsim.from_kvpress(press, name="mine")
    press.window_size = 40
    same_rows(policy, "snapkv:pool=avg", ["20%"], layers="1", **ONCE)
    assert policy.name == "mine"
    assert press.compression_ratio == 0


def test_a_press_sees_what_it_reads():
    def rules(press):
        return kvsim.from_kvpress(press).rules

    assert rules(KnormPress()) == kvsim.Rules()
    assert rules(SnapKVPress()) == kvsim.Rules()
    assert rules(LagKVPress()) == kvsim.Rules(sees_values=True)  # of texts beyond its lag
    assert rules(ObservedAttentionPress()) == kvsim.Rules(prompt_only=True)
    reads_queries = kvsim.Rules(
        prompt_only=True, sees_values=True, sees_queries=True, sees_rotation=True
    )
    assert rules(ExpectedAttentionPress()) == reads_queries
    assert rules(NonCausalAttnPress()) == reads_queries
    assert not rules(ExpectedAttentionPress(use_vnorm=False)).sees_values


@dataclass
class LongestValue(ScorerPress):
    power: float = 1.0

    def score(self, module, hidden_states, keys, values, attentions, kwargs):
        return values.norm(dim=-1) ** self.power


def test_a_press_of_ones_own_is_a_policy():
    policy = kvsim.from_kvpress(LongestValue())

    class Longest(kvsim.Policy):
        name = "longest-value-in-numpy"
        rules = kvsim.Rules(sees_values=True)

        def update(self, step, scores):
            scores[-1] = np.linalg.norm(step.values[-1])

    same_rows(policy, Longest, ["20%"], layers="1", **ONCE)
    assert policy.name == "kvpress-longestvalue"
    same_rows("kvpress-longestvalue:power=2", Longest, ["20%"], layers="1", **ONCE)


@pytest.mark.parametrize(
    ("press", "reason"),
    [
        (AdaKVPress(SnapKVPress()), "AdaKVPress: it shares a budget.*@adaptive; in_model=True"),
        (PyramidKVPress(), "PyramidKVPress: it shares a budget over layers.*@pyramid"),
        (CriticalKVPress(KnormPress()), "CriticalKVPress: it needs o_proj of the model; in_model"),
        (ExpectedAttentionStatsPress(), "it needs the number of the layer.*; in_model=True"),
        (ChunkPress(QFilterPress()), "ChunkPress: of its QFilterPress: it needs filters.*in_model"),
        (DecodingPress(KnormPress()), "target_size as the budget and its compression_interval"),
        (FinchPress(), "FinchPress: it needs the length of the question.*window_size"),
        (PrefillDecodingPress(KnormPress(), DecodingPress(KnormPress())), "prefilling_press alone"),
        (PrefillDecodingPress(PyramidKVPress()), "PyramidKVPress: it shares a budget over layers"),
        (ScorerPress(), "ScorerPress: it cannot score.*NotImplementedError"),
        ("knorm", "str: expected a press of kvpress"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_policy_cannot_do_is_refused_with_the_reason(press, reason):
    with pytest.raises(kvsim.UsageError, match=reason) as refused:
        kvsim.from_kvpress(press)
    assert "\n" not in str(refused.value)


@dataclass
class ReadsHiddenStates(ScorerPress):
    def score(self, module, hidden_states, keys, values, attentions, kwargs):
        return hidden_states.norm(dim=-1)[:, None]


@dataclass
class ReadsOutputProjection(ScorerPress):
    def score(self, module, hidden_states, keys, values, attentions, kwargs):
        return keys.norm(dim=-1) * module.o_proj.weight.norm()


def test_hidden_states_and_weights_are_refused():
    with pytest.raises(kvsim.UsageError, match=r"ReadsHiddenStates: it cannot score.*norm"):
        kvsim.from_kvpress(ReadsHiddenStates())
    with pytest.raises(kvsim.UsageError, match="ReadsOutputProjection: it needs o_proj"):
        kvsim.from_kvpress(ReadsOutputProjection())


def test_a_press_that_scores_a_prompt_is_refused_in_other_modes():
    policy = kvsim.from_kvpress(ExpectedAttentionPress())
    with pytest.raises(kvsim.UsageError, match="eviction-interval never"):
        kvsim.sweep(SAMPLE, [policy], ["20%"])


def test_a_cache_smaller_than_the_window_of_a_press_is_refused_in_its_words():
    policy = kvsim.from_kvpress(SnapKVPress(window_size=64))
    with pytest.raises(kvsim.UsageError, match=r"SnapKVPress: .*window size 64"):
        kvsim.sweep(SAMPLE, [policy], [20], layers="0", heads="0")


def replayed(policy, budget=77, **options):
    unit = {"sequence": "held-out-text", "layer": 1, "kv_head": 0}
    return kvsim.replay(SAMPLE, policy, budget, **unit, **(ONCE | options))


@pytest.mark.parametrize("press", [BlockPress(KnormPress()), KeyRerotationPress(KnormPress())])
def test_a_wrapper_keeps_what_the_press_in_it_keeps(press):
    policy = kvsim.from_kvpress(press)
    left, right = (replayed(each).evicted_after for each in (policy, "knorm"))
    np.testing.assert_array_equal(left, right)
    assert policy.rules.slot_positions == isinstance(press, KeyRerotationPress)
    assert policy.name == f"kvpress-{type(press).__name__[:-5].lower()}-knorm"


def test_a_press_of_chunks_keeps_no_more_than_the_budget():
    policy = kvsim.from_kvpress(ChunkKVPress(KnormPress(), chunk_length=20))
    kept = np.flatnonzero(replayed(policy).evicted_after[:384] >= 384)
    assert len(kept) == 64 and len(set(kept // 20)) == 4  # three whole ones and the last, of 4
    with pytest.raises(kvsim.UsageError, match="keeps 4 of 384 tokens, more than the budget of 3"):
        replayed(policy, 3)
    with pytest.raises(kvsim.UsageError, match="eviction-interval never"):
        replayed(policy, eviction_interval=1)


@pytest.mark.parametrize(
    "press",
    [RandomPress(), LeverageScorePress(sketch_dimension=4), CompactorPress(sketch_dimension=4)],
    ids=lambda press: type(press).__name__,
)
def test_what_a_press_draws_comes_from_the_seed(press):
    policy = kvsim.from_kvpress(press)
    before = torch.random.get_rng_state()
    first, again, other = (replayed(policy, seed=seed).evicted_after.tolist() for seed in (0, 0, 1))
    assert first == again and first != other
    assert torch.equal(torch.random.get_rng_state(), before)


def test_tova_of_kvpress_keeps_the_last_token_of_the_prompt():
    tova = kvsim.from_kvpress(TOVAPress())
    same_rows(tova, "tova+protect:first=0,last=1", ["20%"], **ONCE)


def turned(vectors, rotation):
    """[..., tokens, dim] rotated to their positions, as a model does."""
    pairs = len(rotation.inverse_frequency)
    out = vectors.copy()
    for pair, frequency in enumerate(rotation.inverse_frequency):
        a, b = (2 * pair, 2 * pair + 1) if rotation.interleaved else (pair, pair + pairs)
        angle = frequency * np.arange(vectors.shape[-2])
        cosine = rotation.attention_factor * np.cos(angle)
        sine = rotation.attention_factor * np.sin(angle)
        out[..., a] = vectors[..., a] * cosine - vectors[..., b] * sine
        out[..., b] = vectors[..., b] * cosine + vectors[..., a] * sine
    return out


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("pairs", [4, 2])
def test_rotation_of_any_style_is_undone_for_a_press(interleaved, pairs):
    random = np.random.default_rng(3)
    queries = random.standard_normal((2, 60, 8)).astype(np.float32)
    keys = random.standard_normal((60, 8)).astype(np.float32)
    rotation = kvsim.Rotation(tuple(0.5**i for i in range(pairs)), interleaved, 1.3)
    recorded = turned(keys, rotation)
    back, ordered = put_in_halves(turned(queries, rotation), recorded, rotation)
    np.testing.assert_allclose(
        np.sort(back, axis=-1), np.sort(queries, axis=-1), rtol=1e-4, atol=1e-5
    )
    # One position to come: the press's logits are those of the mean query, rotated there.
    press = ExpectedAttentionPress(
        n_future_positions=1, n_sink=0, use_covariance=False, use_vnorm=False
    )
    found = call_press(press, ordered, ordered, queries=back, rotation=rotation)
    mean = np.repeat(queries.mean(1)[:, None], 61, axis=1)
    logits = turned(mean, rotation)[:, 60] @ recorded.T / np.sqrt(8)
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(found, shares.mean(0), rtol=1e-4)
