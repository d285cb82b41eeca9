"""Tables are exported as Parquet and Arrow with the types that they declare, whatever they hold."""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import kvsim
from conftest import PROGRAM
from kvsim.results.export.__main__ import main

pytest.importorskip("pyarrow")
ipc, pq = pytest.importorskip("pyarrow.ipc"), pytest.importorskip("pyarrow.parquet")

TYPES = {"INTEGER": "int64", "REAL": "double", "TEXT": "string"}


@pytest.fixture
def results(result_file):
    return kvsim.load(result_file.sweep().analyses().path)


def read(path):
    return pq.read_table(path) if path.suffix == ".parquet" else ipc.open_file(path).read_all()


def rows_of(results, table):
    with sqlite3.connect(results.path) as connection:
        return connection.execute(f'SELECT * FROM "{table}"').fetchall()


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_every_table_comes_back_with_its_rows_types_and_meanings(format, results, tmp_path):
    rows = kvsim.export(results, tmp_path / "tables", table="all", format=format)
    assert len(rows) == len(results.tables) > 8
    assert sorted(map(str, (tmp_path / "tables").iterdir())) == sorted(rows)
    for name in results.tables:
        exported = read(tmp_path / "tables" / f"{name}.{format}")
        expected = rows_of(results, name)
        assert rows[str(tmp_path / "tables" / f"{name}.{format}")] == len(expected)
        assert [tuple(row.values()) for row in exported.to_pylist()] == expected, name
        types = results._column_types(name)
        assert exported.column_names == list(types)
        for field in exported.schema:
            assert not types[field.name] or TYPES[types[field.name]] == str(field.type)
    replay = read(tmp_path / "tables" / f"replay.{format}").schema
    assert replay.metadata[b"kvsim.shows"].decode() == results.replay.attrs["shows"]
    about = results.replay.attrs["about"]
    meanings = {each.name: each.metadata[b"meaning"].decode() for each in replay if each.metadata}
    assert meanings.items() <= about.items() and len(meanings) > 20
    assert replay.field("cache_bytes").metadata[b"unit"] == b"bytes"
    view = read(tmp_path / "tables" / f"regret.{format}").schema
    assert str(view.field("gap_closed").type) == "double"  # computed, so SQLite knows no type


def test_a_column_of_nulls_keeps_its_type_and_an_empty_table_its_columns(results, tmp_path):
    with sqlite3.connect(results.path) as connection:
        connection.execute("UPDATE replay SET ties = NULL, label = NULL")
    kvsim.export(results, tmp_path / "replay.parquet")
    schema = pq.read_schema(tmp_path / "replay.parquet")
    assert [str(schema.field(name).type) for name in ("ties", "label")] == ["int64", "string"]
    kvsim.export(results, tmp_path / "unit.arrow", table="unit")
    exported = read(tmp_path / "unit.arrow")
    assert exported.num_rows == 0 and str(exported.schema.field("layer").type) == "int64"


def test_equal_tables_give_equal_bytes_in_batches_of_any_number(results, tmp_path, monkeypatch):
    for name in ("a", "b"):
        kvsim.export(results, tmp_path / f"{name}.parquet", without=["run_id", "trace"])
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    monkeypatch.setattr("kvsim.results.export.writers.BATCH", 3)
    kvsim.export(results, tmp_path / "b.parquet", without=["run_id", "trace"])
    assert pq.ParquetFile(tmp_path / "b.parquet").num_row_groups > 1
    assert read(tmp_path / "a.parquet").equals(read(tmp_path / "b.parquet"))
    assert not {"run_id", "trace"} & {*read(tmp_path / "a.parquet").column_names}


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--table", "rplay", "-o", "x.parquet"], 2, "has no table rplay; it has"),
        (["--without", "recall", "-o", "x.parquet"], 2, "expected columns, found recall"),
        (["-o", "mine.parquet"], 2, "holds no table of kvsim"),
        (["--table", "all", "-o", "mine.parquet"], 2, "expected a folder"),
        (["-o", "no/such/x.parquet"], 1, "no/such"),
    ],
)
def test_what_is_wrong_is_one_line(words, status, said, results, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"mine": [1]}).to_parquet("mine.parquet")
    before = Path("mine.parquet").read_bytes()
    assert main([str(results.path), "--format", "parquet", *words]) == status
    error = capsys.readouterr().err
    assert error.startswith("kvsim: error: ") and error.count("\n") == 1 and said in error
    assert Path("mine.parquet").read_bytes() == before and not Path("x.parquet").exists()


def test_damage_ends_an_export_and_leaves_the_earlier_one(results, tmp_path, capsys):
    words = [str(results.path), "--format", "parquet", "-o", str(tmp_path / "x.parquet")]
    assert main(words) == 0
    before = (tmp_path / "x.parquet").read_bytes()
    with sqlite3.connect(results.path) as connection:
        connection.execute("UPDATE replay SET attention_recall = 2")
    assert main(words) == 3
    assert "attention_recall" in capsys.readouterr().err
    assert (tmp_path / "x.parquet").read_bytes() == before


def test_without_pyarrow_the_line_says_what_to_install(results, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.ipc", None)
    with pytest.raises(kvsim.KvsimError, match=r"need pyarrow.*pip install 'kvsim\[parquet\]'"):
        kvsim.export(results, tmp_path / "x.parquet")
    with pytest.raises(kvsim.KvsimError, match="need pyarrow"):
        kvsim.export(results, tmp_path / "tables", table="all")
    assert not (tmp_path / "tables").exists()


def test_a_failed_export_of_all_tables_leaves_no_new_folder(results, tmp_path):
    with sqlite3.connect(results.path) as connection:
        connection.execute("UPDATE replay SET attention_recall = 2")
    with pytest.raises(kvsim.ResultsError, match="attention_recall"):
        kvsim.export(results, tmp_path / "tables", table="all")
    assert not (tmp_path / "tables").exists()


def test_statistics_of_sqlite_are_no_table_of_results(results, tmp_path):
    with sqlite3.connect(results.path) as connection:
        connection.execute("ANALYZE")
    kvsim.export(results, tmp_path / "tables", table="all")
    assert (tmp_path / "tables" / "replay.parquet").exists()
    assert not list((tmp_path / "tables").glob("sqlite_*"))


@pytest.mark.skipif(not PROGRAM, reason="KVSIM_PROGRAM does not name the program")
def test_the_program_writes_the_rows_that_it_prints(results, tmp_path):
    def run(*words):
        command = [str(Path(PROGRAM).resolve()), "export", str(results.path), *words]
        environment = os.environ | {"KVSIM_PYTHON": sys.executable}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    printed = json.loads(run("--table", "regret", "--format", "json").stdout)
    ended = run("--table", "regret", "--format", "parquet", "-o", "regret.parquet")
    assert ended.stdout == f"regret.parquet: {len(printed)} rows\n"
    assert read(tmp_path / "regret.parquet").to_pylist() == printed
    for words, said in [
        (["-o", "x.csv"], "--output: expected --format parquet or arrow"),
        (["--format", "arrow"], "expected --output"),
    ]:
        ended = run(*words)
        assert (ended.returncode, ended.stderr.count("\n")) == (2, 1) and said in ended.stderr
