import sqlite3

import numpy as np
import pytest

import kvsim
from conftest import H2O, HERE, OPTIMAL, SAMPLE


def test_tables_are_frames_by_attribute_and_by_item(result_file):
    results = kvsim.load(result_file.sweep().analyses().path)
    assert len(results.replay) == 6 * 2 * 4
    assert results["persistence"].equals(results.persistence)
    assert results.replay["budget"].dtype.kind == "i"
    assert results.replay["attention_recall"].dtype.kind == "f"
    assert "evictions" in results and "belady" not in results


def test_regret_is_the_view(result_file):
    regret = kvsim.load(result_file.sweep().path).regret
    row = regret[(regret["policy"] == H2O) & (regret["oracle"] == OPTIMAL)].iloc[0]
    assert row["regret"] == pytest.approx(0.15)
    assert row["gap_closed"] == pytest.approx(0.25)


def test_columns_say_what_they_are(result_file):
    of = {"table_name": "sparsity", "source": "H2O"}
    result_file.add("about", **of, column_name="", meaning="per head")
    result_file.add("about", **of, column_name="sparsity", meaning="0..1")
    results = kvsim.load(result_file.path)
    assert results.sparsity.attrs["about"]["sparsity"] == "0..1"
    assert results.sparsity.attrs["shows"] == "per head"
    assert results.sparsity.attrs["source"] == "H2O"


@pytest.mark.parametrize("table", ["replay", "regret", "certificate", "run"])
def test_every_column_of_the_sweep_is_explained(result_file, table):
    about = kvsim.load(result_file.path)[table].attrs["about"]
    assert all(about.values()), about


def test_the_share_of_a_gap_says_that_it_is_not_to_be_averaged(result_file):
    about = kvsim.load(result_file.sweep().path).regret.attrs["about"]
    assert "Not to be averaged" in about["gap_closed"]


def test_what_does_not_apply_is_nan_and_the_column_a_number(result_file):
    result_file.replay("subgen:t=4", 4, bound_mean=None, bound_violations=None)
    replay = kvsim.load(result_file.path).replay
    assert replay["bound_mean"].dtype.kind == "f" and np.isnan(replay["bound_mean"]).all()
    assert np.isnan(replay["bound_violations"]).all()


def test_missing_table_names_those_that_are_there_and_what_makes_it(result_file):
    result_file.drop("sparsity", "certificate")
    results = kvsim.load(result_file.path)
    with pytest.raises(AttributeError, match=r"no table power_law; it has .*replay.*kvsim analyze"):
        _ = results.power_law
    with pytest.raises(KeyError, match="kvsim analyze TRACE --what NAME"):
        results["sparsity"]
    with pytest.raises(kvsim.NoSuchTable, match="kvsim sweep"):
        _ = results.certificate
    assert not hasattr(results, "sparsity")


def test_a_table_of_no_analysis_is_not_promised(result_file):
    with pytest.raises(kvsim.NoSuchTable, match="kvsim analyze --help names them"):
        _ = kvsim.load(result_file.path).persistense


def test_a_table_without_rows_keeps_its_texts(result_file):
    assert kvsim.load(result_file.path).replay["policy"].dtype.kind == "O"


def test_what_is_done_to_a_frame_stays_there(result_file):
    results = kvsim.load(result_file.sweep().path)
    frame = results.replay
    frame["policy"] = "mine"
    del frame["layer"]
    assert H2O in set(results.replay["policy"]) and "layer" in results.replay


def test_files_that_are_none(tmp_path):
    with pytest.raises(kvsim.ResultsError, match="no such result file"):
        kvsim.load(tmp_path / "none.sqlite")
    (tmp_path / "text").write_text("not a database, but long enough to look for a header in it")
    with pytest.raises(kvsim.ResultsError, match=r"expected a result file \(SQLite\)"):
        kvsim.load(tmp_path / "text")


def test_reading_changes_nothing(result_file):
    path = result_file.sweep().path
    before = path.read_bytes()
    assert len(kvsim.load(path).replay)
    assert path.read_bytes() == before


def test_schema_is_that_of_the_program(program, tmp_path):
    common = ["--layers", "0", "--heads", "0", "--sequences", "held-out-text", "-o", "r.sqlite"]
    replays = ["--policies", "window;certificate", "--budgets", "8"]
    program("sweep", SAMPLE, *replays, *common, cwd=tmp_path)
    what = ["--what", "persistence,sparsity,evictions", "--policies", "window", "--budgets", "8"]
    program("analyze", SAMPLE, *what, *common, cwd=tmp_path)
    program("fetch", SAMPLE, "--select", "topk:k=8", "--resident", "9", *common, cwd=tmp_path)

    def schema(connection):
        return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))

    ours = sqlite3.connect(":memory:")
    ours.executescript((HERE / "schema.sql").read_text())
    assert schema(ours) == schema(sqlite3.connect(tmp_path / "r.sqlite"))
