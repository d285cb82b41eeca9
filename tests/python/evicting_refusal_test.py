"""What a running model cannot evict by is refused with the reason, in one line."""

import h5py
import pytest
import torch
import transformers

import kvsim
from kvsim.closed_loop import evicting
from kvsim.model.cache import cache_argument, returned_cache
from kvsim.record import RecordError, recording
from record_zoo import _config, build, generate, longrope, tokens


def read(model):
    with torch.no_grad():
        model(tokens(12))


def refuse(reason, error=kvsim.UsageError, run=read, policy="window", budget=4, model=None, **how):
    model = model or build("llama")
    with pytest.raises(error, match=reason) as raised, evicting(model, policy, budget, **how):
        run(model)
    assert "\n" not in str(raised.value)
    assert "generate" not in vars(model) and not model._forward_pre_hooks


@pytest.mark.parametrize("policy", ["optimal", "belady", "topk", "tova:score=full", "h2o-global"])
def test_what_sees_the_future_or_full_attention(policy):
    refuse(policy.split(":")[0], policy=policy)


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        (dict(budget="20%"), "budget 20%: in stream mode the length of the text is not known"),
        (dict(budget=0.2), "budget 0.2: in stream mode the length of the text is not known"),
        (dict(budget="x"), "budget .x. is no amount; expected a number of tokens"),
        (dict(budget="120%", mode="prefill"), "budget .120%. is more than the whole"),
        (dict(policy="windw"), "window"),
        (dict(policy="window;h2o"), "policy: expected one, found 2 in 'window;h2o'"),
        (dict(mode="strem"), "stream"),
        (dict(eviction_interval="never"), "never"),
        (dict(eviction_interval=0), "0"),
        (dict(budget=0), "budget '0' keeps nothing"),
        (dict(budget="4,8"), "budget: expected one, found 2"),
        (dict(prompt_length=2**31), "prompt_length: cannot take 2147483648"),
        (dict(prompt_length=-1), "prompt_length: expected 0 or more"),
        (dict(mode="prefill"), "give prompt_length"),
        (dict(names="text"), "names: expected a list of names, found the text"),
        (dict(names=["a", "a"]), "names: expected each name once"),
        (dict(names=["a", "b"]), "names: no text came for b"),
        (dict(mode="prefill", prompt_length=20), "prompt_length 20: .* had 12 tokens"),
        (dict(policy="spatten"), "feed the model one token at a time"),
    ],
)
def test_arguments_that_do_not_fit(how, reason):
    refuse(reason, **how)


@pytest.mark.parametrize("policy", ["schedule", "kvzip"])
def test_files_of_a_text_that_is_not_known_to_be_the_one_that_comes(policy, tmp_path):
    with h5py.File(tmp_path / "s.h5", "w"):
        pass
    once = dict(mode="prefill", eviction_interval="never", prompt_length=8)
    refuse("evaluate that text", policy=f"{policy}:file={tmp_path / 's.h5'}", **once)


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (dict(num_beams=3), "cache .*changed"),
        (dict(cache_implementation="static"), "StaticCache cannot be followed"),
        (dict(use_cache=False), "use_cache=True"),
        (dict(prompt_lookup_num_tokens=3), "without (beams and )?candidates"),
    ],
)
def test_ways_to_generate_that_change_the_cache(options, reason, drop):
    ids = tokens(4).repeat(1, 4)

    def run(model):
        generate(model, ids, 12, **options)

    refuse(reason, RecordError, run, drop=drop)


@pytest.mark.parametrize(
    ("kind", "options", "reason"),
    [
        ("BertConfig", dict(), "the attention mask is not causal"),
        ("MambaConfig", dict(state_size=4), "no attention that can be followed"),
        ("BloomConfig", dict(), "does not use transformers' AttentionInterface"),
    ],
)
def test_models_that_no_trace_expresses(kind, options, reason):
    config = _config(kind, **options)
    auto = transformers.AutoModel if kind == "BertConfig" else transformers.AutoModelForCausalLM
    refuse(reason, RecordError, model=auto.from_config(config).eval())


def test_a_mask_that_hides_a_token():
    mask = torch.ones(12, 12).tril().bool()[None, None].clone()
    mask[..., 5, 2] = False

    def run(model):
        with torch.no_grad():
            model(tokens(12), attention_mask=mask)

    refuse("the attention mask is not causal", RecordError, run)


def test_a_cache_from_before():
    model = build("llama")
    with torch.no_grad():
        cache = returned_cache(model(tokens(12), use_cache=True))
    refuse(
        "the cache holds 12 tokens", RecordError,
        lambda model: model(tokens(3), **cache_argument(model, cache)), model=model,
    )  # fmt: skip


def test_a_text_does_not_go_on_after_a_failed_step():
    def run(model):
        with torch.no_grad():
            cache = returned_cache(model(tokens(5), use_cache=True))
            hook = model.model.layers[1].register_forward_pre_hook(lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                model(tokens(1), **cache_argument(model, cache))
            hook.remove()
            model(tokens(7))  # a new text may begin
            cache = returned_cache(model(tokens(5), use_cache=True))
            hook = model.model.layers[1].register_forward_pre_hook(lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                model(tokens(1), **cache_argument(model, cache))
            hook.remove()
            model(tokens(1), **cache_argument(model, cache))

    refuse("the forward pass before this one failed", RecordError, run)


def test_one_model_at_a_time(tmp_path):
    def run(model):
        with recording(build("qwen2"), tmp_path / "t.h5"):
            pass

    refuse("another model is recorded or evicts", RecordError, run)


def test_asking_before_any_text():
    with evicting(build("llama"), "window", 4) as cache:
        with pytest.raises(kvsim.UsageError, match="no text was read yet"):
            cache.kept(0, 0)
        read(build("llama"))  # another model, which is not followed
        with pytest.raises(kvsim.UsageError, match="no text was read yet"):
            _ = cache.peak_tokens
    with pytest.raises(kvsim.UsageError, match=r"layer: expected one of \[0, 1, 2\], found 3"):
        cache.kept(3, 0)
    with pytest.raises(kvsim.UsageError, match=r"kv_head: expected 0\.\.1, found 2"):
        cache.evicted_after(0, 2)


def test_slots_above_the_length_at_which_a_model_rotates_otherwise():
    reason = "with 40 tokens the model rotates keys by other frequencies than with few"
    slots = dict(policy="sink:positions=slot", budget=8, error=RecordError, run=read_40)
    refuse(reason, model=longrope(36), **slots)
    model = longrope(36)
    with evicting(model, "sink", 8):
        read_40(model)


def read_40(model):
    with torch.no_grad():
        model(tokens(40))


@pytest.mark.parametrize("name", ["gemma2", "gemma3"])
def test_a_policy_that_needs_an_output_projection_that_is_not_found(name):
    reason = "^knorm.critical.* needs the output projection: layer 0: .*; leave the policy out$"
    refuse(reason, RecordError, policy="knorm+critical", model=build(name))
