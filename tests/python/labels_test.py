"""kvsim.labels: what learned policies train on, in both files."""

import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import kvsim
from conftest import SAMPLE, needs_program
from kvsim.labels.__main__ import main
from trace_format import seal_again

HEADS = {"layers": [0, 2], "heads": 1}
BUDGETS = ["10%", 100]
NAMES = (
    "future_attention", "future_attention_blocks", "optimal_evicted_after", "next_access",
    "slot_price",
)  # fmt: skip


@pytest.fixture(scope="module")
def found():
    return kvsim.labels(SAMPLE, BUDGETS, block=100, threads=2, progress=False, **HEADS)


def attention_of(trace, sequence, layer, kv_head):
    """The full attention, the mean over the group: a plain softmax in double precision."""
    unit = trace.unit(sequence, layer, kv_head)
    n = len(unit.key)
    mean = np.zeros((n, n))
    for query in unit.query.astype(float):
        for step in range(n):
            weights = np.exp(unit.scale * (unit.key[: step + 1].astype(float) @ query[step]))
            mean[step, : step + 1] += weights / weights.sum() / len(unit.query)
    return mean


def test_the_names_and_shapes_are_those_of_the_contract(found):
    trace = kvsim.Trace(SAMPLE)
    expected = {"budgets", "block", "mode", "trace_id"}
    for sequence in trace.sequences:
        expected.add(f"{sequence.name}/budgets")
        expected |= {f"{sequence.name}/{layer}/1/{name}" for layer in (0, 2) for name in NAMES}
    assert set(found) == expected
    unit = f"{trace.sequences[0].name}/2/1"
    assert [found[f"{unit}/{name}"].shape for name in NAMES] == [
        (512,), (6, 512), (2, 512), (512,), (2, 512),
    ]  # fmt: skip
    assert found["budgets"].tolist() == [51, 100]
    assert (found["mode"], found["block"]) == ("stream", 100)
    assert found["trace_id"] == trace.trace_id


def test_labels_of_the_attention_are_sums_of_a_plain_softmax(found):
    trace = kvsim.Trace(SAMPLE)
    sequence = trace.sequences[0].name
    attention = attention_of(trace, sequence, 2, 1)
    later = np.tril(attention, -1)
    unit = f"{sequence}/2/1"
    np.testing.assert_allclose(found[f"{unit}/future_attention"], later.sum(axis=0), rtol=1e-5)
    blocks = np.stack([later[first : first + 100].mean(axis=0) for first in range(0, 512, 100)])
    np.testing.assert_allclose(
        found[f"{unit}/future_attention_blocks"], blocks, rtol=1e-5, atol=1e-12
    )
    accessed = later > 1 / np.arange(1, 513)[:, None]
    expected = np.where(accessed.any(axis=0), accessed.argmax(axis=0), 512)
    # A weight within rounding of an even share may fall on either side of it.
    assert (found[f"{unit}/next_access"] == expected).mean() > 0.99


def test_what_is_to_come_after_a_block_are_rows_weighted_by_their_steps(found):
    """The last of the six blocks has 12 steps of 512."""
    trace = kvsim.Trace(SAMPLE)
    sequence = trace.sequences[0].name
    attention = attention_of(trace, sequence, 2, 1)
    steps = np.minimum(100, 512 - 100 * np.arange(6))
    blocks = found[f"{sequence}/2/1/future_attention_blocks"]
    to_come = attention[400:, :400].sum(axis=0)
    np.testing.assert_allclose(steps[4:] @ blocks[4:, :400], to_come, rtol=1e-5)


def test_the_optimum_is_that_of_a_replay(found):
    sequence = kvsim.Trace(SAMPLE).sequences[1].name
    for index, budget in enumerate(BUDGETS):
        replay = kvsim.replay(SAMPLE, "optimal", budget, sequence, layer=0, kv_head=1)
        for name, expected in (
            ("optimal_evicted_after", replay.evicted_after),
            ("slot_price", replay.slot_price),
        ):
            np.testing.assert_array_equal(found[f"{sequence}/0/1/{name}"][index], expected)


def test_without_budgets_there_are_labels_of_the_attention_alone(found):
    alone = kvsim.labels(SAMPLE, block=100, progress=False, **HEADS)
    assert alone["budgets"].shape == (0,)
    for name, array in found.items():
        if name.endswith(("future_attention", "future_attention_blocks", "next_access")):
            np.testing.assert_array_equal(alone[name], array, strict=True)
        if name.endswith(("optimal_evicted_after", "slot_price")):
            assert alone[name].shape == (0, 512)


def test_in_prefill_mode_only_steps_after_the_prompt_count():
    trace = kvsim.synth(tokens=80, prompt_length=50, layers=1, kv_heads=1, query_heads=2)
    found = kvsim.labels(trace, 20, "prefill", block=8, progress=False)
    later = attention_of(trace, "synthetic", 0, 0)
    later = np.tril(later, -1)[50:]
    np.testing.assert_allclose(
        found["synthetic/0/0/future_attention"], later.sum(axis=0), rtol=1e-4
    )
    assert found["synthetic/0/0/future_attention_blocks"].shape == (4, 80)
    assert found["synthetic/0/0/next_access"].min() >= 50
    assert not found["synthetic/0/0/slot_price"][0, :49].any()
    never = kvsim.labels(trace, 20, "prefill", eviction_interval="never", block=8, progress=False)
    left = never["synthetic/0/0/optimal_evicted_after"][0]
    assert sorted(set(left)) == [49, 80] and (left[:50] == 80).sum() == 20
    assert np.isnan(never["synthetic/0/0/slot_price"]).all()


def test_sequences_of_several_lengths_have_budgets_of_their_own(tmp_path):
    """No share of two lengths is one number of tokens, so there is no `budgets` for both."""
    h5py = pytest.importorskip("h5py")
    kvsim.synth(tmp_path / "a.h5", tokens=60, layers=1, progress=False)
    kvsim.synth(tmp_path / "b.h5", tokens=40, layers=1, progress=False)
    with h5py.File(tmp_path / "a.h5", "a") as file, h5py.File(tmp_path / "b.h5") as other:
        other.copy("sequences/synthetic", file["sequences"], "short")
    seal_again(tmp_path / "a.h5")
    found = kvsim.labels(tmp_path / "a.h5", ["10%", "20%"], progress=False)
    assert "budgets" not in found
    assert found["synthetic/budgets"].tolist() == [6, 12]
    assert found["short/budgets"].tolist() == [4, 8]
    in_tokens = kvsim.labels(tmp_path / "a.h5", [5], progress=False)
    assert in_tokens["budgets"].tolist() == [5]


def test_an_npz_file_holds_the_same_arrays_and_threads_change_no_byte(found, tmp_path):
    for threads in (1, 3):
        kvsim.labels(
            SAMPLE, BUDGETS, block=100, threads=threads, output=tmp_path / f"{threads}.npz",
            progress=False, **HEADS,
        )  # fmt: skip
    assert (tmp_path / "1.npz").read_bytes() == (tmp_path / "3.npz").read_bytes()
    with np.load(tmp_path / "1.npz") as file:
        assert set(file.files) == set(found)
        for name, array in found.items():
            np.testing.assert_array_equal(file[name], array, strict=True)


def test_a_parquet_file_has_a_row_per_unit_token_and_budget(found, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    for threads in (1, 3):
        kvsim.labels(
            SAMPLE, BUDGETS, block=100, threads=threads, output=tmp_path / f"{threads}.parquet",
            progress=False, **HEADS,
        )  # fmt: skip
    assert (tmp_path / "1.parquet").read_bytes() == (tmp_path / "3.parquet").read_bytes()
    lists = pyarrow.parquet.read_schema(tmp_path / "1.parquet").field("future_attention_blocks")
    assert lists.type == pyarrow.large_list(pyarrow.float64())  # 2^31 numbers in a unit, and more
    frame = pd.read_parquet(tmp_path / "1.parquet")
    assert list(frame.columns) == [
        "sequence", "layer", "kv_head", "token", "budget", "budget_request", *NAMES,
    ]  # fmt: skip
    assert len(frame) == 2 * 2 * 2 * 512
    for (sequence, layer, kv_head, budget), rows in frame.groupby(
        ["sequence", "layer", "kv_head", "budget"]
    ):
        unit, index = f"{sequence}/{layer}/{kv_head}", found["budgets"].tolist().index(budget)
        assert set(rows.budget_request) == {str(BUDGETS[index])}
        np.testing.assert_array_equal(rows.token, np.arange(512))
        np.testing.assert_array_equal(
            np.stack(rows.future_attention_blocks).T, found[f"{unit}/future_attention_blocks"]
        )
        for name in ("future_attention", "next_access"):
            np.testing.assert_array_equal(rows[name], found[f"{unit}/{name}"])
        for name in ("optimal_evicted_after", "slot_price"):
            np.testing.assert_array_equal(rows[name], found[f"{unit}/{name}"][index])


def test_a_parquet_file_without_budgets_has_nulls(tmp_path):
    pytest.importorskip("pyarrow")
    kvsim.labels(SAMPLE, output=tmp_path / "l.parquet", layers=0, heads=0, progress=False)
    frame = pd.read_parquet(tmp_path / "l.parquet")
    assert len(frame) == 2 * 512
    for name in ("budget", "budget_request", "optimal_evicted_after", "slot_price"):
        assert frame[name].isna().all()


def test_without_pyarrow_one_line_names_the_fix(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(kvsim.KvsimError, match=r"pip install pyarrow, or name an \.npz file$"):
        kvsim.labels(SAMPLE, output=tmp_path / "l.parquet", layers=0, progress=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["-o", "l.csv"], 2, "--output: expected a file .npz or .parquet, found l.csv"),
        (["-o", "folder.npz"], 2, "something else of that name"),
        (["-o", "mine.npz"], 2, "holds no labels; remove it first, or name another"),
        (["-o", "l.npz", "--block", "0"], 2, "expected a whole number from 1 on, found 0"),
        (["-o", "l.npz", "--block", "3000000000"], 2, "from 1 to 2147483647, found 3000000000"),
        (["-o", "l.npz", "--budgets", "110%"], 2, "110%"),
        (["-o", "l.npz", "--layers", "7"], 2, "layer"),
        (["-o", "none/l.npz"], 1, "none/l.npz: cannot be written: No such file"),
    ],
)
def test_errors_are_one_line(tmp_path, monkeypatch, capsys, arguments, status, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.npz").mkdir()
    (tmp_path / "mine.npz").write_text("mine")
    try:
        ended = main([str(SAMPLE), "--quiet", *arguments])
    except SystemExit as exit_:
        ended = exit_.code
    error = capsys.readouterr().err
    assert ended == status
    assert error.startswith("kvsim: error: ") and error.count("\n") == 1
    assert message in error
    assert (tmp_path / "mine.npz").read_text() == "mine"
    assert not list(tmp_path.glob("*.partial*"))


@pytest.mark.parametrize("block", [2.5, "8", None, 0, 2**31])
def test_a_block_is_a_whole_number_of_steps(block):
    with pytest.raises(kvsim.UsageError, match=f"^--block: expected a whole .*, found {block!r}$"):
        kvsim.labels(SAMPLE, block=block, layers=0, progress=False)


def test_options_of_other_verbs_are_refused():
    for name in ("seed", "allocate", "reference", "every", "device"):
        with pytest.raises(kvsim.UsageError, match=f"there is no option {name} here"):
            kvsim.labels(SAMPLE, **{name: 1})


@needs_program
def test_the_program_writes_what_the_function_returns(found, tmp_path):
    environment = os.environ | {"KVSIM_PYTHON": sys.executable}
    command = [os.environ["KVSIM_PROGRAM"], "labels", SAMPLE, "--budgets", "10%,100", "--block"]
    command += ["100", "--layers", "0,2", "--heads", "1", "-o", "l.npz"]
    for _ in range(2):  # the second time it replaces the first file
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert "kvsim: labels of 4 units; about" in done.stderr
    assert "kvsim: 4 of 4 units" in done.stderr
    with np.load(tmp_path / "l.npz") as file:
        assert set(file.files) == set(found)
        for name, array in found.items():
            np.testing.assert_array_equal(file[name], array, strict=True)


@needs_program
def test_an_interrupted_run_leaves_an_earlier_file_as_it_was(tmp_path):
    kvsim.synth(tmp_path / "long.h5", tokens=4000, layers=4, no_output=True, progress=False)
    kvsim.labels(SAMPLE, layers=0, output=tmp_path / "l.npz", progress=False)
    before = (tmp_path / "l.npz").read_bytes()
    environment = os.environ | {"KVSIM_PYTHON": sys.executable}
    command = [os.environ["KVSIM_PROGRAM"], "labels", "long.h5", "-o", "l.npz", "--threads", "1"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert "kvsim: labels of 8 units" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        error = process.stderr.read()
    assert process.returncode == 1
    assert error.splitlines()[-1] == "kvsim: error: interrupted; l.npz is not written"
    assert (tmp_path / "l.npz").read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["l.npz", "long.h5"]
