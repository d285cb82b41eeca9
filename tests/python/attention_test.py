import numpy as np
import pytest

import kvsim
from conftest import H2O, SAMPLE, TOKENS, write_trace
from kvsim.report.numbers import attention


def _by_definition(head):
    weights = np.zeros((TOKENS, TOKENS))
    for t in range(TOKENS):
        first = 0 if head.window is None else max(0, t - head.window + 1)
        logits = head.scale * np.array([head.query[t] @ head.key[j] for j in range(first, t + 1)])
        if head.softcap:
            logits = head.softcap * np.tanh(logits / head.softcap)
        weights[t, first : t + 1] = np.exp(logits) / np.exp(logits).sum()
    return weights


@pytest.mark.parametrize("softcap, window", [(None, None), (2.0, None), (None, 5), (2.0, 5)])
def test_attention_is_the_definition(tmp_path, monkeypatch, softcap, window):
    monkeypatch.setattr(attention, "_BLOCK", 7)
    write_trace(tmp_path / "trace.h5", softcap, window)
    head = attention.read_head(tmp_path / "trace.h5", "one", 1, 3)
    rows = np.concatenate([weights for _, weights in head.attention()])
    assert rows == pytest.approx(_by_definition(head), abs=1e-6)


@pytest.mark.parametrize("most", [TOKENS, 16, 7])
def test_cells_hold_the_largest_attention(tmp_path, most):
    write_trace(tmp_path / "trace.h5")
    head = attention.read_head(tmp_path / "trace.h5", "one", 0, 0)
    cells = attention.cells_of(head, most)
    width = -(-TOKENS // most)
    padded = np.zeros((len(cells.attention) * width,) * 2)
    padded[:TOKENS, :TOKENS] = _by_definition(head)
    blocks = padded.reshape(len(cells.attention), width, -1, width).max(axis=(1, 3))
    assert cells.attention == pytest.approx(blocks, abs=1e-6)
    assert (cells.visible == np.tri(len(blocks), dtype=bool)).all()


def test_a_token_is_kept_up_to_the_step_after_which_it_leaves():
    kept = attention.kept_cells(np.array([1, 4, 4, 4]), 1)
    assert kept[:, 0].tolist() == [1, 1, 0, 0]
    assert (kept[:, 1:] == 1).all()


def test_another_trace_is_refused(tmp_path):
    write_trace(tmp_path / "trace.h5", trace_id="b" * 64)
    with pytest.raises(attention.TraceError, match="another trace"):
        attention.find_trace("trace.h5", tmp_path, "a" * 64)
    with pytest.raises(attention.TraceError, match="is not there"):
        attention.find_trace("gone.h5", tmp_path, "a" * 64)
    (tmp_path / "text.h5").write_text("none")
    with pytest.raises(attention.TraceError, match="no trace"):
        attention.find_trace("text.h5", tmp_path, "a" * 64)
    with pytest.raises(attention.TraceError, match="has no layer 9"):
        attention.read_head(tmp_path / "trace.h5", "one", 9, 0)


def test_the_right_trace_is_found_after_another_of_its_name(tmp_path, monkeypatch):
    here, results = tmp_path / "here", tmp_path / "results"
    for folder, trace_id in ((here, "b" * 64), (results, "a" * 64)):
        folder.mkdir()
        write_trace(folder / "trace.h5", trace_id=trace_id)
    monkeypatch.chdir(here)
    assert attention.find_trace("trace.h5", results, "a" * 64) == results / "trace.h5"


@pytest.mark.parametrize("mode", ["stream", "prefill"])
def test_retained_attention_is_that_of_the_replay(program, tmp_path, mode):
    common = ["--policies", "h2o", "--budgets", "64", "--mode", mode, "--layers", "2"]
    common += ["--heads", "1", "--sequences", "held-out-text", "-o", "r.sqlite"]
    program("sweep", SAMPLE, *common, cwd=tmp_path)
    program("analyze", SAMPLE, "--what", "evictions", *common, cwd=tmp_path)
    results = kvsim.load(tmp_path / "r.sqlite")
    (row,) = results.replay.itertuples()
    assert row.policy == H2O
    recalls = []
    for query_head, left in results.evictions.groupby("query_head"):
        head = attention.read_head(SAMPLE, "held-out-text", 2, query_head)
        evicted_after = np.full(512, 512)
        evicted_after[left["token"]] = left["evicted_after"]
        first = head.prompt_length if mode == "prefill" else 0
        recalls.append(attention.retained(head, evicted_after, first))
    assert np.mean(recalls) == pytest.approx(row.attention_recall, abs=1e-5)
