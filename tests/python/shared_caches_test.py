"""Layers that attend with another layer's keys and values (Gemma 3n and 4)."""

import numpy as np
import pandas as pd
import pytest
import torch
import transformers

import kvsim
from kvsim.report.numbers.attention import read_head
from record_zoo import GROUPED, WINDOWS, _config, generate, tokens, verify_with_program

NUMBERS = np.random.default_rng(5)


def heads(count, dim, n=40):
    return NUMBERS.normal(size=(count, n, dim)).astype(np.float32)


QUERY, READER, KEY, VALUE = heads(4, 8), heads(6, 8), heads(2, 8), heads(2, 5)


def shared_trace(**also):
    layers = {0: (QUERY, KEY, VALUE), 2: (READER, None, None)}
    return kvsim.Trace.from_arrays(layers, kv_from={2: 0}, prompt_length=12, **also)


def joined_trace():
    """One layer with the query heads of both, those of a KV head one after the other."""
    groups = np.concatenate([QUERY.reshape(2, 2, 40, 8), READER.reshape(2, 3, 40, 8)], axis=1)
    return kvsim.Trace.from_arrays(groups.reshape(10, 40, 8), KEY, VALUE, prompt_length=12)


def test_policies_and_oracles_see_the_mean_over_all_layers_that_read_a_cache():
    policies = ["h2o", "tova", "snapkv", "optimal", "belady", "topk", "spatten"]
    for mode in ("stream", "prefill"):
        found, expected = (
            kvsim.sweep(trace, policies, [8], mode) for trace in (shared_trace(), joined_trace())
        )
        assert set(found.layer) == {0} and len(found) == 2 * len(policies)
        left_out = ["trace_id", "trace", "run_id"]
        pd.testing.assert_frame_equal(found.drop(columns=left_out), expected.drop(columns=left_out))


def test_a_cache_counts_once():
    frame = kvsim.sweep(shared_trace(), "window", [8])
    assert (frame.cache_bytes == 8 * (8 + 5) * 4).all()


def test_head_budgets_are_those_of_caches():
    layers = {0: (QUERY, KEY, VALUE), 1: (READER, None, None)}
    trace = kvsim.Trace.from_arrays(layers, kv_from={1: 0})
    curves = kvsim.curve(trace, policies="tova:score=full")
    budgets = kvsim.head_budgets(curves, trace=trace)
    assert budgets.shape == (99, 2, 2)
    assert np.isnan(budgets[:, 1]).all() and not np.isnan(budgets[:, 0]).any()


def test_what_a_trace_says_of_a_layer_without_a_cache():
    trace = shared_trace()
    owner, reader = trace.sequences[0].layers
    assert (owner.kv_from, owner.kv_heads) == (None, (0, 1))
    assert (reader.kv_from, reader.kv_heads) == (0, ())
    assert trace.unit(layer=0, kv_head=1).query.shape == (5, 40, 8)
    with pytest.raises(kvsim.DataError, match="its queries are in the units of layer 0"):
        trace.unit(layer=2)


@pytest.mark.parametrize(
    ("layers", "kv_from", "words"),
    [
        ({0: (QUERY, KEY, VALUE)}, {2: 0}, "found 2: 0"),
        ({0: (QUERY, KEY, VALUE), 2: (QUERY, None, None)}, {2: 1}, "found 2: 1"),
        ({0: (QUERY, KEY, VALUE), 2: (QUERY, KEY, VALUE)}, {2: 0}, "a query and None twice"),
        ({0: (QUERY, KEY, VALUE), 2: (QUERY, None, None)}, {}, "a query and None twice"),
    ],
)
def test_arrays_that_do_not_fit(layers, kv_from, words):
    with pytest.raises(kvsim.UsageError, match=words):
        kvsim.Trace.from_arrays(layers, kv_from=kv_from)


EVERY_TOKEN = dict(logits_to_keep=0)  # else layers that read a cache skip most of a prompt


def gemma(kind):
    """4 layers; the last two read the caches of the first two, which slide and do not."""
    sizes = dict(GROUPED, head_dim=16, sliding_window=8, layer_types=WINDOWS[:2] * 2)
    shared = dict(
        num_hidden_layers=4, num_kv_shared_layers=2, hidden_size_per_layer_input=8,
        vocab_size_per_layer_input=64,
    )  # fmt: skip
    own = dict(laurel_rank=4, altup_num_inputs=2, activation_sparsity_pattern=[0.0] * 4)
    torch.manual_seed(7)
    options = sizes | shared | (own if kind == "Gemma3nTextConfig" else dict(global_head_dim=16))
    return transformers.AutoModelForCausalLM.from_config(_config(kind, **options)).eval()


@pytest.fixture(params=["Gemma3nTextConfig", "Gemma4TextConfig"])
def model(request):
    return gemma(request.param)


@pytest.mark.parametrize("dtype", ["float32", "auto"])
def test_a_recording_says_which_layer_reads_whose_cache(model, dtype, tmp_path):
    with kvsim.recording(model, tmp_path / "t.h5", dtype=dtype):
        generate(model, tokens(20), 6, **EVERY_TOKEN)
    trace = kvsim.Trace(tmp_path / "t.h5")
    layers = trace.sequences[0].layers
    assert [layer.kv_from for layer in layers] == [None, None, 0, 1]
    assert [layer.kv_heads for layer in layers] == [(0, 1), (0, 1), (), ()]
    assert trace.unit(layer=1, kv_head=1).query.shape[:2] == (4, 25)
    verify_with_program(tmp_path / "t.h5")


def test_the_head_of_a_table_is_the_one_that_a_report_draws(model, tmp_path):
    path = tmp_path / "t.h5"
    with kvsim.recording(model, path), torch.no_grad():
        model(tokens(20))
    trace = kvsim.Trace(path)
    found = kvsim.analyze(trace, "sparsity")["sparsity"]
    assert sorted(set(found.query_head)) == list(range(8))
    for kv_head in (0, 1):
        unit = trace.unit(layer=1, kv_head=kv_head)
        for member, query in enumerate(unit.query):
            head = read_head(path, "sequence-0", 1, 4 * kv_head + member)
            assert np.array_equal(head.query, query) and np.array_equal(head.key, unit.key)


@pytest.mark.parametrize("mode", ["stream", "prefill"])
def test_bytes_count_once_in_both_loops(model, mode):
    policies = ["full", "window", "sink", "h2o", "tova:scope=layer"]
    frames = [
        kvsim.evaluate(
            model, [tokens(40)[0]], policies, [8], mode=mode, prompt_length=12, loop=loop
        ).set_index("policy")
        for loop in ("imposed", "adaptive")
    ]
    imposed, adaptive = frames
    assert (imposed.cache_bytes == adaptive.cache_bytes).all() and len(adaptive) == len(policies)
    if mode == "stream":
        assert adaptive.cache_bytes["window"] == 2 * 2 * 8 * (16 + 16) * 4
    blind = [name for name in adaptive.index if name.startswith(("full", "window", "sink"))]
    assert adaptive.nll[blind].tolist() == pytest.approx(imposed.nll[blind].tolist(), abs=1e-5)
    assert adaptive.delta_nll["full"] == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("drop", [False, True])
def test_generating_drops_what_leaves_a_cache_for_all_its_readers(model, drop):
    with kvsim.evicting(model, "window", 10, drop=drop) as cache:
        found = generate(model, tokens(20), 8, **EVERY_TOKEN)
        kept = [cache.kept(layer, 0)[0].tolist() for layer in range(4)]
    assert kept[0] == kept[2] and kept[1] == kept[3] == list(range(17, 27))
    with kvsim.evicting(model, "window", 10, drop=not drop):
        assert torch.equal(generate(model, tokens(20), 8, **EVERY_TOKEN), found)


def test_policies_that_see_attention_follow_the_text_token_by_token(model):
    refused = pytest.raises(kvsim.UsageError, match="sees layers that share a cache at each step")
    with refused, kvsim.evicting(model, "h2o", 10):
        generate(model, tokens(20), 4, **EVERY_TOKEN)
    with kvsim.evicting(model, "h2o", 10, mode="prefill", eviction_interval=1) as cache:
        generate(model, tokens(20), 4, **EVERY_TOKEN)
    assert all(len(cache.kept(layer, 1)[0]) == 10 for layer in range(4))


def test_a_prompt_of_which_readers_see_the_last_token_alone_is_refused(tmp_path):
    model = gemma("Gemma4TextConfig")
    refused = pytest.raises(kvsim.RecordError, match="1 of 20 new tokens")
    with refused, kvsim.recording(model, tmp_path / "t.h5"):
        generate(model, tokens(20), 4)


def test_what_needs_outputs_at_once_cannot_follow_shared_caches(model):
    refused = pytest.raises(kvsim.UsageError, match="layers that share its cache")
    with refused, kvsim.evicting(model, "h2o+quant:bits=4", 10):
        pass
