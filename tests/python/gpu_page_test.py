"""The page of gpu/check, on rows and times that are made up."""

import json
import sqlite3
import sys
from contextlib import closing

import pytest

from conftest import HERE

sys.path.insert(0, str(HERE.parents[1] / "gpu"))

import check_page as page

COLUMNS = [
    *page.KEY,
    "attention_loss",
    "output_error_mean",
    "evictions",
    "token_misses",
    "device",
    "run_id",
]


def row(policy, on, **values):
    found = {
        "trace_id": "t", "sequence": "s", "layer": 0, "kv_head": 1, "policy": policy, "budget": 7,
        "mode": "stream", "seed": 0, "attention_loss": 0.25, "output_error_mean": None,
        "evictions": 3, "token_misses": 5, "device": on, "run_id": on,
    }  # fmt: skip
    return found | values


def write_rows(path, rows):
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"CREATE TABLE replay ({', '.join(COLUMNS)})")
        places = ", ".join("?" * len(COLUMNS))
        database.executemany(
            f"INSERT INTO replay VALUES ({places})", [[r[c] for c in COLUMNS] for r in rows]
        )
        database.commit()


def case(name, ms, **kernels):
    return {
        "id": name, "title": name, "ms_per_head": ms, "kernel_seconds": kernels, "kernel_heads": 10,
    }  # fmt: skip


# 4096 tokens in blocks of 64 take 2 * 128 * 8,519,680 operations per head for a product.
TIMES = {
    "tokens": 4096, "head_dim": 128, "heads": 20, "threads": 4,
    "ceilings": {
        "device": "made up", "fp32_gflop_per_s": 100.0, "fp64_gflop_per_s": 50.0,
        "copy_gb_per_s": 9.0, "upload_gb_per_s": 8.0,
    },
    "cases": [
        case("exact", 1.0, multiply_keys=0.218103808 / 0.8, sum_values=0.436207616 / 0.4),
        case("h2o", 2.0, replay_steps=4096e-6),
        case("h2o_budgets", 3.0, replay_steps=1.0),
        case("policies_budgets", 8.0, replay_steps=2.0),
    ],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "about.tsv").write_text("device\tmade up\ndate\t2026-01-02\n")
    (tmp_path / "steps.tsv").write_text("Tests\tok\t12\nncu\tnot installed\t0\n")
    write_rows(tmp_path / "cpu.sqlite", [row("h2o", "cpu"), row("full", "cpu")])
    write_rows(tmp_path / "cuda.sqlite", [row("h2o", "cuda"), row("full", "cpu")])
    (tmp_path / "device.json").write_text(json.dumps(TIMES))
    return tmp_path


def page_of(folder):
    assert page.main("write", folder) == 0
    return (folder / "page.md").read_text()


def test_the_page_names_the_device_each_step_and_that_rows_agree(folder):
    text = page_of(folder)
    assert "- device: made up\n- date: 2026-01-02\n" in text
    assert "**All steps passed.**" in text
    assert "| Tests | ok | 12 |" in text
    assert "1 of 2 rows were replayed on the GPU." in text
    assert "**The devices agree to 0.0001 relative in every measured column.**" in text


def test_goals_are_met_or_missed(folder):
    text = page_of(folder)
    assert "| `multiply_keys` | 80% of fp32 GEMM | 75% | met |" in text
    assert "| `sum_values` | 40% of DGEMM | 50% | missed |" in text
    assert "| `replay_steps`, replays at once: 10 | 1.00 µs a step | 2 µs | met |" in text
    assert "| forty configurations | 4.00 times one | 3 times | missed |" in text
    assert "| whole sweep | PyTorch was not measured | 30 times |  |" in text
    times = json.loads(json.dumps(TIMES))
    times["cases"][3]["pytorch_ms_per_head"] = 240.0
    (folder / "device.json").write_text(json.dumps(times))
    assert "| whole sweep | 30.0 times PyTorch | 30 times | met |" in page_of(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"attention_loss": 0.2501},
            "| `attention_loss` | 4.0e-04 | `h2o` at 7, s, layer 0, head 1 |",
        ),
        ({"output_error_mean": 0.5}, "output_error_mean 0.5 for None"),
        ({"evictions": 4}, "Counts that differ: 1\n- evictions 4 for 3: `h2o` at 7"),
        ({"device": "cpu"}, "0 of 2 rows"),
    ],
)
def test_rows_that_differ_fail_and_are_named(folder, capsys, change, said):
    (folder / "cuda.sqlite").unlink()
    write_rows(folder / "cuda.sqlite", [row("h2o", "cuda", **change), row("full", "cpu")])
    assert page.main("compare", folder) == 1
    assert said in capsys.readouterr().out
    assert "**The devices do not agree" in page_of(folder)


def test_counts_that_rounding_decides_may_differ_and_rows_of_one_device_only_fail(folder, capsys):
    (folder / "cuda.sqlite").unlink()
    write_rows(folder / "cuda.sqlite", [row("h2o", "cuda", token_misses=4), row("full", "cpu")])
    assert page.main("compare", folder) == 0
    assert "Counts that differ: 1\n- token_misses 4 for 5: `h2o` at 7" in capsys.readouterr().out
    (folder / "cuda.sqlite").unlink()
    write_rows(folder / "cuda.sqlite", [row("h2o", "cuda")])
    assert page.main("compare", folder) == 1
    assert "only on one device" in capsys.readouterr().out


def test_what_was_not_measured_is_said(folder):
    for name in ("cpu.sqlite", "cuda.sqlite", "device.json"):
        (folder / name).unlink()
    (folder / "steps.tsv").write_text("Device\tok\t0\nTests\tfailed\t3\nTimes\tfailed\t0\n")
    text = page_of(folder)
    assert "**Failed: Tests, Times.**" in text
    assert text.count("Not measured.") == 2
