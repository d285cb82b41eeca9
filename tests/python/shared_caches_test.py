"""Layers that attend with another layer's keys and values (Gemma 3n and 4)."""

import numpy as np
import pandas as pd
import pytest

import kvsim

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
        pd.testing.assert_frame_equal(
            found.drop(columns=left_out), expected.drop(columns=left_out)
        )


def test_a_cache_counts_once():
    frame = kvsim.sweep(shared_trace(), "window", [8])
    assert (frame.cache_bytes == 8 * (8 + 5) * 4).all()


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
