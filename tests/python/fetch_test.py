"""kvsim.fetch in process: the program's numbers, and sensible errors."""

import numpy as np
import pandas as pd
import pytest

import kvsim
from conftest import SAMPLE, same
from record_zoo import build, tokens


@pytest.fixture(scope="module")
def trace():
    query, key, value = np.random.default_rng(3).normal(size=(3, 2, 60, 8))
    return kvsim.Trace.from_arrays(query, key, value, prompt_length=20)


def test_rows_are_those_of_the_program(program, tmp_path):
    choice = ["--layers", "1", "--heads", "0-1", "--select", "topk:k=32;quest:k=32"]
    more = ["--resident", "25%,256", "--replace", "all", "--page", "8", "--mode", "prefill"]
    program("fetch", SAMPLE, *choice, *more, "-q", "-o", "program.sqlite", cwd=tmp_path)
    expected = kvsim.load(tmp_path / "program.sqlite")
    file = tmp_path / "results.sqlite"
    found = kvsim.fetch(
        SAMPLE, ["topk:k=32", "quest:k=32"], ["25%", 256], "all", "prefill", output=file,
        page=8, layers=1, heads=[0, 1], threads=2,
    )  # fmt: skip
    same(found, expected.fetch)
    same(found, kvsim.load(file).fetch)
    assert set(found["select"]) == {"topk:k=32,page=8", "quest:k=32,page=8"}
    assert found.attrs["about"]["fetch" if "fetch" in found.attrs["about"] else "misses"]
    (command,) = kvsim.load(file).run.command
    assert command.startswith("kvsim.fetch(") and "page=8" in command


def test_a_curve_has_every_size_and_belady_is_below_lru(trace):
    frame = kvsim.fetch(trace, "topk:k=6", curve=True)
    assert set(frame.resident) == set(range(7, 61))
    misses = frame.pivot_table(
        index=["kv_head", "resident"], columns="replace", values="misses", aggfunc="sum"
    )
    assert (misses.belady <= misses.lru).all() and (misses.belady < misses.lru).any()
    assert (misses.xs(60, level="resident") == 0).all(axis=None)
    one = kvsim.fetch(trace, "topk:k=6", 20, "lru")
    of_curve = frame[(frame.resident == 20) & (frame["replace"] == "lru")]
    columns = ["misses", "fetched_bytes_p95", "attention_recall"]
    assert (one[columns].values == of_curve[columns].values).all()


def test_wrong_arguments_are_errors_of_one_line(trace):
    for arguments, message in [
        ({"select": "qest", "resident": 9}, "did you mean 'quest'"),
        ({"select": "topk:k=6"}, "either --resident or --curve"),
        ({"select": "topk:k=6", "resident": 6}, "expected at least 7"),
        ({"select": "top-p:p=1", "resident": 6}, "expected at least 60"),
        ({"select": "topk", "curve": True, "replace": "mass"}, "found mass"),
        ({"select": "topk", "curve": True, "allocate": "pyramid"}, "no option allocate"),
        ({"select": "topk", "curve": True, "eviction_interval": 2}, "no option eviction_interval"),
    ]:
        with pytest.raises(kvsim.UsageError, match=message):
            kvsim.fetch(trace, **arguments)


def test_the_error_of_a_layer_is_that_of_the_same_tokens_under_a_policy(tmp_path):
    model, output = build("llama"), tmp_path / "r.sqlite"
    with kvsim.recording(
        model, tmp_path / "t.h5", dtype="float32", also="output_projection,residual"
    ):
        model(tokens(40))
    with pytest.warns(kvsim.KvsimWarning, match="3 layers without all KV heads get no row"):
        kvsim.fetch(tmp_path / "t.h5", "topk:k=5", 8, output=output, heads=0)
    assert "layer_error" not in kvsim.load(output)
    kvsim.fetch(tmp_path / "t.h5", ["topk:k=5", "top-p:p=1"], "100%", output=output, threads=2)
    kvsim.sweep(tmp_path / "t.h5", "topk", 5, output=output, progress=False)
    rows = kvsim.load(output).layer_error
    numbers = ["layer", "steps", "budget", "projected_error", "projected_error_relative"]
    of_policy = rows[rows["policy"] == "topk:h2=0"][[*numbers, "num_layers"]]
    chosen = rows[rows["policy"] == "topk:k=5,page=1"][[*numbers, "num_layers"]]
    assert len(chosen) == 3 and (chosen.projected_error > 0).all()
    pd.testing.assert_frame_equal(
        chosen.reset_index(drop=True), of_policy.reset_index(drop=True), rtol=1e-6
    )
    every = rows[rows["policy"] == "top-p:p=1,page=1"]
    assert set(every.budget) == {40} and (every.projected_error < 1e-9).all()
