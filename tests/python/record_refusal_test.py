"""What a trace cannot hold is refused with the reason, in one line, and leaves no file."""

import pytest
import torch
import transformers

from kvsim.model.cache import cache_argument, returned_cache
from kvsim.record import RecordError, RecordWarning, UsageError, recording
from record_zoo import _config, build, generate, longrope, padded, refuse, tokens


def refuse_the_second(model, path, reason, run, error=RecordError, **options):
    """The same, but the first text was finished."""
    kept = pytest.warns(RecordWarning, match="1 finished text went to")
    refused = pytest.raises(error, match=reason)
    with kept, refused, recording(model, path, **options):
        run(model)
    assert [file.name for file in path.parent.iterdir()] == ["t.unfinished.h5"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "t.h5"


def read(model):
    with torch.no_grad():
        model(tokens(12))


def from_config(kind, **options):
    config = _config(kind, **options)
    for cls in (transformers.AutoModelForCausalLM, transformers.AutoModel):
        try:
            return cls.from_config(config).eval()
        except ValueError:
            continue
    raise AssertionError(kind)


def test_an_encoder_decoder_is_refused(path):
    model = from_config("T5Config", d_model=32, d_kv=8, d_ff=32, num_layers=1, num_heads=4)
    refuse(model, path, "T5Model is an encoder-decoder", read)


@pytest.mark.parametrize("kind", ["BloomConfig", "FalconConfig", "MptConfig"])
def test_models_without_the_interface_are_refused(kind, path):
    model = from_config(kind)
    refuse(model, path, "does not use transformers' AttentionInterface", read)


def test_a_model_without_attention_is_refused_by_its_name(path):
    model = from_config("MambaConfig", state_size=4)
    refuse(model, path, "MambaForCausalLM has no attention that can be recorded$", read)
    where = "MambaForCausalLM has no attention that can be recorded in layers .0.$"
    refuse(model, path, where, read, layers=[0])


def test_what_is_no_model_is_refused(path):
    refuse(torch.nn.Linear(2, 2), path, "expected a model of transformers, found Linear", read)


def test_attention_that_looks_ahead_is_refused(path):
    model = from_config("BertConfig")
    refuse(model, path, "layer 0: the attention mask is not causal", read)


def test_chunks_of_another_size_than_the_layer_declares_are_refused(path):
    model = build("llama4")  # chunks of 10
    mask = torch.ones(12, 12).tril().bool() & (
        torch.arange(12)[:, None] // 5 == torch.arange(12) // 5
    )

    def run(model):
        with torch.no_grad():
            model(tokens(12), attention_mask=mask[None, None])

    reason = "layer 0: the attention mask is not causal, with chunks of 10, with padding"
    refuse(model, path, reason, run)


def test_sinks_that_are_no_logit_per_head_are_refused(path):
    model = build("gpt_oss")
    sinks = model.model.layers[1].self_attn.sinks
    with torch.no_grad():
        sinks[2] = -torch.inf
    refuse(model, path, r"layer 1 has sinks \(4,\), expected a finite logit for each of 4", read)
    model.model.layers[1].self_attn.sinks = torch.nn.Parameter(torch.zeros(2, 2))
    refuse(model, path, r"layer 1 has sinks \(2, 2\), expected a finite logit", read)


def test_sinks_under_an_attention_that_leaves_them_out_are_refused(path, monkeypatch):
    model = build("gpt_oss")
    monkeypatch.setattr(type(model), "_supports_sdpa", True)
    model.config._attn_implementation = "sdpa"
    refuse(model, path, "SDPA has no sinks; load the model with attn_implementation='eager'", read)


def test_a_mask_that_hides_a_token_is_refused(path):
    mask = torch.zeros(1, 1, 12, 12).masked_fill(~torch.ones(12, 12).tril().bool(), -1e38)
    mask[..., 5, 2] = -1e38

    def run(model):
        with torch.no_grad():
            model(tokens(12), attention_mask=mask * 4)

    refuse(build("llama"), path, "layer 0: the attention mask is not causal", run)


def test_a_bias_in_the_mask_is_refused(path):
    mask = torch.zeros(1, 1, 12, 12).masked_fill(~torch.ones(12, 12).tril().bool(), -torch.inf)
    mask += -0.5 * (torch.arange(12)[:, None] - torch.arange(12)).clamp(min=0)

    def run(model):
        with torch.no_grad():
            model(tokens(12), attention_mask=mask)

    refuse(build("llama"), path, "layer 0: the attention mask is not causal", run)


def test_padding_inside_a_text_is_refused(path):
    ids, mask = padded([9, 5])

    def run(model):
        generate(model, ids.flip(1), 4, attention_mask=mask.flip(1))

    refuse(build("llama"), path, "padding inside a sequence; pad on the left", run)


def test_dropout_is_refused(path):
    model = build("llama", attention_dropout=0.1).train()
    refuse(model, path, r"drops attention at random; call model.eval\(\) first", read)


def test_a_model_that_computes_less_exactly_than_asked_is_recorded_with_a_warning(path):
    model = build("llama").to(torch.bfloat16)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.v_proj.weight *= 1e-30  # the output is none that float16 holds
    inexact = pytest.warns(RecordWarning, match="load the model in float32")
    with inexact, recording(model, path, dtype="float32"):
        read(model)


def test_numbers_that_are_not_finite_are_refused(path):
    model = build("llama")
    with torch.no_grad():
        model.model.layers[1].self_attn.k_proj.weight[0, 0] = torch.nan
    refuse(model, path, "layer 1, (query|key): .* not finite", read)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (dict(num_beams=3), "layer 0: the cache changed since the last step"),
        (dict(cache_implementation="static"), "StaticCache cannot be followed"),
        (dict(use_cache=False), "use_cache=True"),
        (
            dict(prompt_lookup_num_tokens=3),
            "not followed from their beginning; begin with an empty cache",
        ),
    ],
)
def test_ways_to_generate_that_change_the_cache_are_refused(options, reason, path):
    ids = tokens(4).repeat(1, 4)
    refuse(build("llama"), path, reason, lambda model: generate(model, ids, 12, **options))


def test_a_model_that_reads_its_text_again_above_a_length_is_refused(path):
    refuse(
        longrope(16), path, "after 16 tokens the model reads all of them again",
        lambda model: generate(model, tokens(12), 8),
    )  # fmt: skip


def test_a_layer_that_attends_twice_is_refused(path):
    model = transformers.AutoModelForCausalLM.from_config(_config("DiffLlamaConfig"))
    refuse(model.eval(), path, "layer 0 attends twice in a forward pass", read)


def test_a_cache_from_before_the_recording_is_refused(path):
    model = build("llama")
    with torch.no_grad():
        cache = returned_cache(model(tokens(12), use_cache=True))

    def run(model):
        model(tokens(3), **cache_argument(model, cache))

    refuse(model, path, "the cache holds 12 tokens", run)


def test_a_part_of_the_model_called_alone_is_refused(path):
    refuse(build("llama"), path, "call the whole model", lambda model: read(model.model))


class Wrapper(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner, self.config = inner, inner.config

    def forward(self, *args, **options):
        return self.inner(*args, **options)


@pytest.mark.parametrize("wrap", [Wrapper, torch.compile])
def test_a_wrapped_model_is_refused_at_once_and_the_model_inside_named(wrap, path):
    model = wrap(build("llama"))
    reason = "is a wrapper; use the LlamaForCausalLM inside it"
    refuse(model, path, reason, lambda model: pytest.fail("the recording began"))


def test_a_model_called_by_its_wrapper_is_recorded(path):
    inner = build("llama")
    with recording(inner, path):
        read(Wrapper(inner))


def test_gradient_checkpointing_is_refused_by_its_name(path):
    model = build("llama").train()
    model.gradient_checkpointing_enable({"use_reentrant": False})

    def run(model):
        model(tokens(12)).logits.sum().backward()

    refuse(model, path, "without gradient checkpointing", run)


def test_after_a_failed_step_the_same_text_cannot_go_on(path):
    def run(model):
        with torch.no_grad():
            cache = returned_cache(model(tokens(5), use_cache=True))
            hook = model.model.layers[1].register_forward_pre_hook(lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                model(tokens(1), **cache_argument(model, cache))
            hook.remove()
            model(tokens(1), **cache_argument(model, cache))

    refuse(build("llama"), path, "the forward pass before this one failed", run)


def test_a_text_that_lacks_a_layer_is_refused(path):
    def run(model):
        read(model)
        layers = model.model.layers
        model.model.layers = layers[:2]
        read(model)
        model.model.layers = layers

    refuse_the_second(build("llama"), path, r"sequence-1 has layers \[0, 1\], an earlier one", run)


def test_a_recording_of_nothing_is_refused(path):
    refuse(build("llama"), path, "no attention was recorded", lambda model: None)


def test_a_recording_inside_another_is_refused(path):
    def run(model):
        with recording(build("qwen2"), path.with_name("u.h5")):
            pass

    refuse(build("llama"), path, "another model is recorded", run)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (dict(layers=[3]), r"layers: expected some of 0\.\.2, found \[3\]"),
        (dict(layers=[]), r"layers: expected some of 0\.\.2"),
        (dict(dtype="bfloat16"), "dtype: expected auto or float16 or float32, found bfloat16"),
        (dict(names=["a/b"]), "without a slash"),
        (dict(names="text"), "names: expected a list of names, found the text 'text'"),
    ],
)
def test_options_that_do_not_fit_are_usage_errors(options, reason, path):
    refuse(build("llama"), path, reason, read, UsageError, **options)


def test_names_that_are_not_those_of_the_texts_are_usage_errors(path):
    refuse_the_second(
        build("llama"), path, "no text came for b", read, UsageError, names=["a", "b"]
    )

    def run(model):
        read(model)
        read(model)

    reason = "two sequences are named a"
    refuse_the_second(build("llama"), path, reason, run, UsageError, names=["a", "a"])
