"""What the recorder adds to attention: output projections, residual streams, gradients."""

from dataclasses import replace

import h5py
import numpy as np
import pytest
import torch

from kvsim.model.attention import intercepted, layer_of
from kvsim.model.output_projection import layer_outputs
from kvsim.model.whole_pass import draw_labels, score_gradients
from kvsim.record import RecordError, UsageError, recording
from kvsim.record.also import gradient_scale
from nightly import a_third_by_day, sample_of
from record_zoo import CONFIGS, build, generate, padded, record, tokens, verify_with_program

LAYERS = {0, 1, 2}
NORMALISED = {"gemma2", "gemma3"}  # what attention returns, before it is added
WITH_PROJECTION = sorted(CONFIGS.keys() - NORMALISED)
PROJECTING = {  # in which module, where it is not self_attn.o_proj
    "gpt_neox": "attention.dense",
    "gpt2": "attn.c_proj",
    "gpt_bigcode": "attn.c_proj",
    "opt": "self_attn.out_proj",
    "phi": "self_attn.dense",
}
MULTIPLIED = {"granite": "residual_multiplier"}


def gradients_of(model, ids, samples=1, seed=0):
    return score_gradients(model, ids[0].tolist(), LAYERS, samples, seed)


@a_third_by_day
@pytest.mark.parametrize("name", WITH_PROJECTION)
def test_heads_times_the_projection_are_what_attention_adds(name, tmp_path):
    model, ids = build(name), tokens(9)
    if name in MULTIPLIED:
        setattr(model.config, MULTIPLIED[name], 0.3)
        for module in model.modules():
            if hasattr(module, MULTIPLIED[name]):
                setattr(module, MULTIPLIED[name], 0.3)
    added = {}
    path = PROJECTING.get(name, "self_attn.o_proj")
    for found, module in model.named_modules():
        if found.endswith(path):
            bias = getattr(module, "bias", None)
            if bias is not None:
                torch.nn.init.normal_(bias)

            def keep(module, args, output, found=found, bias=bias):
                added[found] = output[0] - (0 if bias is None else bias)

            module.register_forward_hook(keep)
    with record(model, tmp_path / "t.h5", ids, also="output_projection") as file:
        for layer, expected in zip("012", added.values(), strict=True):
            heads = file[f"sequences/sequence-0/layers/{layer}/output"][()]
            weight = file[f"model/layers/{layer}/output_projection"][()]
            product = heads.transpose(1, 0, 2).reshape(len(ids[0]), -1) @ weight
            factor = 0.3 if name in MULTIPLIED else 1
            np.testing.assert_allclose(product, factor * expected, rtol=1e-4, atol=1e-5)


@a_third_by_day
@pytest.mark.parametrize("name", WITH_PROJECTION)
def test_the_residual_stream_is_the_input_of_each_layer(name, tmp_path):
    model, ids = build(name), tokens(9)
    with torch.no_grad():
        hidden = model(ids, output_hidden_states=True).hidden_states
    with record(model, tmp_path / "t.h5", ids, also=["residual"]) as file:
        for layer in range(3):
            found = file[f"sequences/sequence-0/layers/{layer}/residual"][()]
            np.testing.assert_allclose(found, hidden[layer][0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", sorted(NORMALISED))
@pytest.mark.parametrize("part", ["output_projection", "residual"])
def test_a_model_that_normalises_attention_has_no_projection(name, part, tmp_path):
    with pytest.raises(RecordError, match="layer 0: expected the projected attention to be added"):
        record(build(name), tmp_path / "t.h5", tokens(9), also=part)
    assert list(tmp_path.iterdir()) == []


def test_quantised_weights_are_no_projection():
    class Quantised(torch.nn.Module):
        def __init__(self, whole):
            super().__init__()
            self.scale = whole.weight.abs().max() / 127
            self.weight = torch.nn.Parameter(
                (whole.weight / self.scale).round().to(torch.int8), requires_grad=False
            )

        def forward(self, heads):
            return heads @ (self.weight.float() * self.scale).T

    model = build("llama")
    attention = model.model.layers[1].self_attn
    attention.o_proj = Quantised(attention.o_proj)
    with pytest.raises(RecordError, match=r"layer 1: .* found a quantised Quantised of torch.int8"):
        layer_outputs(model, [0, 1])


def test_outputs_that_are_changed_before_the_projection_have_none():
    model = build("llama")
    attention = model.model.layers[2].self_attn
    attention.o_proj = torch.nn.Sequential(torch.nn.LayerNorm(64), attention.o_proj)
    with pytest.raises(RecordError, match="layer 2: expected a linear module that takes"):
        layer_outputs(model, [2])


def fixed_attention(model, ids, change=None):
    """The log-probabilities of the model in float64, whose keys and values stay what they are.

    `change` maps (layer, output) to another output.
    """
    held = {}

    def keep(call):
        held[layer_of(call, model)] = call.key, call.value
        return call.attend()

    def attend(call):
        layer = layer_of(call, model)
        key, value = held[layer]
        output, weights = replace(call, key=key, value=value).attend()
        return change(layer, output), weights

    with torch.no_grad(), intercepted(model, keep):
        logits = model(ids, use_cache=False).logits
    if change is not None:
        with torch.no_grad(), intercepted(model, attend):
            logits = model(ids, use_cache=False).logits
    return torch.log_softmax(logits[0], -1)


@a_third_by_day
@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_gradients_are_those_of_small_changes_of_the_outputs(name):
    model, ids = build(name), tokens(7)
    if name == "gpt_oss":
        model.set_experts_implementation("eager")  # the other one has no float64
    model = model.double()
    size = 1e-5 if name == "opt" else 1e-3  # others round to float32 in their norms; ReLU has kinks
    found = gradients_of(model, ids)
    prediction = fixed_attention(model, ids).exp().float()
    (labels,) = draw_labels(prediction, ids[0].tolist(), 1, 0)
    generator = torch.Generator().manual_seed(3)
    for layer, gradient in found.items():
        heads, dim = gradient.shape[1], gradient.shape[3]
        step = size * torch.randn(heads, 7, dim, generator=generator, dtype=torch.float64)

        def log_probability(sign, layer=layer, step=step):
            def change(at, output):
                return output + sign * step.transpose(0, 1) if at == layer else output

            return fixed_attention(model, ids, change).gather(1, labels[:, None])[:, 0]

        # With keys and values as they were, every step's prediction depends on its own output.
        slope = (log_probability(1) - log_probability(-1)) / 2
        expected = (gradient[0].double() * step).sum((0, 2))
        np.testing.assert_allclose(slope, expected, rtol=1e-2, atol=2e-6)


def test_scores_average_to_zero_and_their_square_is_the_information():
    model, ids, layer, step = build("llama").double(), tokens(5), 1, 3
    samples = sample_of(1000, 4000)
    scores = gradients_of(model, ids, samples=samples)[layer][:, :, step].flatten(1).double()
    assert bool((scores.mean(0).abs() < 5 * scores.std(0) / len(scores) ** 0.5).all())
    direction = torch.randn(4, 16, generator=torch.Generator().manual_seed(1)).double()
    size = 0.02

    def change(at, output):
        changed = output.clone()
        changed[0, step] += size * direction if at == layer else 0
        return changed

    full, other = fixed_attention(model, ids), fixed_attention(model, ids, change)
    divergence = (full.exp() * (full - other)).sum(-1)[step]
    predicted = 0.5 * (scores @ (size * direction).flatten()).square().mean()
    assert float(predicted) == pytest.approx(float(divergence), rel=sample_of(0.2, 0.1))


def test_labels_are_those_of_the_seed_and_the_text():
    model, ids = build("llama"), tokens(9)
    one, again, other = (gradients_of(model, ids, seed=seed)[0] for seed in (4, 4, 5))
    assert torch.equal(one, again) and not torch.equal(one, other)
    three = gradients_of(model, ids, samples=3, seed=4)[0]
    torch.testing.assert_close(three[:1], one)
    assert not torch.equal(three[0], three[1])
    certain = torch.nn.functional.one_hot(torch.arange(9), 20).float()
    assert all(labels.tolist() == list(range(9)) for labels in draw_labels(certain, [1], 3, 0))


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2"])
def test_gradients_of_a_generated_batch_are_those_of_each_text(name, tmp_path):
    model = build(name)
    ids, mask = padded([12, 7])
    with recording(model, tmp_path / "t.h5", also="output_score_grad", gradient_samples=2):
        generated = generate(model, ids, 5, attention_mask=mask)
    verify_with_program(tmp_path / "t.h5")
    with h5py.File(tmp_path / "t.h5") as file:
        for number, length in enumerate([12, 7]):
            expected = gradients_of(model, generated[number : number + 1, 12 - length : -1], 2)
            for layer in LAYERS:
                dataset = file[f"sequences/sequence-{number}/layers/{layer}/output_score_grad"]
                assert dataset.dtype == np.float16
                assert dataset.chunks[:2] == (1, 1)
                assert dataset.attrs["label_seed"] == 0
                found = dataset[()].astype(np.float32) * dataset.attrs["scale"]
                largest = float(expected[layer].abs().max())
                np.testing.assert_allclose(found, expected[layer], atol=1e-3 * largest)


def test_gradients_keep_their_digits_whatever_their_size():
    for largest in (1e-30, 3e-9, 1.0, 8192.0, 1e20):
        assert 8192 <= largest / gradient_scale(largest) < 16384
    assert gradient_scale(0) == 1


def test_only_recorded_layers_get_more(tmp_path):
    everything = "output_projection,residual,output_score_grad"
    with record(build("llama"), tmp_path / "t.h5", tokens(9), layers=[1], also=everything) as file:
        assert list(file["model/layers"]) == ["1"]
        assert sorted(file["sequences/sequence-0/layers/1"]) == sorted(
            ["key", "output", "output_score_grad", "query", "residual", "value"]
        )


def test_the_model_is_left_as_it_was(tmp_path):
    model = build("llama")
    model.model.layers[0].requires_grad_(False)
    before = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    file = record(model, tmp_path / "t.h5", tokens(9), also="residual,output_score_grad")
    file.close()
    after = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    assert before == after
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())
    assert not any(module._forward_pre_hooks for module in model.modules())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            dict(gradient_samples=3),
            "gradient_samples and label_seed are those of output_score_grad",
        ),
        (dict(also="residual", label_seed=1), "name it in also"),
        (dict(also="gradient"), "also: expected some of output_projection, residual, output_score"),
        (dict(also=["residual", "key"]), "also: .* found 'key'"),
        (dict(gradient_samples=0), "gradient_samples: expected 1 or more, found 0"),
        (dict(label_seed=-1), "label_seed: expected one in 0..2147483647, found -1"),
    ],
)
def test_what_cannot_be_recorded_is_named(options, message, tmp_path):
    with (
        pytest.raises(UsageError, match=message),
        recording(build("llama"), tmp_path / "t.h5", **options),
    ):
        pass


def test_a_text_without_token_ids_cannot_be_read_again(tmp_path):
    model = build("llama")
    with (
        pytest.raises(RecordError, match="sequence-0: expected token ids, which output_score_grad"),
        recording(model, tmp_path / "t.h5", also="output_score_grad"),
        torch.no_grad(),
    ):
        model(inputs_embeds=model.get_input_embeddings()(tokens(5)))


@pytest.mark.parametrize("part", ["residual", "output_score_grad"])
def test_a_text_that_was_read_at_other_positions_is_not_read_again(part, tmp_path):
    model, ids = build("llama"), tokens(9)
    with (
        pytest.raises(RecordError, match="reading the text again, alone, gives other outputs"),
        recording(model, tmp_path / "t.h5", also=part),
        torch.no_grad(),
    ):
        model(ids, position_ids=torch.arange(0, 90, 10)[None])


def test_a_norm_that_rounding_would_hide_is_not_taken_for_a_multiplier():
    model = build("gemma3").bfloat16()
    model.get_input_embeddings().weight.data *= 10
    with pytest.raises(RecordError, match=r"load the model in float32|found something between"):
        layer_outputs(model, [0, 1])


def test_a_projection_in_half_precision_is_taken_as_it_is():
    model = build("llama").bfloat16()
    for layer, found in layer_outputs(model, [0, 1]).items():
        weight = model.model.layers[layer].self_attn.o_proj.weight
        assert torch.equal(found.projection, weight.T)
