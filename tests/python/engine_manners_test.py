"""How the engine in process behaves: errors, warnings, progress, Ctrl-C, pickles, memory."""

import copy
import gc
import pickle
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest

import kvsim
from conftest import SAMPLE


@pytest.fixture
def trace():
    return kvsim.Trace.from_arrays(*np.random.default_rng(0).normal(size=(3, 2, 30, 4)))


def test_an_import_needs_neither_torch_nor_matplotlib_nor_pandas():
    code = "import sys, kvsim; print([m for m in ('torch', 'matplotlib', 'pandas', 'tqdm') "
    done = subprocess.run(
        [sys.executable, "-c", code + "if m in sys.modules])"], capture_output=True, text=True
    )
    assert done.stdout == "[]\n", done.stderr


WRONG = {
    "unknown policy 'h3o'; did you mean 'h2o'": {"policies": "h3o"},
    "there is no option layer; did you mean layers": {"layer": 1},
    "every: cannot take 'x'": {"every": "x"},
    "--mode: expected stream": {"mode": "strea"},
    "--threads: expected 1..1024, found 0": {"threads": 0},
    "--layers: 'x' is not an index": {"layers": "x"},
    "budget '0' keeps nothing": {"budgets": 0},
    "a sweep takes at least one policy": {"policies": []},
    "the sequence has no prompt|prompt": {"mode": "prefill"},
    "cpu|cuda|auto": {"device": "gpu"},
}


@pytest.mark.parametrize("message", WRONG)
def test_bad_usage_has_the_words_of_the_program(trace, message):
    arguments = {"policies": "h2o", "budgets": 5, **WRONG[message]}
    with pytest.raises(kvsim.UsageError) as caught:
        kvsim.sweep(trace, **arguments)
    assert any(part in str(caught.value) for part in [message, *message.split("|")])
    assert "\n" not in str(caught.value)


def test_bad_data_name_the_file(tmp_path):
    (tmp_path / "text.h5").write_text("text")
    for name in ("text.h5", "nothing.h5"):
        with pytest.raises(kvsim.DataError, match=name):
            kvsim.sweep(tmp_path / name, "h2o", 5)
    with pytest.raises(kvsim.DataError, match="result file"):
        kvsim.sweep(SAMPLE, "h2o", 5, output=tmp_path / "text.h5")
    with pytest.raises(kvsim.KvsimError):
        kvsim.sweep(SAMPLE, "h2o", 5, output=tmp_path / "no folder" / "results.sqlite")


def test_there_is_one_usage_error():
    from kvsim.record import UsageError

    assert UsageError is kvsim.UsageError
    assert issubclass(kvsim.UsageError, kvsim.KvsimError)
    assert issubclass(kvsim.DataError, kvsim.KvsimError)


def test_what_runs_other_than_asked_is_a_warning(trace):
    with pytest.warns(kvsim.KvsimWarning, match="streamingllm is sink here") as caught:
        kvsim.sweep(trace, "streamingllm", 3)
    assert any("room for 3 of 4 protected tokens" in str(each.message) for each in caught)
    assert caught[0].filename == __file__


BAD_ARRAYS = {
    "Hq": [(3, 8, 4), (2, 8, 4), (2, 8, 4)],
    "query \\[Hq": [(2, 8, 4), (2, 9, 4), (2, 9, 4)],
    "expected numbers": [(2, 8), (2, 8, 4), (2, 8, 4)],
}


@pytest.mark.parametrize("message", [*BAD_ARRAYS])
def test_arrays_that_do_not_fit_are_refused(message):
    arrays = [np.ones(shape) for shape in BAD_ARRAYS[message]]
    with pytest.raises(kvsim.UsageError, match=message if message != "Hq" else "multiple of 2"):
        kvsim.Trace.from_arrays(*arrays)


def test_numbers_that_are_not_finite_are_bad_data():
    arrays = np.ones((3, 2, 8, 4))
    arrays[1, 0, 3, 2] = np.nan
    with pytest.raises(
        kvsim.DataError, match=r"key: .* finite in float32, found nan at \[0, 3, 2\]"
    ):
        kvsim.Trace.from_arrays(*arrays)


def test_keys_that_were_repeated_over_query_heads_are_said_to_be():
    query, key, value = np.random.default_rng(0).normal(size=(3, 4, 8, 4))
    for heads in (key, value):
        heads[1::2] = heads[::2]
    with pytest.warns(kvsim.KvsimWarning, match="layer 0: KV heads 0 and 1 have the same keys"):
        kvsim.Trace.from_arrays(query, key, value)
    value[1::2] += 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kvsim.Trace.from_arrays(query, key, value)


@pytest.mark.parametrize(
    ("name", "found"),
    [("a\0b", "U\\+0000 as character 1"), ("a\ud83d", "half of a surrogate pair, U\\+D83D, at 1")],
)
def test_a_name_that_a_file_cannot_hold_is_refused(name, found):
    arrays = np.random.default_rng(0).normal(size=(3, 2, 8, 4))
    with pytest.raises(kvsim.UsageError, match=f"model: expected a name, found {found}"):
        kvsim.Trace.from_arrays(*arrays, model=name)
    with pytest.raises(kvsim.UsageError, match="name: expected a text without a slash"):
        kvsim.Trace.from_arrays(*arrays, name=name)


def test_tensors_are_arrays_and_half_precision_stays():
    torch = pytest.importorskip("torch")
    query, key, value = torch.randn(3, 2, 10, 4, requires_grad=True)
    trace = kvsim.Trace.from_arrays(query, key, value)
    assert trace.dtype == "float32"
    np.testing.assert_array_equal(trace.unit().key, key[0].detach().numpy())
    halves = kvsim.Trace.from_arrays(query.half(), key.half(), value.half())
    assert halves.dtype == "float16"
    assert kvsim.Trace.from_arrays(query.half(), key.bfloat16(), value).dtype == "float32"
    rows = [kvsim.sweep(each, "window", 3).cache_bytes[0] for each in (trace, halves)]
    assert rows[0] == 2 * rows[1]


def test_a_unit_keeps_its_memory_and_is_read_only():
    trace = kvsim.synth(tokens=40, layers=1)
    key = trace.unit(layer=0, kv_head=1).key
    expected = key.copy()
    query = trace.unit(layer=0, kv_head=1).query
    assert query.shape == (2, 40, 64) and query.dtype == np.float32
    del trace
    gc.collect()
    np.testing.assert_array_equal(key, expected)
    with pytest.raises(ValueError, match="read-only"):
        key[0, 0] = 1
    with pytest.raises(kvsim.DataError, match="head 7"):
        kvsim.synth(tokens=8).unit(layer=0, kv_head=7)


def test_a_trace_travels_by_pickle(trace):
    for each in (trace, kvsim.Trace(SAMPLE)):
        for other in (pickle.loads(pickle.dumps(each)), copy.deepcopy(each)):
            assert repr(other) == repr(each)
            assert other.trace_id == each.trace_id and other.sequences == each.sequences
    pd_row = kvsim.sweep(pickle.loads(pickle.dumps(trace)), "h2o", 5)
    assert pd_row.equals(kvsim.sweep(trace, "h2o", 5))


def test_progress_is_called_in_the_thread_of_the_caller_and_may_end_the_work(trace):
    calls = []
    kvsim.sweep(trace, "h2o;window", [3, 5], progress=lambda *call: calls.append(call))
    assert calls[-1] == (8, 8)

    def fail(done, total):
        raise LookupError(f"{done} of {total}")

    with pytest.raises(LookupError, match="of 8"):
        kvsim.sweep(trace, "h2o;window", [3, 5], progress=fail)


def test_progress_is_a_bar_where_asked(trace, capfd):
    kvsim.sweep(trace, "h2o", 3, progress=True)
    assert "2/2" in capfd.readouterr().err
    kvsim.sweep(trace, "h2o", 3, progress=False)
    kvsim.sweep(trace, "h2o", 3)
    assert capfd.readouterr().err == ""


INTERRUPTED = """
import sys, kvsim
trace = kvsim.synth(tokens=700, layers=8, kv_heads=4, query_heads=4, no_output=True)
def progress(done, total):
    if done: print("begun", flush=True)
try:
    kvsim.sweep(trace, "all;oracles", "5%,10%", threads=1, output=sys.argv[1], progress=progress)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupted_sweep_keeps_what_is_finished(tmp_path):
    file = tmp_path / "results.sqlite"
    child = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, file], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "begun\n"
    child.send_signal(signal.SIGINT)
    assert child.communicate()[0].splitlines()[-1] == "interrupted"
    assert child.returncode == 0
    kept = kvsim.load(file).replay
    assert len(kept) > 0
    trace = kvsim.synth(tokens=700, layers=8, kv_heads=4, query_heads=4, no_output=True)
    first = kept.sort_values(["layer", "kv_head"]).iloc[0]
    rest = kvsim.sweep(
        trace, "window;h2o", "5%", layers=int(first.layer), heads=int(first.kv_head), output=file
    )
    assert set(rest.run_id) <= set(kept.run_id)
