"""kvsim.check, and what Python does with values that no row can have."""

import shutil
import sqlite3

import h5py
import numpy as np
import pytest

import kvsim
from conftest import H2O, SAMPLE
from kvsim.report.__main__ import main as report


def swept(path):
    rng = np.random.default_rng(1)
    query, key, value = (rng.standard_normal((1, 12, 4), dtype=np.float32) for _ in range(3))
    trace = kvsim.Trace.from_arrays(query, key, value)
    kvsim.sweep(trace, policies=["window", "h2o"], budgets=[4], output=path)
    return path


def edited(path, sql):
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(sql)
    connection.close()


def test_check_counts_rows_and_units_and_names_a_changed_unit(tmp_path):
    file = swept(tmp_path / "r.sqlite")
    frame = kvsim.check(file)
    assert list(frame.itertuples(index=False, name=None)) == [
        ("replay", 2, 1, "agrees"),
        ("run", 1, 1, "agrees"),
    ]
    edited(file, "UPDATE replay SET cache_bytes = cache_bytes + 1")
    with pytest.raises(kvsim.DataError, match=r"table replay, unit .*expected 2 rows with digest"):
        kvsim.check(file)
    for name, found in (("none", "no such file"), ("n" * 300, "no file that can be read")):
        with pytest.raises(kvsim.DataError, match=f"expected a .* or a trace, found {found}"):
            kvsim.check(tmp_path / name)


def test_check_reads_all_of_a_trace_and_names_a_changed_head(tmp_path):
    file = tmp_path / "t.h5"
    shutil.copy(SAMPLE, file)
    frame = kvsim.check(file)
    assert list(frame.columns) == ["sequence", "tokens", "layers", "kv_heads", "verdict"]
    assert set(frame.verdict) == {"agrees"}
    assert set(frame.sequence) == {each.name for each in kvsim.Trace(file).sequences}
    with h5py.File(file, "r+") as opened:
        opened.visititems(change_first_key)
    with pytest.raises(kvsim.DataError, match="expected digest"):
        kvsim.check(file)


def change_first_key(name, found):
    if not isinstance(found, h5py.Dataset) or not name.endswith("key"):
        return None
    found[0, 0, 0] += 1
    return found


@pytest.mark.parametrize(
    ("column", "value", "found"),
    [
        ("attention_recall", "2", "expected 0 .. 1, found 2"),
        ("attention_recall", "9e999", "expected a finite number, found inf"),
        ("output_error_mean", "'much'", "expected a number, found 'much'"),
    ],
)
def test_values_that_cannot_be_end_reading_and_reports_in_one_line(
    result_file, tmp_path, capsys, column, value, found
):
    result_file.sweep()
    result_file.connection.execute(
        f"UPDATE replay SET {column} = {value} WHERE policy = ? AND budget = 8", (H2O,)
    )
    result_file.connection.commit()
    with pytest.raises(kvsim.ResultsError, match=f"budget=8, .*: {column}: {found}"):
        kvsim.load(result_file.path).replay  # noqa: B018
    assert report([str(result_file.path), "-o", str(tmp_path / "page"), "--quiet"]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert f"{column}: {found}" in captured.err
    assert not (tmp_path / "page").exists()


def test_files_of_others_and_of_newer_versions_are_refused(tmp_path):
    file = swept(tmp_path / "r.sqlite")
    edited(file, "PRAGMA user_version = 99")
    with pytest.raises(kvsim.ResultsError, match="found format 99; use a newer kvsim"):
        kvsim.load(file)
    edited(file, "PRAGMA application_id = 7")
    with pytest.raises(kvsim.ResultsError, match="of another application"):
        kvsim.load(file)
