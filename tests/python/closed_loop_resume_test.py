"""kvsim.evaluate on a file that holds a part of its rows: what it records and replays."""

import sqlite3
import warnings
from contextlib import closing

import pandas as pd

import kvsim
from closed_loop_rows_test import LENGTH, evaluate
from kvsim.closed_loop import asked as asked_for
from kvsim.closed_loop import replayed as replayed_by
from record_zoo import build, tokens


def test_a_resume_records_only_the_texts_that_lack_rows(tmp_path, monkeypatch):
    model = build("llama")
    texts = {name: tokens(LENGTH, seed=seed)[0] for seed, name in enumerate("ab")}
    asked = dict(policies="all", budgets="20%,6,9", output=tmp_path / "results.sqlite")
    recorded = []
    record = asked_for.recorded

    def counted(model, job, *arguments):
        recorded.append(job.name)
        return record(model, job, *arguments)

    monkeypatch.setattr(asked_for, "recorded", counted)

    def run(*names):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", kvsim.KvsimWarning)  # what all leaves out
            return evaluate(model, [texts[name] for name in names], names=names, **asked)

    first = run("a")
    pd.testing.assert_frame_equal(run("a"), first)
    assert recorded == ["a"]
    both = run("a", "b")
    assert recorded == ["a", "b"] and both.sequence.value_counts().nunique() == 1
    pd.testing.assert_frame_equal(both[both.sequence == "a"].reset_index(drop=True), first)


def test_policies_are_replayed_again_only_where_their_replays_are_there(tmp_path, monkeypatch):
    model, ids, output = build("llama"), tokens(LENGTH), tmp_path / "results.sqlite"
    replayed = []
    replay = replayed_by._replay

    def counted(trace, job, plans, how):
        replayed.append([plan.policy.partition(":")[0] for plan in plans])
        return replay(trace, job, plans, how)

    monkeypatch.setattr(replayed_by, "_replay", counted)
    first = evaluate(model, ids, "topk;h2o;window", output=output)
    assert replayed == []
    with closing(sqlite3.connect(output)) as file, file:
        file.execute("DELETE FROM closed_loop WHERE policy != 'window'")
    again = evaluate(model, ids, "topk;h2o;window;knorm", output=output)
    assert replayed == [["topk", "h2o"]]
    assert again[again.policy != "knorm"].kl_mean.tolist() == first.kl_mean.tolist()


def test_replays_that_were_removed_are_made_again_where_there_is_a_trace(tmp_path):
    model, ids, output = build("llama"), tokens(LENGTH), tmp_path / "results.sqlite"
    with kvsim.recording(model, tmp_path / "t.h5", dtype="float32", names=["text"]):
        model(ids)
    counts = []
    for trace in (tmp_path / "t.h5", None, tmp_path / "t.h5"):
        evaluate(model, ids, names=["text"], trace=trace, output=output)
        with closing(sqlite3.connect(output)) as file, file:
            counts.append(file.execute("DELETE FROM replay").rowcount)
    assert counts[0] > 0 and counts == [counts[0], 0, counts[0]]
