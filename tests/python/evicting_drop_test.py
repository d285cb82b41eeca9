"""drop=True: the rows of evicted tokens leave the model's own cache."""

import pytest
import torch

from kvsim.closed_loop import evicting
from kvsim.model.cache import cache_argument, returned_cache
from nightly import a_third_by_day
from record_zoo import build, generate, padded, tokens


def steps(model, ids, first, mask=None):
    """The logits of a pass over the first tokens and of one for each later token; the cache."""
    rows, cache, start = [], None, 0
    with torch.no_grad():
        for end in range(first, ids.shape[1] + 1):
            options = {} if mask is None else dict(attention_mask=mask[:, :end])
            output = model(
                ids[:, start:end], **cache_argument(model, cache), use_cache=True, **options
            )
            cache, start = returned_cache(output), end
            rows.append(output.logits)
    return torch.cat(rows, 1), cache


def bytes_of(cache):
    return sum(
        rows.untyped_storage().nbytes()
        for layer in cache.layers
        for rows in (layer.keys, layer.values)
    )


@a_third_by_day
@pytest.mark.parametrize("policy", ["tova", "h2o", "window", "random"])
@pytest.mark.parametrize("how", [{}, dict(mode="prefill"), dict(eviction_interval=5)])
def test_memory_falls_and_nothing_else_changes(policy, how):
    model, ids = build("llama"), tokens(40)
    with evicting(model, policy, 8, prompt_length=20, **how) as masked:
        expected, cache = steps(model, ids, 20)
        whole = bytes_of(cache)
        assert set(masked.storage.values()) == {"masked"}
    with evicting(model, policy, 8, prompt_length=20, drop=True, **how) as dropped:
        found, cache = steps(model, ids, 20)
        assert set(dropped.storage.values()) == {"dropped"}
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    held = len(dropped.kept(0, 0)[0])
    assert held == (10 if how.get("eviction_interval") == 5 else 8)
    assert bytes_of(cache) == whole * held // 40
    assert cache.get_seq_length() == 40
    for layer in range(3):
        for head in range(2):
            assert (dropped.kept(layer, head)[0] == masked.kept(layer, head)[0]).all()


def test_a_prompt_that_is_cut_once_keeps_later_rows():
    model, ids = build("llama"), tokens(30)
    how = dict(mode="prefill", eviction_interval="never", prompt_length=20)
    with evicting(model, "knorm", 8, **how):
        expected, _ = steps(model, ids, 20)
    with evicting(model, "knorm", 8, drop=True, **how):
        found, cache = steps(model, ids, 20)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert [layer.keys.shape[2] for layer in cache.layers] == [18] * 3


@pytest.mark.parametrize("name", ["llama", "gpt2", "gpt_bigcode", "qwen3"])
def test_a_padded_batch_generates_the_same(name):
    model = build(name)
    ids, mask = padded([20, 7, 13])
    with evicting(model, "tova", 6) as masked:
        expected = generate(model, ids, attention_mask=mask)
    with evicting(model, "tova", 6, drop=True) as dropped:
        found = generate(model, ids, attention_mask=mask, return_dict_in_generate=True)
    assert torch.equal(found.sequences, expected)
    assert [layer.keys.shape[2] for layer in returned_cache(found).layers] == [6] * 3
    for layer in range(3):
        for one, other in zip(masked.kept(layer, 0), dropped.kept(layer, 0)):
            assert one.tolist() == other.tolist()


def test_rows_stay_until_all_members_hold_equally_many():
    model = build("llama")
    ids, mask = padded([20, 4])
    with evicting(model, "window", 10, drop=True) as cache:
        steps(model, ids, 20, mask)
        assert set(cache.storage.values()) == {"masked"}  # 10 and 4 tokens
    with evicting(model, "window", "50%", mode="prefill", drop=True) as cache:
        expected = generate(model, ids, attention_mask=mask, return_dict_in_generate=True)
        assert set(cache.storage.values()) == {"masked"}  # 10 and 2
    assert returned_cache(expected).layers[0].keys.shape[2] == 31


@pytest.mark.parametrize(
    ("name", "storage"),
    [("gemma2", ["masked", "dropped", "masked"]), ("deepseek_v3", ["masked"] * 3)],
)
def test_rows_stay_in_layers_that_hold_no_row_per_head_and_token(name, storage):
    model, ids = build(name), tokens(20)
    with evicting(model, "h2o", 6):
        expected = generate(model, ids)
    with evicting(model, "h2o", 6, drop=True) as cache:
        assert torch.equal(generate(model, ids), expected)
    assert list(cache.storage.values()) == storage


@pytest.mark.parametrize("how", [{}, dict(page=2), dict(mode="prefill")])
def test_latent_vectors_leave_when_all_heads_keep_the_same_tokens(how):
    model, ids = build("deepseek_v3"), tokens(30)
    how = dict(prompt_length=20, **how)
    with evicting(model, "h2o+shared", 8, **how):
        expected, cache = steps(model, ids, 20)
        whole = bytes_of(cache)
    with evicting(model, "h2o+shared", 8, drop=True, **how) as dropped:
        found, cache = steps(model, ids, 20)
        assert set(dropped.storage.values()) == {"dropped"}
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert bytes_of(cache) == whole * len(dropped.kept(0, 0)[0]) // 30


def test_a_text_after_another_begins_with_all_rows():
    model, ids = build("llama"), tokens(30)
    with evicting(model, "window", 6, drop=True):
        first, cache = steps(model, ids, 20)
        cache.reset()
        with torch.no_grad():
            again = model(ids, **cache_argument(model, cache)).logits
    torch.testing.assert_close(again, first, atol=1e-4, rtol=1e-4)
