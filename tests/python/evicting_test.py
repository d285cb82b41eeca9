"""A model that evicts while it runs: what it computes, and what it holds."""

import numpy as np
import pytest
import torch

import kvsim
from kvsim.closed_loop import evicting
from kvsim.model import attention
from kvsim.model.cache import cache_argument, returned_cache
from nightly import a_third_by_day
from plain_model import plain_loop
from record_zoo import CONFIGS, build, generate, padded, tokens

LAYERS, KV_HEADS = range(3), range(2)
UNITS = [(layer, head) for layer in LAYERS for head in KV_HEADS]
PROTOCOLS = {
    "stream": dict(),
    "interval": dict(interval=5),
    "prefill": dict(mode="prefill", prompt_length=20),
    "prefill-interval": dict(mode="prefill", prompt_length=20, interval=4),
    "prefill-never": dict(mode="prefill", prompt_length=20, interval="never"),
}


def logits(model, ids, sizes=None, **options):
    """The logits [batch, n, vocabulary] of forward passes over so many tokens each."""
    rows, cache, start = [], None, 0
    with torch.no_grad():
        for size in sizes or [ids.shape[1]]:
            if cache is not None:
                options |= cache_argument(model, cache)
            output = model(ids[:, start : start + size], use_cache=True, **options)
            cache, start = returned_cache(output), start + size
            rows.append(output.logits)
    return torch.cat(rows, 1)


def options_of(protocol):
    """A protocol in the words of `evicting`."""
    options = dict(PROTOCOLS[protocol])
    options["eviction_interval"] = options.pop("interval", 1)
    return options


@a_third_by_day
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("policy", ["window", "h2o", "tova", "lru"])
def test_a_plain_loop_agrees_in_all_layers(policy, protocol):
    model, ids = build("llama"), tokens(48)
    expected, caches = plain_loop(model, ids[0], policy, 12, **PROTOCOLS[protocol])
    with evicting(model, policy, 12, **options_of(protocol)) as cache:
        found = logits(model, ids)
    for layer, head in UNITS:
        (left,) = cache.evicted_after(layer, head)
        assert left.tolist() == caches.evicted_after(layer)[head].tolist()
        (kept,) = cache.kept(layer, head)
        assert kept.tolist() == caches.heads[layer][head].tokens
    np.testing.assert_allclose(found[0].numpy(), expected.numpy(), atol=1e-3)
    assert (found - logits(model, ids)).abs().max() > 0.1


@pytest.mark.parametrize("sizes", [[1] * 40, [25, 7, 1, 1, 6], [20, 20]])
@pytest.mark.parametrize("protocol", ["stream", "prefill"])
def test_a_text_may_come_in_pieces(protocol, sizes):
    model, ids = build("llama"), tokens(40)
    with evicting(model, "h2o", 12, **options_of(protocol)) as cache:
        whole = logits(model, ids)
        expected = [cache.evicted_after(*unit)[0].tolist() for unit in UNITS]
        pieces = logits(model, ids, sizes)
        assert [cache.evicted_after(*unit)[0].tolist() for unit in UNITS] == expected
    torch.testing.assert_close(pieces, whole, atol=1e-4, rtol=1e-4)


@a_third_by_day
@pytest.mark.parametrize("name", CONFIGS)
def test_full_is_the_plain_model(name):
    model, ids = build(name), tokens(20)
    many, mask = padded([20, 7, 13])
    expected = logits(model, ids), generate(model, ids), generate(model, many, attention_mask=mask)
    together = logits(model, many, attention_mask=mask)
    with evicting(model, "full", 4) as cache:
        torch.testing.assert_close(logits(model, ids), expected[0], atol=1e-5, rtol=0)
        assert torch.equal(generate(model, ids), expected[1])
        torch.testing.assert_close(
            logits(model, many, attention_mask=mask)[mask == 1], together[mask == 1],
            atol=1e-5, rtol=0,
        )  # fmt: skip
        assert torch.equal(generate(model, many, attention_mask=mask), expected[2])
    assert [len(kept) for kept in cache.kept(1, 0)] == [31, 18, 24]
    assert cache.peak_tokens == 31
    with evicting(model, "h2o", 4) as cache:
        assert (logits(model, ids) - expected[0]).abs().max() > 1e-2
    assert {len(cache.kept(layer, 0)[0]) for layer in LAYERS} == {4}


# tests/python/architectures does the same with every kind of model.
@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt2", "gpt_oss", "jetmoe"])
def test_evicting_attention_returns_what_the_models_own_does(name, monkeypatch):
    def layouts(result):
        output, weights = result
        shapes = [None if x is None else (x.shape, x.dtype) for x in (output, weights)]
        return output.stride(), *shapes

    def watched(choose):
        evicting_one = intercepted_by(choose)

        def attend(module, *vectors, **options):
            result = evicting_one(module, *vectors, **options)
            own = choose(module, options)(module, *vectors, **options)
            found.append((layouts(result), layouts(own)))
            return result

        return attend

    intercepted_by, found = attention._intercepted, []
    model, (ids, mask) = build(name), padded([20, 13])
    monkeypatch.setattr(attention, "_intercepted", watched)
    with evicting(model, "window", 8):
        found.clear()  # of the pass that looks at the model
        logits(model, ids, attention_mask=mask)
    assert found
    for evicted, own in found:
        assert evicted == own


@pytest.mark.parametrize("mode", ["stream", "prefill"])
def test_a_budget_above_the_length_generates_what_the_plain_model_does(mode):
    model, ids = build("llama"), tokens(20)
    sampled = dict(do_sample=True, temperature=1.5, top_k=None)
    torch.manual_seed(3)
    expected = generate(model, ids), generate(model, ids, **sampled)
    with evicting(model, "tova", 1000, mode=mode):
        torch.manual_seed(3)
        assert torch.equal(generate(model, ids), expected[0])
        assert torch.equal(generate(model, ids, **sampled), expected[1])


def test_what_is_sampled_follows_from_the_seeds():
    model, ids = build("llama"), tokens(20)

    def sample(seed):
        torch.manual_seed(3)
        with evicting(model, "random", 8, seed=seed):
            return generate(model, ids, do_sample=True, top_k=None).tolist()

    assert sample(1) == sample(1) != sample(2)


@a_third_by_day
@pytest.mark.parametrize("mode", ["stream", "prefill"])
@pytest.mark.parametrize("name", ["llama", "mistral", "gpt2"])
def test_members_of_a_padded_batch_are_as_alone(name, mode):
    model = build(name)
    ids, mask = padded([20, 7, 13])
    with evicting(model, "h2o:recent=2", 6, mode=mode) as batch:
        together = generate(model, ids, attention_mask=mask)
    for index, length in enumerate([20, 7, 13]):
        with evicting(model, "h2o:recent=2", 6, mode=mode) as alone:
            one = generate(model, ids[index : index + 1, -length:])
        assert one[0, length:].tolist() == together[index, 20:].tolist()
        for unit in UNITS:
            assert alone.kept(*unit)[0].tolist() == batch.kept(*unit)[index].tolist()
            assert alone.kept(*unit)[0].size == 6


@pytest.mark.parametrize("read", [logits, generate])
def test_a_cache_of_the_last_tokens_is_all_that_a_sliding_window_sees(read):
    model, ids = build("mistral"), tokens(30)  # it sees 8 tokens
    plain = read(model, ids)
    with evicting(model, "window", 8) as cache:
        found = read(model, ids)
    torch.testing.assert_close(found, plain, atol=1e-5, rtol=0)
    assert cache.peak_tokens == 8
    with evicting(model, "window", 3):
        assert not torch.equal(read(model, ids), plain)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_half_precision(kind):
    model, ids = build("llama").to(kind), tokens(20)
    expected = generate(model, ids)
    with evicting(model, "full", 4):
        assert torch.equal(generate(model, ids), expected)
    with evicting(model, "window", 5) as cache:
        generate(model, ids)
    assert cache.kept(2, 1)[0].tolist() == [26, 27, 28, 29, 30]
    per_head = 5 * (16 + 16) * 2
    assert cache.cache_bytes == per_head * len(UNITS)


def test_an_eager_model_with_its_weights():
    model, ids = build("llama"), tokens(20)
    model.set_attn_implementation("eager")
    with evicting(model, "window", 5), torch.no_grad():
        output = model(ids, output_attentions=True)
    for weights in output.attentions:
        assert weights.shape == (1, 4, 20, 20)
        distance = torch.arange(20)[:, None] - torch.arange(20)
        assert bool((weights[0][:, (distance < 0) | (distance > 5)] == 0).all())
        torch.testing.assert_close(weights.sum(-1), torch.ones(1, 4, 20))


def test_a_chat_goes_on_with_its_cache():
    model, ids = build("llama"), tokens(12)
    with evicting(model, "h2o", 10) as cache:
        first = generate(model, ids, 6, return_dict_in_generate=True)
        turn = torch.cat([first.sequences, tokens(5, seed=1)], 1)
        second = generate(model, turn, 6, **cache_argument(model, returned_cache(first)))
        assert cache.num_begun == 1
    _, caches = plain_loop(model, second[0, :-1], "h2o", 10)
    for layer, head in UNITS:
        (left,) = cache.evicted_after(layer, head)
        assert left.tolist() == caches.evicted_after(layer)[head].tolist()


def test_an_empty_cache_begins_a_new_text():
    model = build("llama")
    with evicting(model, "window", 5) as cache:
        generate(model, tokens(12))
        logits(model, tokens(9).repeat(2, 1))
        assert cache.num_begun == 3
        assert [kept.tolist() for kept in cache.kept(0, 0)] == [[4, 5, 6, 7, 8]] * 2


def test_the_end_of_a_text_is_the_end_of_its_sequence():
    model = build("llama")
    ids, mask = padded([8, 8])
    with evicting(model, "tova", 6):
        expected = generate(model, ids, attention_mask=mask)
    first, second = expected[:, 8:].tolist()
    length = next(
        at for at in range(1, 12) if first[at] not in second and first[at] not in first[:at]
    )
    model.generation_config.eos_token_id = first[length]
    with evicting(model, "tova", 6) as cache:
        found = generate(model, ids, attention_mask=mask, min_new_tokens=None)
    assert torch.equal(found[1], expected[1])
    assert [len(left) for left in cache.evicted_after(0, 0)] == [8 + length, 19]


def test_a_share_is_of_each_prompt():
    model = build("llama")
    ids, mask = padded([20, 7])
    with evicting(model, "window", "25%", mode="prefill") as cache:
        generate(model, ids, attention_mask=mask)
    assert [len(kept) for kept in cache.kept(0, 0)] == [5, 2]
    assert cache.peak_tokens == 5


class Newest(kvsim.Policy):
    """As window, in Python."""

    name = "newest-of-evicting"

    def __init__(self, budget, seed=0, fails_at=-1):
        self.fails_at = fails_at

    def update(self, step, scores):
        if step.index == self.fails_at:
            raise ZeroDivisionError("a fault of the policy")
        scores[-1] = step.index


def test_a_policy_of_python():
    model, ids = build("llama"), tokens(20)
    with evicting(model, "window", 6):
        expected = logits(model, ids)
    with evicting(model, Newest, 6) as cache:
        assert torch.equal(logits(model, ids), expected)
    assert cache.kept(1, 1)[0].tolist() == [14, 15, 16, 17, 18, 19]


def test_what_a_policy_of_python_raises_is_raised_and_the_model_left_as_it_was():
    model, ids = build("llama"), tokens(20)
    plain = logits(model, ids)
    implementation = model.config._attn_implementation
    fault = pytest.raises(ZeroDivisionError, match="a fault of the policy")
    with fault, evicting(model, "newest-of-evicting:fails_at=9", 6):
        logits(model, ids)
    assert model.config._attn_implementation == implementation
    assert "generate" not in vars(model) and not model._forward_pre_hooks
    assert torch.equal(logits(model, ids), plain)
