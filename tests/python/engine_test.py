"""Sweeps in process: the program's numbers, and what the program does not have."""

import threading

import h5py
import numpy as np
import pytest

import kvsim
from conftest import SAMPLE, same, specs_of
from nightly import sample_of
from trace_format import seal_again


def run_and_load(program, folder, *arguments):
    program("sweep", SAMPLE, *arguments, "-q", "-o", "program.sqlite", cwd=folder)
    return kvsim.load(folder / "program.sqlite").replay


PROTOCOLS = {
    "stream": [],
    "prefill": ["--mode", "prefill"],
    "interval": ["--eviction-interval", "16"],
    "once": ["--mode", "prefill", "--eviction-interval", "never"],
    "every": ["--every", "8", "--allocate", "pyramid"],
    "no reference": ["--reference", "none"],
    "sample": ["--reference", "sample:9"],
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_all_policies_have_the_numbers_of_the_program(program, tmp_path, protocol):
    options = PROTOCOLS[protocol]
    chosen = {"layers": "1", "sequences": "copied-segment"}
    policies = "all" if "--reference" in options else "all;oracles"
    budgets = sample_of(["10%"], ["10%", 64])
    expected = run_and_load(
        program, tmp_path, "--policies", policies, "--budgets", ",".join(map(str, budgets)),
        "--layers", "1", "--sequences", "copied-segment", *options,
    )  # fmt: skip
    keywords = {
        name.removeprefix("--").replace("-", "_"): int(value) if value.isdigit() else value
        for name, value in zip(options[::2], options[1::2])
    }
    for threads in sample_of((1, 2) if protocol == "stream" else (2,), (1, 2)):
        found = kvsim.sweep(
            SAMPLE, specs_of(expected), budgets, threads=threads, **chosen, **keywords
        )
        assert len(found) > 20
        same(found, expected)


def test_a_file_has_the_columns_and_rows_of_the_frame(tmp_path):
    file = tmp_path / "results.sqlite"
    frame = kvsim.sweep(SAMPLE, ["h2o", "window"], [32], layers=0, output=file)
    same(frame, kvsim.load(file).replay)
    assert frame.attrs == kvsim.load(file).replay.attrs
    assert list(frame.columns) == list(kvsim.load(file).replay.columns)
    assert set(frame.run_id) == set(kvsim.load(file).run.run_id)
    (command,) = kvsim.load(file).run.command
    assert command.startswith("kvsim.sweep('") and "policies=['h2o', 'window']" in command


def test_a_sweep_without_output_writes_nothing(tmp_path, monkeypatch):
    path = SAMPLE.resolve()
    monkeypatch.chdir(tmp_path)
    frame = kvsim.sweep(path, "h2o", 32, layers=[0], heads=[1])
    assert list(tmp_path.iterdir()) == []
    assert len(frame) == 2 and set(frame.run_id) == {""}


def test_finished_rows_are_not_replayed_again_and_are_in_the_frame(tmp_path):
    file = tmp_path / "results.sqlite"
    first = kvsim.sweep(SAMPLE, "h2o", [32], layers=0, output=file)
    calls = []
    both = kvsim.sweep(
        SAMPLE, ["h2o", "label=tova"], [32], layers=0, output=file,
        progress=lambda done, total: calls.append((done, total)),
    )  # fmt: skip
    assert calls[-1] == (16, 16)
    assert len(both) == 2 * len(first)
    assert set(both[both.policy.str.startswith("h2o")].run_id) == set(first.run_id)
    assert set(both.label.dropna()) == {"label"}
    forced = kvsim.sweep(SAMPLE, "h2o", [32], layers=0, output=file, force=True)
    assert not set(forced.run_id) & set(first.run_id)
    same(forced, first)


def test_arrays_have_the_numbers_and_the_id_of_a_file(tmp_path):
    random = np.random.default_rng(1)
    layers = {
        layer: [random.normal(size=(heads, 60, dim)).astype(np.float16)
                for heads, dim in ((4, 8), (2, 8), (2, 6))]
        for layer in (0, 2)
    }  # fmt: skip
    ids = np.arange(60, dtype=np.int32)
    path = tmp_path / "trace.h5"
    with h5py.File(path, "w") as file:
        file.attrs.update(kvtrace_version=2, num_layers=3, num_query_heads=4)
        file.attrs["model"] = np.bytes_("arrays")
        file.attrs.update(num_kv_heads=2, head_dim=8, value_dim=6, scale=8**-0.5)
        text = file.create_group("sequences/text")
        text.attrs.update(num_tokens=60, prompt_length=20)
        text["token_ids"] = ids
        for layer, triple in layers.items():
            group = text.create_group(f"layers/{layer}")
            group.attrs["sliding_window"] = 30 + layer
            for name, array in zip(("query", "key", "value"), triple):
                group[name] = array
    seal_again(path)
    arrays = kvsim.Trace.from_arrays(
        layers, prompt_length=20, name="text", token_ids=ids, sliding_window={0: 30, 2: 32}
    )
    of_file = kvsim.Trace(path)
    assert arrays.trace_id == of_file.trace_id
    assert arrays.sequences == of_file.sequences and arrays.dtype == "float16"
    policies = "window;random;lfu;h2o;tova;scissorhands;snapkv;knorm;spatten;subgen;optimal"
    for mode in ("stream", "prefill"):
        found, expected = (kvsim.sweep(each, policies, 20, mode=mode) for each in (arrays, of_file))
        same(found, expected)


def test_two_threads_may_sweep_at_once():
    trace = kvsim.Trace(SAMPLE)
    expected = kvsim.sweep(trace, "h2o;tova", 32, layers="0-1")
    found = {}

    def work(name):
        found[name] = kvsim.sweep(trace, "h2o;tova", 32, layers="0-1", threads=2)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    same(found[0], expected)
    same(found[1], expected)


def test_two_traces_are_one_frame(tmp_path):
    random = np.random.default_rng(3)
    one, two = (kvsim.Trace.from_arrays(*random.normal(size=(3, 2, 20, 4))) for _ in range(2))
    frame = kvsim.sweep([one, two, one], "window", [5])
    assert len(frame) == 4
    assert set(frame.trace_id) == {one.trace_id, two.trace_id}
    assert set(frame.trace) == {"trace in memory"}
