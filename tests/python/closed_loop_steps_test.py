"""KL and NLL by the kind of the predicted token and step by step, in files and back."""

import json
import sqlite3

import numpy as np
import pandas as pd
import pytest
import torch

import kvsim
from closed_loop_reference import held, log_softmax, logits_of, replayed
from conftest import SAMPLE
from kvsim.closed_loop import imposed
from record_zoo import build, letters, tokens

RETRIEVER = SAMPLE.parent / "tiny-retriever"
LENGTH = 30
PARTS = ["closed_loop_kind", "closed_loop_step"]


def sample_line(first, end):
    """A part of the first sample text with its spans, and two that meet them."""
    whole = json.loads((SAMPLE.parent / "texts.jsonl").read_text().splitlines()[0])
    spans = [
        [max(a, first) - first, min(b, end) - first, label]
        for a, b, label in whole["spans"]
        if a < end and b > first
    ]
    (a, b, _) = next(span for span in spans if span[2] == "answer")
    spans += [[a, b + 3, "number"], [b, b + 2, "text"]]
    return {"text": whole["text"][first:end], "spans": spans, "name": "part"}


@pytest.mark.parametrize("mode", ["stream", "prefill"])
def test_kinds_and_steps_are_those_of_the_definitions(mode, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(RETRIEVER, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(RETRIEVER)
    line = sample_line(760, 1000)
    encoded = tokenizer(line["text"], return_offsets_mapping=True, return_tensors="pt")
    ids, places = encoded.input_ids, encoded.offset_mapping[0].tolist()
    n, prompt = ids.shape[1], 60 if mode == "prefill" else 0
    trace, output = tmp_path / "t.h5", tmp_path / "r.sqlite"
    with kvsim.recording(
        model, trace, dtype="float32", names=["part"], prompt_length=prompt or None
    ), torch.no_grad():  # fmt: skip
        model(ids)
    how = dict(mode=mode, eviction_interval=1)
    kvsim.evaluate(
        model, line, "h2o", "10%", tokenizer=tokenizer, trace=trace, output=output, per_step=True,
        prompt_length=prompt or None, progress=False, **how,
    )  # fmt: skip
    kept = replayed(kvsim.Trace(trace), "h2o", "10%", **how)
    p, q = (
        log_softmax(logits_of(model, ids, sees))
        for sees in ([np.tril(np.ones((4, n, n), bool))] * 4, [held(layer) for layer in kept])
    )
    results = kvsim.load(output)
    steps = kvsim.closed_loop_steps(results)
    assert steps.step.tolist() == list(range(prompt, n))
    found = {}
    for t in range(prompt, n):
        row = steps.iloc[t - prompt]
        kl = sum(np.exp(p[t, v]) * (p[t, v] - q[t, v]) for v in range(p.shape[1]))
        assert row.kl == pytest.approx(kl, rel=1e-3, abs=2e-5)
        if t == n - 1:
            assert row[["kind", "nll_full", "nll"]].isna().all()
            continue
        token = int(ids[0, t + 1])
        assert row.nll_full == pytest.approx(-p[t, token], rel=1e-4, abs=2e-4)
        assert row.nll == pytest.approx(-q[t, token], rel=1e-4, abs=2e-4)
        first, end = places[t + 1]
        kinds = {label for a, b, label in line["spans"] if a < end and first < b} or {"text"}
        assert row.kind == "+".join(sorted(kinds))
        likely = p[t].argmax(), q[t].argmax()
        numbers = [-p[t, token], -q[t, token], kl, likely[0] == likely[1], *np.equal(likely, token)]
        for kind in kinds:
            found.setdefault(kind, []).append(numbers)
    table = results.closed_loop_kind.set_index("kind")
    expected = {"text", "question", "answer", "number"} | (
        {"needle"} if mode == "stream" else set()
    )
    assert set(table.index) == set(found) == expected
    for kind, numbers in found.items():
        nll_full, nll, kl, agrees, right_full, right = np.array(numbers, float).T
        row = table.loc[kind]
        assert row.tokens == len(numbers)
        measured = [row.nll_full, row.nll, row.delta_nll, row.kl_mean]
        expected = [nll_full.mean(), nll.mean(), (nll - nll_full).mean(), kl.mean()]
        assert measured == pytest.approx(expected, abs=1e-4)
        assert row.top1_agreement == pytest.approx(agrees.mean())
        assert (row.tokens_right_full, row.tokens_right) == (right_full.sum(), right.sum())
    (whole,) = results.closed_loop.itertuples()
    assert whole.kl_mean == pytest.approx(steps.kl.mean(), rel=1e-4) and whole.kl_mean > 0.01
    assert whole.nll == pytest.approx(steps.nll.mean(), rel=1e-4)
    assert set(table.policy_code) == {whole.policy_code} and set(table.run_id) == {whole.run_id}


def evaluate(texts=None, policies="window;tova", **options):
    texts = tokens(LENGTH) if texts is None else texts
    return kvsim.evaluate(build("llama"), texts, policies, "6", progress=False, **options)


def test_a_text_without_spans_is_of_one_kind(tmp_path):
    output = tmp_path / "r.sqlite"
    (row,) = evaluate(policies="tova", output=output).itertuples()
    results = kvsim.load(output)
    (kind,) = results.closed_loop_kind.itertuples()
    assert (kind.kind, kind.tokens) == ("text", LENGTH - 1)
    assert (kind.nll, kind.nll_full) == pytest.approx((row.nll, row.nll_full), rel=1e-12)
    assert kind.delta_nll == pytest.approx(row.delta_nll, abs=1e-12)
    assert "closed_loop_step" not in results
    with pytest.raises(kvsim.DataError, match=r"found none\. What writes them.* --per-step -o"):
        kvsim.closed_loop_steps(output)
    with pytest.raises(kvsim.NoSuchTable, match="--per-step -o"):
        _ = results.closed_loop_step


def test_steps_are_lists_of_json_that_sqlite_reads(tmp_path):
    output = tmp_path / "r.sqlite"
    evaluate(policies="tova", output=output, per_step=True)
    (row,) = kvsim.load(output).closed_loop_step.itertuples()
    nll = json.loads(row.nll)
    assert len(nll) == LENGTH and nll[-1] is None and row.first_step == 0
    assert all(float(f"{value:.5g}") == value for value in nll[:-1])
    with sqlite3.connect(output) as connection:
        sql = "SELECT count(*), avg(value) FROM closed_loop_step, json_each(kl)"
        ((count, mean),) = connection.execute(sql)
    frame = kvsim.closed_loop_steps(str(output))
    assert list(frame) == [
        "model_id", "sequence", "policy", "budget", "mode", "loop", "seed", "step", "kind", "kl",
        "nll_full", "nll",
    ]  # fmt: skip
    assert count == LENGTH and mean == pytest.approx(frame.kl.mean())
    pd.testing.assert_frame_equal(frame, kvsim.closed_loop_steps(dict(
        closed_loop_step=kvsim.load(output).closed_loop_step)))  # fmt: skip


def test_without_a_next_token_there_are_no_kinds(tmp_path):
    output = tmp_path / "r.sqlite"
    first = evaluate(tokens(1), "window", output=output, per_step=True)
    assert kvsim.load(output).closed_loop_kind.empty
    frame = kvsim.closed_loop_steps(output)
    assert frame[["kind", "nll_full", "nll"]].isna().all(axis=None) and frame.kl.notna().all()
    again = evaluate(tokens(1), "window", output=output, per_step=True)
    assert again.run_id.tolist() == first.run_id.tolist()


@pytest.fixture
def passes(monkeypatch):
    """Grows with each forward pass that is imposed on."""
    found = []
    forward = imposed.forward

    def counted(*arguments):
        found.append(1)
        return forward(*arguments)

    monkeypatch.setattr(imposed, "forward", counted)
    return found


def test_rows_without_their_steps_are_made_again_where_steps_are_asked_for(tmp_path, passes):
    output = tmp_path / "r.sqlite"
    evaluate(policies="window", output=output)
    with pytest.warns(kvsim.KvsimWarning, match="^1 row has nothing in closed_loop_step and is"):
        evaluate(output=output, per_step=True)
    assert len(passes) == 3  # window twice
    evaluate(output=output, per_step=True)
    evaluate(output=output)
    assert len(passes) == 3
    assert len(kvsim.load(output).closed_loop_step) == 2
    evaluate(policies="window", output=output, force=True)
    left = kvsim.load(output).closed_loop_step
    assert [policy.partition(":")[0] for policy in left.policy] == ["tova"]  # of the older row


@pytest.mark.parametrize("sql", ["DROP TABLE closed_loop_kind", "DELETE FROM closed_loop_kind"])
def test_rows_of_an_earlier_version_get_their_kinds(sql, tmp_path, passes):
    output = tmp_path / "r.sqlite"
    evaluate(output=output)
    with sqlite3.connect(output) as connection:
        connection.execute(sql)
        connection.execute("DELETE FROM digest WHERE table_name = 'closed_loop_kind'")
    with pytest.warns(kvsim.KvsimWarning, match="^2 rows have nothing in closed_loop_kind and are"):
        evaluate(output=output)
    assert len(passes) == 4
    assert len(kvsim.load(output).closed_loop_kind) == 2


def test_kinds_of_earlier_spans_go(tmp_path):
    output = tmp_path / "r.sqlite"
    for spans in ([[4, 9, "needle"]], [[10, 14, "answer"]]):
        line = {"text": "the ships wait", "name": "text", "spans": spans}
        evaluate(line, "window", tokenizer=letters(), output=output, per_step=True)
        results = kvsim.load(output)
        assert set(results.closed_loop_kind.kind) == {spans[0][2], "text"}
        kinds = kvsim.closed_loop_steps(output).kind
        assert list(np.flatnonzero(kinds == spans[0][2])) == list(
            range(spans[0][0] - 1, spans[0][1] - 1)
        )
    assert kvsim.check(output) is not None


def test_parts_of_texts_are_merged(tmp_path):
    texts = [tokens(LENGTH)[0], tokens(20, seed=2)[0]]
    evaluate(texts, output=tmp_path / "whole.sqlite", per_step=True)
    parts = [tmp_path / f"{index}.sqlite" for index in (1, 2)]
    for index, part in enumerate(parts, 1):
        evaluate(texts, output=part, per_step=True, shard=f"{index}/2")
    kvsim.merge([*parts, parts[0]], tmp_path / "all.sqlite")
    whole, joined = (kvsim.load(tmp_path / f"{name}.sqlite") for name in ("whole", "all"))
    for table in PARTS:
        frames = [each[table].drop(columns="run_id") for each in (whole, joined)]
        pd.testing.assert_frame_equal(*frames)
    assert len(joined.closed_loop_step) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(per_step="yes", output="r.sqlite"), "per_step: expected True or False, found 'yes'"),
        (dict(per_step=1, output="r.sqlite"), "per_step: expected True or False, found 1"),
        (dict(per_step=True), "per_step: expected output, the result file that keeps the steps"),
    ],
)
def test_bad_usage_is_refused(options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kvsim.UsageError, match=message):
        evaluate(**options)
    assert not (tmp_path / "r.sqlite").exists()


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("kl", "[1", "kl: expected JSON, found Expecting"),
        ("nll", '["a"]', "nll: expected numbers, found could not convert"),
        ("spans", None, "spans: expected JSON"),
        ("nll_full", "[1,2]", "expected three lists of one length"),
    ],
)
def test_lists_that_were_changed_are_refused(column, value, message, tmp_path):
    output = tmp_path / "r.sqlite"
    evaluate(policies="window", output=output, per_step=True)
    with sqlite3.connect(output) as connection:
        connection.execute(f"UPDATE closed_loop_step SET {column} = ?", [value])
    with pytest.raises(kvsim.DataError, match=f"table closed_loop_step, model_id.*{message}"):
        kvsim.closed_loop_steps(output)
