"""The table closed_loop of a result file, and what specs say of their policies."""

import csv
import io
import sqlite3
import subprocess
import threading

import numpy as np
import pytest

import kvsim
from conftest import PROGRAM, needs_program, same
from kvsim import _engine
from kvsim.results.frames import frame_of

KEY = {
    "model_id": "m" * 64, "sequence": "text", "policy": "window", "budget": 51, "mode": "stream",
    "loop": "imposed", "seed": 0,
}  # fmt: skip
COLUMNS = [
    *KEY, "trace_id", "text_id", "model", "budget_request", "label", "steps", "nll_full", "nll",
    "delta_nll", "kl_mean", "top1_agreement", "answers", "answers_right_full", "answers_right",
    "kept_overlap", "peak_tokens", "cache_bytes", "prompt_length", "spans_id", "device",
    "kvsim_version", "policy_code", "run_id",
]  # fmt: skip


def row(**values):
    return {**KEY, "steps": 512, "nll": 1.5, "kl_mean": 0.25, **values}


def test_rows_come_back_from_memory_and_from_a_file(tmp_path):
    path = tmp_path / "results.sqlite"
    rows = [row(policy="tova"), row(label="mine", answers=0), row(loop="adaptive", nll=2.0)]
    for place in (None, str(path)):
        file = _engine.ClosedLoopFile(place)
        assert len(frame_of(*file.rows())) == 0
        run_id = file.begin_run("evaluate", "cpu", 2)
        file.add(rows[:1])
        file.add(rows[1:])
        frame = frame_of(*file.rows())
        assert list(frame) == COLUMNS
        assert list(frame.policy) == ["tova", "window", "window"]
        assert list(frame.loop) == ["imposed", "adaptive", "imposed"]
        assert list(frame.nll) == [1.5, 2.0, 1.5]
        assert list(frame.label.isna()) == [True, True, False]
        assert list(frame.answers.isna()) == [True, True, False]
        assert set(frame.run_id) == {run_id}
    loaded = kvsim.load(path).closed_loop
    same(frame, loaded)
    assert loaded.attrs["about"]["kl_mean"] == frame.attrs["about"]["kl_mean"] != ""
    assert all(loaded.attrs["about"].values())
    run = kvsim.load(path).run.iloc[0]
    assert (run.run_id, run.command, run.rows_written) == (run_id, "evaluate", 3)


def test_a_row_keeps_the_run_that_wrote_it_until_it_is_replaced(tmp_path):
    path = str(tmp_path / "results.sqlite")
    first = _engine.ClosedLoopFile(path)
    runs = [first.begin_run("one", "cpu", 1)]
    first.add([row(), row(policy="tova")])
    second = _engine.ClosedLoopFile(path)
    runs.append(second.begin_run("two", "cpu", 1))
    second.add([row(nll=9.0)])
    frame = frame_of(*second.rows()).set_index("policy")
    assert (frame.run_id["tova"], frame.run_id["window"]) == tuple(runs)
    assert (frame.nll["tova"], frame.nll["window"]) == (1.5, 9.0)


def test_rows_without_a_run_belong_to_none():
    file = _engine.ClosedLoopFile(None)
    file.add([row()])
    assert frame_of(*file.rows()).run_id.isna().all()


def test_scalars_of_numpy_are_numbers():
    file = _engine.ClosedLoopFile(None)
    file.add([row(
        budget=np.int64(7), steps=np.int32(3), nll=np.float32(0.5), kl_mean=2, model=np.str_("m"),
        answers=np.uint8(4),
    )])  # fmt: skip
    found = frame_of(*file.rows()).iloc[0]
    assert (found.budget, found.steps, found.nll, found.kl_mean) == (7, 3, 0.5, 2.0)
    assert (found.model, found.answers) == ("m", 4)


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"kl_men": 1.0}, kvsim.UsageError, "no column kl_men; did you mean kl_mean?"),
        ({"run_id": "x"}, kvsim.UsageError, "there is no column run_id"),
        ({"loop": None}, kvsim.UsageError, "a row lacks loop, a part of its key"),
        ({"steps": 1.5}, kvsim.UsageError, "steps: expected a whole number or None, found 1.5"),
        ({"steps": "3"}, kvsim.UsageError, "steps: expected a whole number or None, found '3'"),
        ({"steps": 2**63}, kvsim.UsageError, "steps: expected a whole number of 64 bits, found 9"),
        ({"nll": "1"}, kvsim.UsageError, "nll: expected a number or None, found '1'"),
        ({"model": 3}, kvsim.UsageError, "model: expected a text or None, found 3"),
        ({"nll": float("nan")}, kvsim.DataError, "nll: expected a number, found NaN"),
        ({"nll": np.float32("nan")}, kvsim.DataError, "nll: expected a number, found NaN"),
    ],
)
def test_a_bad_row_is_refused_and_none_of_its_list_is_added(values, error, message):
    file = _engine.ClosedLoopFile(None)
    with pytest.raises(error) as raised:
        file.add([row(policy="tova"), row(**values)])
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert len(frame_of(*file.rows())) == 0


def test_a_file_of_something_else_and_another_table_are_refused(tmp_path):
    text = tmp_path / "text.sqlite"
    text.write_text("no database, but long enough to be taken for the header of one, or not")
    with pytest.raises(kvsim.DataError, match=r"text\.sqlite: expected a result file"):
        _engine.ClosedLoopFile(str(text))
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE closed_loop (model_id TEXT PRIMARY KEY)")
    with pytest.raises(kvsim.DataError, match="without a table replay"):
        _engine.ClosedLoopFile(str(other))


def test_threads_and_two_writers_share_a_file(tmp_path):
    path = str(tmp_path / "results.sqlite")
    files = [_engine.ClosedLoopFile(path) for _ in range(2)]

    def write(file, seeds):
        for seed in seeds:
            file.add([row(seed=seed)])

    threads = [
        threading.Thread(target=write, args=(files[i % 2], range(10 * i, 10 * i + 10)))
        for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(frame_of(*files[0].rows()).seed) == list(range(40))


@needs_program
def test_the_program_exports_the_table(tmp_path):
    file = _engine.ClosedLoopFile(str(tmp_path / "results.sqlite"))
    file.begin_run("evaluate", "cpu", 1)
    file.add([row(answers_right=3), row(policy="tova", nll=np.float32(0.1))])
    command = [PROGRAM, "export", "results.sqlite", "--table", "closed_loop", "--without", "run_id"]
    found = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    rows = list(csv.DictReader(io.StringIO(found)))
    assert list(rows[0]) == COLUMNS[:-1]
    assert [each["policy"] for each in rows] == ["tova", "window"]
    assert [each["answers_right"] for each in rows] == ["", "3"]
    assert float(rows[0]["nll"]) == float(np.float32(0.1))


def specs(policies, allocate="uniform", **options):
    return {spec["text"]: spec for spec in _engine.specs(policies, allocate, **options)}


def test_a_spec_has_its_canonical_text_label_and_code():
    (found,) = _engine.specs("labelled=h2o:recent=2", "pyramid")
    frame = kvsim.sweep(
        kvsim.Trace.from_arrays(*np.random.default_rng(1).normal(size=(3, 2, 12, 4))),
        "labelled=h2o:recent=2", 4, allocate="pyramid",
    )  # fmt: skip
    assert found["text"] == frame.policy[0]
    assert found["policy_code"] == frame.policy_code[0]
    assert (found["label"], found["name"], found["allocation"]) == ("labelled", "h2o", "pyramid")
    assert _engine.specs("h2o", "uniform")[0]["label"] is None


def test_flags_are_those_of_the_rules():
    found = {spec["name"]: spec for spec in _engine.specs("all;oracles", "uniform")}
    assert {name for name, spec in found.items() if spec["selects"]} == {"topk"}
    assert found["optimal"]["is_oracle"] and not found["h2o"]["is_oracle"]
    assert found["subgen"]["is_estimator"] and not found["h2o"]["is_estimator"]
    assert found["spatten"]["scope"] == "model" and found["tova"]["scope"] == "head"
    assert {name for name, spec in found.items() if spec["prompt_only"]} == {"expected-attention"}
    assert found["window"]["is_bounded"] and not found["full"]["is_bounded"]
    combined = "window+quant;lru+rest;lru+kivi"
    one = specs("tova:scope=layer;tova:score=full;sink:positions=slot;" + combined)
    assert [spec["scope"] for spec in one.values()] == ["layer", *["head"] * 5]

    def are(flag):
        return [index for index, spec in enumerate(one.values()) if spec[flag]]

    assert are("sees_full_attention") == [1]
    assert are("is_exact") == [0, 1]
    assert are("slot_positions") == are("needs_rotation") == [2]
    assert are("is_quantised") == [3]
    assert are("has_rest") == [4]
    assert are("has_store") == [5]


def test_only_what_a_list_stands_for_may_be_left_out():
    found = {
        spec["name"]: spec["came_from_list"] for spec in _engine.specs("subgen;all", "uniform")
    }
    assert found["subgen"] is None
    assert found["h2o"] == "all"
    assert "optimal" not in found
    found = {spec["name"]: spec["came_from_list"] for spec in _engine.specs("oracles", "pyramid")}
    assert set(found.values()) == {"oracles"}


def test_an_alias_says_what_it_stands_for():
    (found,) = _engine.specs("streamingllm", "uniform")
    assert found["note"].startswith("streamingllm is sink here")
    assert _engine.specs("sink", "uniform")[0]["note"] is None


def test_specs_refuse_what_a_sweep_refuses(tmp_path):
    with pytest.raises(kvsim.UsageError, match="did you mean 'tova'"):
        _engine.specs("tovaa", "uniform")
    with pytest.raises(kvsim.UsageError, match="--allocate: expected uniform"):
        _engine.specs("tova", "even")
    with pytest.raises(kvsim.DataError, match=r"none\.h5"):
        _engine.specs(f"schedule:file={tmp_path}/none.h5", "uniform")
