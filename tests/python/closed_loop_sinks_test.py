"""Models with learned sinks and with chunks: evicting, they attend to what is left as they do."""

import copy

import numpy as np
import pytest
import torch
from transformers import AttentionInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface

import kvsim
from closed_loop_reference import held, replayed, scores
from kvsim.closed_loop import evicting
from record_zoo import build, generate, tokens

LENGTH = 40
KINDS = ["gpt_oss", "llama4"]


def model_of(kind):
    model = build(kind)
    for index, layer in enumerate(model.model.layers):
        if hasattr(layer.self_attn, "sinks"):
            with torch.no_grad():
                layer.self_attn.sinks.copy_(torch.tensor([-1.0, 0.0, 1.5, 4.0]) + index / 2)
    return model


def shown(model, layer):
    """What the layer shows without eviction, boolean [n, n], by its configuration."""
    step, token = np.arange(LENGTH)[:, None], np.arange(LENGTH)
    kind = model.config.layer_types[layer]
    if kind == "sliding_attention":
        return (token <= step) & (step - token < model.config.sliding_window)
    if kind == "chunked_attention":
        size = model.config.attention_chunk_size
        return (token <= step) & (step // size == token // size)
    return token <= step


def logits_of(model, ids, visible):
    """The logits [n, vocabulary] where each step of each KV head sees `visible` [Hkv, n, n] of its
    layer: one head and step after the other, in float64."""

    def attend(module, query, key, value, attention_mask=None, scaling=1.0, **options):
        output = torch.zeros_like(query)
        group = query.shape[1] // key.shape[1]
        for head in range(query.shape[1]):
            for t in range(query.shape[2]):
                seen = np.flatnonzero(visible[module.layer_idx][head // group, t])
                logits = scaling * key[0, head // group, seen] @ query[0, head, t]
                weights = logits.exp()
                total = weights.sum()
                if hasattr(module, "sinks"):
                    total = total + module.sinks[head].exp()
                output[0, head, t] = weights @ value[0, head // group, seen] / total
        return output.transpose(1, 2), None

    AttentionInterface.register("one_by_one", attend)
    AttentionMaskInterface.register("one_by_one", ALL_MASK_ATTENTION_FUNCTIONS["eager"])
    model = copy.deepcopy(model)
    model.set_experts_implementation("eager")  # the other one has no float64
    model = model.double()
    model.set_attn_implementation("one_by_one")
    with torch.no_grad():
        return model(ids, use_cache=False).logits[0].numpy()


def evaluate(model, ids, policies, budgets, **options):
    return kvsim.evaluate(model, ids[0], policies, budgets, progress=False, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_sees_what_the_replay_keeps_predicts_that(kind, tmp_path):
    model, ids = model_of(kind), tokens(LENGTH)
    with kvsim.recording(model, tmp_path / "t.h5", dtype="float32"), torch.no_grad():
        model(ids)
    trace = kvsim.Trace(tmp_path / "t.h5")
    masks = [shown(model, layer) for layer in range(3)]
    full = logits_of(model, ids, [np.broadcast_to(mask, (2, LENGTH, LENGTH)) for mask in masks])
    policies = ["h2o", "tova", "optimal"]
    frame = evaluate(model, ids, policies, [6], trace=trace)
    assert len(frame) == len(policies)
    for row in frame.itertuples():
        kept = replayed(trace, row.policy, 6)
        visible = [held(layer) & mask for layer, mask in zip(kept, masks, strict=True)]
        expected = scores(full, logits_of(model, ids, visible), ids[0].numpy())
        for name, number in expected.items():
            assert getattr(row, name) == pytest.approx(number, abs=2e-5)
        assert row.kl_mean > 1e-3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loop", ["imposed", "adaptive"])
def test_a_budget_for_all_tokens_changes_nothing(kind, loop):
    frame = evaluate(model_of(kind), tokens(LENGTH), "window;full", [LENGTH], loop=loop)
    assert (frame.kl_mean.abs() < 1e-8).all()
    assert (frame.top1_agreement == 1).all()


@pytest.mark.parametrize("policy", ["h2o", "tova", "lookback", "obcache", "scissorhands"])
@pytest.mark.parametrize("kind", KINDS)
def test_layer_0_evicts_what_the_replay_does(kind, policy, tmp_path):
    model, ids = model_of(kind), tokens(LENGTH)
    with kvsim.recording(model, tmp_path / "t.h5", dtype="float32"), torch.no_grad():
        model(ids)
    with evicting(model, policy, 12) as cache, torch.no_grad():
        model(ids)
    for head in (0, 1):
        replay = kvsim.replay(tmp_path / "t.h5", policy, 12, layer=0, kv_head=head)
        assert cache.evicted_after(0, head)[0].tolist() == replay.evicted_after.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_engine_computes_has_sinks_and_chunks(kind):
    model, ids = model_of(kind), tokens(LENGTH)
    with torch.no_grad():
        expected = model(ids).logits
        # In groups of one number quantisation loses nothing.
        with evicting(model, "h2o+quant:bits=8,group=1", 100_000) as cache:
            found = model(ids).logits
    assert set(cache.storage.values()) == {"engine"}
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_layers_that_see_a_part_stay_and_others_are_dropped(kind):
    model, ids = model_of(kind), tokens(20)
    with evicting(model, "tova", 8) as masked:
        expected = generate(model, ids)
    with evicting(model, "tova", 8, drop=True) as dropped:
        assert torch.equal(generate(model, ids), expected)
    assert dropped.storage == {0: "masked", 1: "dropped", 2: "masked"}
    assert set(masked.storage.values()) == {"masked"}


def test_an_entry_for_the_rest_is_refused_under_chunks():
    with (
        pytest.raises(kvsim.UsageError, match="layer 0 has chunks of attention, which evicted"),
        evicting(model_of("llama4"), "window+rest", 8),
    ):
        pass
