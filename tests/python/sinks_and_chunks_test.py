"""Learned sinks, which take attention and give no value, and attention in chunks."""

import subprocess

import h5py
import numpy as np
import pytest

import kvsim
from conftest import PROGRAM, needs_program
from kvsim.report.numbers.attention import cells_of, read_head, retained
from trace_format import seal_again

TOKENS, CHUNK, BUDGET = 50, 18, 7
SINKS = np.array([-2.0, 0.5, 1.5, 6.0], np.float32)


def arrays(seed=0):
    random = np.random.default_rng(seed)
    return [random.normal(size=(heads, TOKENS, 6)).astype(np.float32) for heads in (4, 2, 2)]


def attention(query, key, sink, chunk):
    """a[t,j] of a query head, one step and token after the other."""
    rows = np.zeros((TOKENS, TOKENS))
    for t in range(TOKENS):
        for j in range(t + 1):
            if j // chunk == t // chunk:
                rows[t, j] = np.exp(query[t].astype(float) @ key[j] * 6**-0.5)
        rows[t] /= rows[t].sum() + np.exp(float(sink))
    return rows


@pytest.fixture(params=[CHUNK, None])
def chunk(request):
    return request.param


def made(chunk):
    return kvsim.Trace.from_arrays(*arrays(), sink_logit=SINKS, attention_chunk=chunk)


def test_a_unit_shows_its_sinks_and_its_chunk(chunk):
    trace = made(chunk)
    (layer,) = trace.sequences[0].layers
    assert layer.has_sink_logit and layer.attention_chunk == chunk
    for kv_head in (0, 1):
        unit = trace.unit(kv_head=kv_head)
        np.testing.assert_array_equal(unit.sink_logit, SINKS[2 * kv_head : 2 * kv_head + 2])
        assert unit.attention_chunk == chunk
    plain = kvsim.Trace.from_arrays(*arrays())
    assert plain.trace_id != kvsim.Trace.from_arrays(*arrays(), sink_logit=SINKS).trace_id
    assert plain.unit().sink_logit is None and plain.unit().attention_chunk is None


def test_layers_may_differ_in_sinks_and_chunks():
    trace = kvsim.Trace.from_arrays(
        {0: arrays(), 3: arrays(1)}, sink_logit={3: SINKS.tolist()}, attention_chunk={0: 5}
    )
    found = [(each.attention_chunk, each.has_sink_logit) for each in trace.sequences[0].layers]
    assert found == [(5, False), (None, True)]


@pytest.mark.parametrize("policy", ["window", "h2o", "tova", "topk", "optimal"])
def test_a_replay_loses_what_the_missing_tokens_had(policy, chunk):
    query, key, value = arrays()
    trace = made(chunk)
    for kv_head in (0, 1):
        replay = kvsim.replay(trace, policy, BUDGET, kv_head=kv_head)
        assert replay.row["bound_violations"] == 0
        if policy == "topk":
            continue  # evicts nothing
        missing = replay.evicted_after < np.arange(TOKENS)[:, None]
        for member in (0, 1):
            head = 2 * kv_head + member
            full = attention(query[head], key[kv_head], SINKS[head], chunk or TOKENS)
            kept = np.where(missing, 0, full)
            kept /= (1 - np.where(missing, full, 0).sum(1))[:, None]
            loss = np.where(missing, full, 0).sum(1)
            np.testing.assert_allclose(replay.attention_recall[member], 1 - loss, atol=1e-6)
            output, cached = full @ value[kv_head], kept @ value[kv_head]
            error = np.linalg.norm(output - cached, axis=1) / np.linalg.norm(output, axis=1)
            np.testing.assert_allclose(replay.output_error[member], error, rtol=1e-4, atol=1e-6)


def test_a_full_cache_loses_nothing_and_no_policy_beats_the_oracles(chunk):
    frame = kvsim.sweep(made(chunk), "all;oracles", [BUDGET, TOKENS], mode="stream")
    recall = frame.pivot(index=["kv_head", "policy"], columns="budget", values="attention_recall")
    names = recall.index.get_level_values("policy").str.split("[:+@]").str[0]
    assert (recall.loc[names == "full"] == 1).all(axis=None)
    for kv_head in (0, 1):
        rows = frame[(frame.kv_head == kv_head) & (frame.budget == BUDGET)].set_index("policy")
        best = rows.attention_recall[rows.index.str.startswith("optimal:recent=0,cost=mass")].max()
        topk = rows.attention_recall[rows.index == "topk:h2=0"].max()
        assert topk >= best
        evicting = rows[~rows.index.str.match("topk|full|subgen|kcenter")]
        assert (evicting.attention_recall <= best + 1e-9).all()


def test_a_curve_is_its_replays(chunk):
    trace = made(chunk)
    curve = kvsim.curve(trace, "window;h2o:recent=0,score=full", output_error="all")
    sweep = kvsim.sweep(trace, "window;h2o:recent=0,score=full", [1, 5, 20, TOKENS])
    both = sweep.merge(curve, on=["policy", "budget", "kv_head"], suffixes=("", "_curve"))
    assert len(both) == len(sweep)
    for column in ("attention_recall", "output_error_mean", "output_error_max", "bound_mean"):
        np.testing.assert_allclose(both[column], both[f"{column}_curve"], rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(sink_logit=[1.0, 2.0]), "sink_logit: layer 0: expected 4 numbers"),
        (dict(sink_logit={2: SINKS}), r"sink_logit: expected layers of \[0\], found \[2\]"),
        (dict(attention_chunk={1: 4}), r"attention_chunk: expected layers of \[0\], found \[1\]"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(options, message):
    with pytest.raises(kvsim.UsageError, match=message):
        kvsim.Trace.from_arrays(*arrays(), **options)


def test_numbers_that_no_trace_holds_are_refused():
    with pytest.raises(kvsim.DataError, match="attention_chunk: expected an integer of at least 1"):
        kvsim.Trace.from_arrays(*arrays(), attention_chunk=0)
    with pytest.raises(kvsim.DataError, match="sink_logit: expected 4 finite numbers"):
        kvsim.Trace.from_arrays(*arrays(), sink_logit=[0, np.inf, 0, 0])


def test_rest_is_refused_where_chunks_hide_tokens():
    with pytest.raises(kvsim.DataError, match=r"expected no attention_chunk for window\+rest"):
        kvsim.sweep(made(CHUNK), "window+rest", [BUDGET])
    (row, _) = kvsim.sweep(made(None), "window+rest", [BUDGET]).itertuples()
    assert 0 < row.attention_recall < 1


def test_the_pages_attention_is_that_of_the_definition(tmp_path):
    path = tmp_path / "t.h5"
    trace = kvsim.synth(path, tokens=TOKENS, sink_logit=1, attention_chunk=CHUNK, dtype="float32")
    head = read_head(path, "synthetic", 0, 2)
    unit = trace.unit("synthetic", 0, 1)
    rows = np.concatenate([weights for _, weights in head.attention()])
    logits = unit.scale * unit.query[0].astype(float) @ unit.key.T
    expected = np.zeros((TOKENS, TOKENS))
    for t in range(TOKENS):
        seen = slice(t // CHUNK * CHUNK, t + 1)
        weights = np.exp(logits[t, seen])
        expected[t, seen] = weights / (weights.sum() + np.exp(float(unit.sink_logit[0])))
    np.testing.assert_allclose(rows, expected, atol=1e-6)
    assert not cells_of(head, TOKENS).visible[CHUNK, CHUNK - 1]
    replay = kvsim.replay(path, "window", 5, layer=0, kv_head=1)
    found = retained(head, replay.evicted_after, 0)
    assert found == pytest.approx(replay.attention_recall[0].mean(), abs=1e-5)


@needs_program
def test_verify_recomputes_with_sinks_and_chunks(tmp_path):
    path = tmp_path / "t.h5"
    kvsim.synth(path, tokens=TOKENS, sink_logit=1, attention_chunk=CHUNK)

    def verify():
        return subprocess.run([PROGRAM, "verify", path], capture_output=True, text=True)

    assert verify().returncode == 0
    shown = subprocess.run([PROGRAM, "info", path], capture_output=True, text=True).stdout
    assert f"chunks of {CHUNK}, sink_logit" in shown
    with h5py.File(path, "a") as file:
        file["sequences/synthetic/layers/1/sink_logit"][0] += 1
    assert "layers/1/sink_logit: expected digest" in verify().stderr
    seal_again(path)
    assert "1 of 2 layers differ" in verify().stderr
    with h5py.File(path, "a") as file:
        file["sequences/synthetic/layers/1/sink_logit"][0] -= 1
        file["sequences/synthetic/layers/0"].attrs["attention_chunk"] = CHUNK + 1
    seal_again(path)
    assert "1 of 2 layers differ" in verify().stderr


def test_analyses_take_a_trace_with_both(chunk):
    tables = kvsim.analyze(
        made(chunk), what="all", policies="h2o;scissorhands;subgen", budgets=[12], progress=False
    )
    (sinks,) = set(tables["unit"].has_sink_logit)
    assert sinks == 1
    sparse = tables["sparsity"].set_index("query_head")
    for head in range(4):
        rows = attention(arrays()[0][head], arrays()[1][head // 2], SINKS[head], chunk or TOKENS)
        seen = [row[row > 0] for row in rows]
        small = sum((row < 0.01 * row.max()).sum() for row in seen)
        assert sparse.sparsity[head] == pytest.approx(small / sum(map(len, seen)))
    broken = tables["scissorhands_bound"].broken_assumptions
    assert broken.str.contains("a learned sink takes attention").all()
