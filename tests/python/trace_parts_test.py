"""What a trace in memory may hold in addition to attention, and how a unit shows it."""

import numpy as np
import pytest

import kvsim

HEADS, KV_HEADS, TOKENS, DIM, VALUE_DIM, HIDDEN, SAMPLES = 4, 2, 6, 8, 3, 5, 2


def arrays(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def attention(seed=0):
    return (
        arrays(HEADS, TOKENS, DIM, seed=seed),
        arrays(KV_HEADS, TOKENS, DIM, seed=seed + 1),
        arrays(KV_HEADS, TOKENS, VALUE_DIM, seed=seed + 2),
    )


def parts():
    return dict(
        output_projection=arrays(HEADS * VALUE_DIM, HIDDEN, seed=3),
        residual=arrays(TOKENS, HIDDEN, seed=4),
        output_score_grad=arrays(SAMPLES, HEADS, TOKENS, VALUE_DIM, seed=5),
    )


def test_a_unit_shows_its_part_of_the_arrays():
    kept = parts()
    trace = kvsim.Trace.from_arrays(*attention(), **kept)
    (layer,) = trace.sequences[0].layers
    assert (layer.hidden, layer.has_residual, layer.gradient_samples) == (HIDDEN, True, SAMPLES)
    for kv_head in range(KV_HEADS):
        unit = trace.unit(kv_head=kv_head)
        group = slice(2 * kv_head, 2 * kv_head + 2)
        projection = kept["output_projection"].reshape(HEADS, VALUE_DIM, HIDDEN)
        np.testing.assert_array_equal(unit.output_projection, projection[group])
        np.testing.assert_array_equal(unit.output_score_grad, kept["output_score_grad"][:, group])
        squares = np.square(kept["residual"].astype(float)).sum(1)
        np.testing.assert_allclose(unit.residual_square, squares, rtol=1e-12)


def test_layers_may_differ_in_what_is_recorded_of_them():
    kept = parts()
    trace = kvsim.Trace.from_arrays(
        {0: attention(), 1: attention(7)},
        output_projection={1: kept["output_projection"]},
        output_score_grad={0: kept["output_score_grad"]},
    )
    first, second = trace.sequences[0].layers
    assert (first.hidden, first.gradient_samples) == (0, SAMPLES)
    assert (second.hidden, second.gradient_samples) == (HIDDEN, 0)
    unit = trace.unit(layer=1)
    assert unit.output_score_grad is None and unit.residual_square is None


def test_errors_of_the_output_are_weighed_by_the_parts():
    kept = parts()
    frame = kvsim.sweep(
        kvsim.Trace.from_arrays(*attention(), output_score_grad=kept["output_score_grad"]),
        "window", [2], progress=False,
    )  # fmt: skip
    twice = kvsim.sweep(
        kvsim.Trace.from_arrays(*attention(), output_score_grad=2 * kept["output_score_grad"]),
        "window", [2], progress=False,
    )  # fmt: skip
    np.testing.assert_allclose(twice.predicted_kl, 4 * frame.predicted_kl, rtol=1e-6)


def test_half_precision_keeps_the_digits_of_small_gradients():
    half = [each.astype(np.float16) for each in attention()]
    gradient = 1e-9 * parts()["output_score_grad"]
    trace = kvsim.Trace.from_arrays(*half, output_score_grad=gradient)
    found = trace.unit().output_score_grad
    largest = np.abs(gradient).max()
    np.testing.assert_allclose(found, gradient[:, :2], atol=2**-11 * largest)


def test_synthetic_traces_have_them_on_request():
    trace = kvsim.synth(tokens=16, hidden=8, gradient_samples=3)
    unit = trace.unit(layer=1)
    assert unit.output_projection.shape == (2, 64, 8)
    assert unit.output_score_grad.shape == (3, 2, 16, 64)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(output_projection=arrays(4, 5)),
         r"output_projection: layer 0: expected numbers \[12, any\], found float32 \[4, 5\]"),
        (dict(residual=arrays(5, 5)), r"residual: layer 0: expected numbers \[6, any\]"),
        (dict(output_score_grad=arrays(4, 6, 3)),
         r"output_score_grad: layer 0: expected numbers \[any, 4, 6, 3\]"),
        (dict(mlp_activation=arrays(5, 5)), r"mlp_activation: layer 0: expected .* \[6, any\]"),
        (dict(residual={1: arrays(6, 5)}), r"residual: expected layers of \[0\], found \[1\]"),
        (dict(router=arrays(6, 5)), "expected some of output_projection, .*, found router"),
        (dict(label_seed=-1), "label_seed: expected one in 0..2147483647, found -1"),
    ],
)  # fmt: skip
def test_arrays_that_do_not_fit_are_named(options, message):
    with pytest.raises(kvsim.UsageError, match=message):
        kvsim.Trace.from_arrays(*attention(), **options)


def test_a_layer_shows_its_residual_stream():
    given = parts()
    trace = kvsim.Trace.from_arrays(*attention(), **given)
    np.testing.assert_array_equal(trace.rows("residual"), given["residual"])
    with pytest.raises(kvsim.UsageError, match=r"expected one of residual, .*, found .query."):
        trace.rows("query")


def test_several_layers_need_a_dict():
    with pytest.raises(kvsim.UsageError, match="residual: expected a dict from layer to array"):
        kvsim.Trace.from_arrays({0: attention(), 1: attention()}, residual=arrays(6, 5))


def test_widths_that_contradict_each_other_are_named():
    kept = parts() | {"residual": arrays(TOKENS, HIDDEN + 1)}
    with pytest.raises(kvsim.DataError, match="as wide as output_projection"):
        kvsim.Trace.from_arrays(*attention(), **kept)


def test_a_layer_shows_the_activations_of_its_mlp():
    kept = arrays(TOKENS, 11, seed=9)
    trace = kvsim.Trace.from_arrays({0: attention(), 3: attention(7)}, mlp_activation={3: kept})
    assert [layer.mlp_width for layer in trace.sequences[0].layers] == [0, 11]
    np.testing.assert_array_equal(trace.mlp_activation(layer=3), kept)
    assert trace.sequences[0].layers[1].recorded == {"mlp_activation": (TOKENS, 11)}
    with pytest.raises(kvsim.DataError, match="record the trace with --also mlp_activation"):
        trace.mlp_activation(layer=0)
    without = kvsim.Trace.from_arrays({0: attention(), 3: attention(7)})
    assert without.trace_id != trace.trace_id
    assert kvsim.synth(tokens=16, mlp_width=5).mlp_activation(layer=1).shape == (16, 5)
