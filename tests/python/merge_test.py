"""kvsim.merge joins result files as `kvsim merge` does."""

import warnings

import numpy as np
import pandas as pd
import pytest

import kvsim

SHARDS = 3


@pytest.fixture(scope="module")
def trace():
    random = np.random.default_rng(1)
    query, key, value = (random.normal(size=(heads, 24, 4)) for heads in (6, 3, 3))
    return kvsim.Trace.from_arrays(query, key, value)


@pytest.fixture(scope="module")
def parts(trace, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    files = [folder / f"{index}.sqlite" for index in range(1, SHARDS + 1)]
    for index, file in enumerate(files, 1):
        kvsim.sweep(trace, "window;h2o", 6, output=file, shard=f"{index}/{SHARDS}")
    return files


def test_merged_shards_are_the_sweep(trace, parts, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        merged = kvsim.merge(parts, tmp_path / "all.sqlite", complete=True)
    assert list(merged.columns) == ["table", "rows", "new"]
    assert merged.set_index("table").loc["run"].tolist() == [SHARDS, SHARDS]
    found = kvsim.load(tmp_path / "all.sqlite")["replay"].drop(columns="run_id")
    kvsim.sweep(trace, "window;h2o", 6, output=tmp_path / "one.sqlite")
    whole = kvsim.load(tmp_path / "one.sqlite")["replay"].drop(columns="run_id")
    pd.testing.assert_frame_equal(found, whole, check_exact=True)


def test_missing_shards_are_a_warning_or_with_complete_an_error(parts, tmp_path):
    output = tmp_path / "all.sqlite"
    with pytest.warns(kvsim.KvsimWarning, match="missing shards 1, 3 of 3 of 'kvsim.sweep"):
        kvsim.merge(parts[1], output)
    with pytest.raises(kvsim.DataError, match="complete=True demands: missing shard 1 of 3 of"):
        kvsim.merge(parts[2], output, complete=True)
    assert kvsim.merge(parts, output).set_index("table").loc["run", "new"] == 1


def test_what_differs_is_refused_and_nothing_is_written(result_file, tmp_path):
    result_file.replay("window", 4)
    path = tmp_path / "other.sqlite"
    type(result_file)(path).replay("window", 4, attention_recall=0.125)
    output = tmp_path / "all.sqlite"
    with pytest.raises(kvsim.DataError, match=f"attention_recall is .* and 0.125 in {path}"):
        kvsim.merge([result_file.path, path], output)
    assert not output.exists()
    with pytest.raises(kvsim.UsageError, match="at least one result file"):
        kvsim.merge([], output)


def test_progress_counts_parts(parts, tmp_path):
    said = []
    kvsim.merge(parts, tmp_path / "all.sqlite", progress=lambda *done: said.append(done))
    assert said[-1] == (SHARDS, SHARDS)


def test_rows_of_the_closed_loop_are_joined(result_file, tmp_path):
    result_file.closed_loop(["window"], budgets=(4,))
    path = tmp_path / "other.sqlite"
    type(result_file)(path).closed_loop(["window"], budgets=(8,))
    kvsim.merge([path, result_file.path], tmp_path / "all.sqlite")
    frame = kvsim.load(tmp_path / "all.sqlite")["closed_loop"]
    assert frame.budget.tolist() == [4, 8]
