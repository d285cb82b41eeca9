"""Presses that run in a model keep what they keep in kvpress, and that is imposed."""

import copy
from dataclasses import dataclass

import kvpress
import numpy as np
import pytest
import torch
from kvpress import (
    AdaKVPress,
    BasePress,
    CriticalKVPress,
    ExpectedAttentionStatsPress,
    FinchPress,
    KnormPress,
    LUKVPress,
    MergingPress,
    PrefillDecodingPress,
    QFilterPress,
    ScorerPress,
    SnapKVPress,
)
from kvpress.presses.expected_attention_with_stats import ExpectedAttentionStats
from kvpress.presses.fastkvzip_press import FastKVzipGate
from kvpress.presses.kvzap_press import KVzapConfig, KVzapModel
from transformers import DynamicCache

import kvsim
from closed_loop_reference import causal, logits_of, replayed, scores
from kvpress_presses import PRESSES, answer, example
from nightly import a_third_by_day
from record_zoo import build, tokens

LENGTH, PROMPT, BUDGET = 110, 100, 40
ONCE = {"mode": "prefill", "eviction_interval": "never"}
LAYERS, HEADS = 3, 2
WITHOUT_BUDGET = (
    "ComposedPress DMSPress DuoAttentionPress PerLayerCompressionPress SimLayerKVPress"
).split()
# Of a trace, too: what they keep of a KV head follows from this head alone, without chance.
DECIDES_PER_HEAD = (
    "BlockPress CURPress CapPress ChunkPress ExpectedAttentionPress KeyDiffPress KnormPress "
    "LagKVPress NonCausalAttnPress ObservedAttentionPress PrefillDecodingPress SnapKVPress "
    "StreamingLLMPress"
).split()


@pytest.fixture(scope="module")
def model():
    return build("llama")


@pytest.fixture(scope="module")
def trace(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("press") / "t.h5"
    with kvsim.recording(model, path, dtype="float32", prompt_length=PROMPT):
        model(tokens(LENGTH))
    return kvsim.Trace(path)


@pytest.fixture
def parts_from_no_network(model, monkeypatch):
    """What presses load of the model's authors, made up."""
    config = model.config
    torch.manual_seed(5)
    dim = config.hidden_size // config.num_attention_heads
    filters = torch.randn(LAYERS, HEADS, dim)
    monkeypatch.setattr(QFilterPress, "load_q_filters", staticmethod(lambda _: filters))
    networks = KVzapModel(
        KVzapConfig(input_dim=config.hidden_size, output_dim=HEADS, n_modules=LAYERS)
    )
    monkeypatch.setattr(KVzapModel, "from_pretrained", lambda _: networks)
    pattern = 4, 16, torch.rand(LAYERS, HEADS).numpy()
    pattern_of = staticmethod(lambda _: pattern)
    monkeypatch.setattr(kvpress.DuoAttentionPress, "load_attention_pattern", pattern_of)
    group = config.num_attention_heads // HEADS
    gates = [
        FastKVzipGate(layer, config.hidden_size, HEADS, group, torch.float32)
        for layer in range(LAYERS)
    ]
    monkeypatch.setattr(
        kvpress.presses.fastkvzip_press, "load_fastkvzip", lambda **_: copy.deepcopy(gates)
    )
    stats = ExpectedAttentionStats(LAYERS, config.num_attention_heads, dim, "none", "none", 1, 1, 4)
    stats.query_mean.data.normal_()
    root = torch.randn(dim, dim)
    stats.query_cov.data[:] = root @ root.T / dim
    monkeypatch.setattr(ExpectedAttentionStatsPress, "_maybe_load_stats_from_hub", lambda *_: stats)
    shares = np.random.default_rng(0).dirichlet(np.ones(LAYERS * HEADS), 99) * LAYERS * HEADS
    ratios = np.arange(1, 100)[:, None, None] / 100
    curves = np.minimum(shares.reshape(99, LAYERS, HEADS) * ratios, 0.95).astype(np.float32)
    monkeypatch.setattr(LUKVPress, "_load_budget_curves", lambda *_: curves)


def kept_by_kvpress(press, model, ids):
    """Tokens of each layer and KV head, by the press's hooks on a cache of transformers."""
    full = DynamicCache(config=model.config)
    cache = DynamicCache(config=model.config)
    own_hook = press.forward_hook

    def hook(module, inputs, arguments, output):
        # Under the names of the release of transformers for which kvpress is made.
        named = {"past_key_values": cache, "cache_position": torch.arange(ids.shape[1])}
        return own_hook(module, inputs, arguments | named, output)

    press.forward_hook = hook
    torch.manual_seed(0)
    # FinchPress alone does more in its own: it looks for the question by a token of the text.
    hooked = BasePress.__call__ if isinstance(press, FinchPress) else type(press).__call__
    with torch.no_grad():
        model(ids, cache=full)
        with hooked(press, model):
            model(ids, cache=cache)
    del press.forward_hook
    return [
        _kept_of(block.self_attn, full.layers[at].keys[0], cache.layers[at].keys[0])
        for at, block in enumerate(model.model.layers)
    ]


def _kept_of(module, full, left):
    masked = getattr(module, "masked_key_indices", None)
    heads = []
    for head in range(HEADS):
        same = (left[head][:, None] == full[head][None]).all(-1)
        assert (same.sum(1) == 1).all()
        kept = same.int().argmax(1).tolist()
        hidden = set() if masked is None else set(masked[2][masked[1] == head].tolist())
        heads.append(sorted(token for row, token in enumerate(kept) if row not in hidden))
    return heads


def expected_of(press, model, budget=BUDGET):
    """The same at larger and larger ratios, until no more than the budget is kept."""
    ids, asked = tokens(LENGTH)[:, :PROMPT], budget
    while True:
        set_ratio(press, 1 - (asked + 0.5) / PROMPT)
        kept = kept_by_kvpress(press, copy.deepcopy(model), ids)
        total = sum(len(head) for layer in kept for head in layer)
        excess = -(-total // (LAYERS * HEADS)) - budget
        if excess <= 0 or not takes_budget(press):
            return kept
        asked -= excess


def set_ratio(press, ratio):
    inner = press.prefilling_press if isinstance(press, PrefillDecodingPress) else press
    if takes_budget(inner):
        inner.compression_ratio = ratio


def takes_budget(press):
    return type(press).__name__ not in WITHOUT_BUDGET


def kept_by_kvsim(policy, trace, budget=BUDGET):
    left = replayed(trace, policy, budget, **ONCE)
    return [[np.flatnonzero(head[:PROMPT] >= PROMPT).tolist() for head in layer] for layer in left]


def attending_eagerly():
    model = build("llama")
    model.set_attn_implementation("eager")
    return model


@a_third_by_day
@pytest.mark.parametrize("name", [name for name in PRESSES if answer(name, in_model=True) == "yes"])
def test_a_press_keeps_what_it_keeps_in_kvpress(name, model, trace, parts_from_no_network):
    if name == "ObservedAttentionPress":
        model = attending_eagerly()
    expected = expected_of(example(name), model)
    policy = kvsim.from_kvpress(example(name), in_model=True)
    policy.read_text(model, tokens(LENGTH)[0].int().numpy(), PROMPT)
    assert kept_by_kvsim(policy, trace) == expected
    assert any(len(head) < PROMPT for layer in expected for head in layer)
    if name in DECIDES_PER_HEAD:
        assert kept_by_kvsim(kvsim.from_kvpress(example(name)), trace) == expected


def test_finch_keeps_of_a_trace_what_it_keeps_in_kvpress(model, trace):
    press = example("FinchPress")
    press.rerotate_keys = False
    assert kept_by_kvsim(kvsim.from_kvpress(press), trace) == expected_of(press, model)
    rules = kvsim.from_kvpress(example("FinchPress")).rules
    assert rules.slot_positions and rules.prompt_only


def evaluate(model, policies, budgets=(BUDGET,), **options):
    ids = tokens(LENGTH)[0]
    how = {"prompt_length": PROMPT, "progress": False, **ONCE} | options
    return kvsim.evaluate(model, ids, policies, list(budgets), **how)


def test_what_a_press_keeps_in_a_model_is_imposed_on_it(model, trace):
    press = AdaKVPress(CriticalKVPress(SnapKVPress(window_size=16)))
    policy = kvsim.from_kvpress(press, in_model=True)
    assert policy.name == "kvpress-adakv-criticalkv-snapkv"
    (row,) = evaluate(model, [policy]).itertuples()
    kept = expected_of(press, model)
    sees = np.broadcast_to(causal(LENGTH), (LAYERS, HEADS, LENGTH, LENGTH)).copy()
    for layer, heads in enumerate(kept):
        for head, tokens_kept in enumerate(heads):
            gone = np.setdiff1d(np.arange(PROMPT), tokens_kept)
            sees[layer, head, PROMPT:, gone] = False
    ids = tokens(LENGTH)
    full = logits_of(model, ids, np.broadcast_to(causal(LENGTH), sees.shape))
    found = scores(full, logits_of(model, ids, sees), ids[0].numpy(), PROMPT)
    assert row.kl_mean == pytest.approx(found["kl_mean"], abs=2e-5) and row.kl_mean > 1e-3


def test_a_press_in_a_model_has_rows_of_a_replay_that_stay(model, tmp_path):
    policy = kvsim.from_kvpress(KnormPress(), in_model=True, name="knorm-in-model")
    once = evaluate(model, [policy, "knorm"], output=tmp_path / "r.sqlite")
    again = evaluate(model, [policy, "knorm"], output=tmp_path / "r.sqlite")
    assert once.kl_mean.tolist() == again.kl_mean.tolist()
    assert once.policy_code.tolist() == again.policy_code.tolist()
    assert once.kl_mean[0] == pytest.approx(once.kl_mean[1], rel=1e-9)
    assert len(kvsim.load(tmp_path / "r.sqlite").replay) == 2 * LAYERS * HEADS


def test_without_a_model_such_a_press_is_refused(model, trace):
    policy = kvsim.from_kvpress(KnormPress(), in_model=True, name="knorm-in-no-model")
    evaluate(model, [policy])
    with pytest.raises(kvsim.UsageError, match="knorm-in-no-model: its press needs a running"):
        kvsim.sweep(trace, [policy], [BUDGET], **ONCE)
    with pytest.raises(kvsim.UsageError, match=r"its press needs a running model.*imposed"):
        evaluate(model, [policy], loop="adaptive")
    with pytest.raises(kvsim.UsageError, match="eviction-interval never"):
        evaluate(model, [policy], eviction_interval=1)
    policy.read_text(model, tokens(LENGTH, seed=1)[0].int().numpy(), PROMPT)
    with pytest.raises(kvsim.UsageError, match="KnormPress: the trace has other keys"):
        kvsim.sweep(trace, [policy], [BUDGET], **ONCE)


@dataclass
class Failing(ScorerPress):
    def score(self, module, hidden_states, keys, values, attentions, kwargs):
        raise ValueError("no scores today")


@dataclass
class LongerKeys(ScorerPress):
    def compress(self, module, hidden_states, keys, values, attentions, kwargs):
        return 2 * keys, values


@pytest.mark.parametrize(
    ("press", "reason"),
    [
        (Failing(), "Failing: it cannot run in this model: no scores today"),
        (LongerKeys(), "LongerKeys: layer 0: it changes keys"),
        (SnapKVPress(window_size=PROMPT), "SnapKVPress: it cannot run.*window size 100"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_press_that_fails_in_a_model_leaves_it_as_it_was(press, reason, model):
    before = dict(model.named_modules())
    with pytest.raises(kvsim.UsageError, match=reason):
        evaluate(model, [kvsim.from_kvpress(press, in_model=True)])
    assert dict(model.named_modules()) == before
    assert all(not each._forward_hooks for each in before.values())
    with pytest.raises(kvsim.UsageError, match="MergingPress: it merges the values"):
        kvsim.from_kvpress(MergingPress(KnormPress()), in_model=True)
