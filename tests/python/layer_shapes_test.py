"""Layers of one model that differ in heads, dimensions, scale and rotation."""

import warnings

import numpy as np
import pytest
import torch
import transformers

import kvsim
from nightly import a_third_by_day
from record_zoo import GROUPED, WINDOWS, _config, build, check, generate, tokens

N = 30


def uneven():
    """A model whose layers differ in KV heads: 2, 4 and 2."""
    model = build("llama")
    attention = type(model.model.layers[1].self_attn)
    torch.manual_seed(8)
    other = attention(_config("LlamaConfig", num_key_value_heads=4), 1)
    with torch.no_grad():
        for weight in other.parameters():
            weight.normal_(0, 0.2)
    other.config = model.config
    model.model.layers[1].self_attn = other.eval()
    return model


def gemma4():
    """Heads of 16 numbers where attention slides, of 32 where it does not."""
    config = _config(
        "Gemma4TextConfig", **GROUPED, head_dim=16, global_head_dim=32, sliding_window=8,
        layer_types=WINDOWS[:2] * 2, num_hidden_layers=4, hidden_size_per_layer_input=8,
        vocab_size_per_layer_input=64,
    )  # fmt: skip
    torch.manual_seed(7)
    return transformers.AutoModelForCausalLM.from_config(config).eval()


MODELS = {
    "uneven": (uneven, "num_kv_heads", [2, 4, 2]),
    "gemma4": (gemma4, "head_dim", [16, 32, 16, 32]),
    "gpt2": (
        lambda: build("gpt2", scale_attn_by_inverse_layer_idx=True),
        "scale",
        [0.25, 0.25 / 2, 0.25 / 3],
    ),
}


@pytest.fixture(params=MODELS)
def model_and_shape(request):
    build_it, attribute, expected = MODELS[request.param]
    return build_it(), attribute, expected


def test_a_recording_says_the_shape_of_each_layer(model_and_shape, tmp_path):
    model, attribute, expected = model_and_shape
    path = tmp_path / "t.h5"
    with kvsim.recording(model, path, dtype="float32"), torch.no_grad():
        model(tokens(N))
    trace = kvsim.Trace(path)
    layers = trace.sequences[0].layers
    assert [layer.shape[attribute] for layer in layers] == pytest.approx(expected)
    assert getattr(trace, attribute) == pytest.approx(expected[0])
    assert [len(layer.kv_heads) for layer in layers] == [
        layer.shape["num_kv_heads"] for layer in layers
    ]
    check(path, 1e-4)
    frame = kvsim.sweep(trace, ["h2o", "tova:scope=layer", "spatten", "optimal"], [8])
    assert len(frame) == 4 * sum(layer.shape["num_kv_heads"] for layer in layers)
    assert (frame.attention_recall > 0).all()


def test_both_loops_follow_the_shape_of_each_layer(model_and_shape):
    model, *_ = model_and_shape
    policies = ["window", "sink", "h2o", "tova:scope=layer"]
    imposed, adaptive = (
        kvsim.evaluate(model, [tokens(N)[0]], policies, [8], loop=loop).set_index("policy")
        for loop in ("imposed", "adaptive")
    )
    assert (imposed.cache_bytes == adaptive.cache_bytes).all() and len(adaptive) == len(policies)
    blind = [name for name in adaptive.index if name.startswith(("window", "sink"))]
    assert adaptive.nll[blind].tolist() == pytest.approx(imposed.nll[blind].tolist(), abs=1e-5)
    assert adaptive.kept_overlap.between(0, 1, inclusive="right").all()


@a_third_by_day
@pytest.mark.parametrize("drop", [False, True])
def test_generating_with_every_token_held_is_the_plain_model(model_and_shape, drop):
    model, *_ = model_and_shape
    expected = generate(model, tokens(12), 8)
    with kvsim.evicting(model, "h2o", 64, drop=drop) as cache:
        assert torch.equal(generate(model, tokens(12), 8), expected)
        assert len(cache.kept(1, 1)[0]) == 19


@pytest.mark.parametrize("kind", ["gemma3", "smollm3"])
def test_slots_of_a_window_are_its_positions_whatever_each_layer_rotates(kind):
    """Distances are the same, so a layer that rotated by another's angles would show."""
    frame = kvsim.evaluate(
        build(kind), [tokens(N)[0]], "window;sink:sinks=0,positions=slot", [6], loop="adaptive"
    )
    window, slots = frame.sort_values("policy", ascending=False).nll
    assert slots == pytest.approx(window, abs=1e-5)
    assert frame.delta_nll.abs().min() > 1e-3


def test_budgets_of_a_model_go_to_all_its_heads():
    trace = trace_of_arrays()
    for allocation in ("pyramid", "adaptive", "persistence"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            frame = kvsim.sweep(trace, "h2o", [10], allocate=allocation)
        assert len(frame) == 6 and frame.peak_tokens.sum() <= 6 * 10


def trace_of_arrays(scale=None, rope=None):
    """Layer 0 has 2 KV heads of 8 and 6 numbers, layer 1 has 4 of 4 and 5."""
    draw = np.random.default_rng(3)

    def layer(query_heads, kv_heads, dim, value_dim):
        sizes = ((query_heads, dim), (kv_heads, dim), (kv_heads, value_dim))
        return tuple(draw.normal(size=(heads, 40, of)).astype(np.float32) for heads, of in sizes)

    layers = {0: layer(4, 2, 8, 6), 1: layer(4, 4, 4, 5)}
    return kvsim.Trace.from_arrays(layers, scale=scale, rope=rope)


def test_arrays_of_layers_may_differ():
    rope = {0: {"inv_freq": [1.0, 0.5]}, 1: {"inv_freq": [0.25], "style": "interleaved"}}
    trace = trace_of_arrays({1: 0.125}, rope)
    first, second = (layer.shape for layer in trace.sequences[0].layers)
    assert (first["num_kv_heads"], first["head_dim"], first["value_dim"]) == (2, 8, 6)
    assert (second["num_kv_heads"], second["head_dim"], second["value_dim"]) == (4, 4, 5)
    assert first["scale"] == 8**-0.5 and second["scale"] == 0.125
    assert trace.rope is None
    assert first["rope"]["inv_freq"] == [1.0, 0.5]
    assert second["rope"]["style"] == "interleaved"
    frame = kvsim.sweep(trace, "sink:positions=slot", [8])
    assert len(frame) == 6 and frame.output_error_mean.notna().all()


def test_head_budgets_leave_out_heads_that_a_layer_has_not():
    trace = trace_of_arrays()
    curves = kvsim.curve(trace, policies="tova:score=full", mode="stream")
    budgets = kvsim.head_budgets(curves, trace=trace)
    assert budgets.shape == (99, 2, 4)
    assert np.isnan(budgets[:, 0, 2:]).all() and not np.isnan(budgets[:, 1]).any()
    np.testing.assert_allclose(np.nanmean(budgets, axis=(1, 2)), np.arange(1, 100) / 100, atol=1e-3)


def test_layers_of_other_tokens_are_refused():
    numbers = np.ones((1, 5, 2), np.float32)
    shorter = numbers[:, :4]
    with pytest.raises(kvsim.UsageError, match="layer 1: expected 5 tokens as in layer 0, found 4"):
        kvsim.Trace.from_arrays({0: (numbers,) * 3, 1: (shorter,) * 3})
