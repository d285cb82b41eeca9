"""Each paper's experiment on the bundled model, with two short texts."""

import contextlib
import io
import json
import sqlite3
from contextlib import closing

import pytest

from conftest import HERE
from kvsim.reproduce.__main__ import main

SAMPLE = HERE.parents[1] / "traces" / "sample"
MODEL = str(SAMPLE / "tiny-retriever")
TEXTS = str(SAMPLE / "tiny-retriever.jsonl")


def _findings(paper, *options):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main([paper, MODEL, "--texts", TEXTS, *options, "--format", "json"]) == 0
    found = {}
    for row in json.loads(out.getvalue()):
        found.setdefault((row["cell"].split(" (")[0], row["measure"]), []).append(row)
    return found


def test_h2o(tmp_path):
    output = tmp_path / "h2o.sqlite"
    options = ["--budgets", "20%", "--new-tokens", "24", "--prompt-tokens", "200"]
    found = _findings("h2o", *options, "-o", str(output))
    curve = found["Figure 4 and section 5.1", "answers right"]
    assert [row["first"] for row in curve] == ["H2O at 20%", "H2O at 60%"]
    (matches,) = found["Figure 4, sections 5.1", "answers right"]
    assert matches["second"] == "full" and matches["second_value"] > 0.9  # of 16 questions
    assert matches["first_value"] < 0.6
    assert all("2 texts are too few" in row["verdict"] for row in curve)
    (local,) = [row for row in found["Table 9", "nats per token"] if row["first"].startswith("H2 ")]
    assert local["difference"] == pytest.approx(local["first_value"] - local["second_value"])
    full, h2o = found["C.1", "Self-BLEU"]
    assert (full["second"], h2o["first"]) == ("full", "full")
    assert 0 <= full["first_value"] < 1 and full["second_value"] == h2o["first_value"]
    before = _rows(output)
    assert len(before) == 2 * 3 * 2
    again = _findings("h2o", "--budgets", "20%", "--new-tokens", "0", "-o", str(output))
    assert again["Figure 4 and section 5.1", "answers right"] == curve
    assert _rows(output) == before


def test_scissorhands():
    found = _findings("scissorhands", "--budgets", "50%", "--lengths", "256,2000")
    (curve, second) = found["Figure 3 and section 5, language modeling", "perplexity"]
    assert (curve["first"], second["first"]) == ("Scissorhands at 50%", "Scissorhands at 33%")
    assert 6 < curve["second_value"] < 9
    column = found["Table 3", "perplexity"]
    assert [row["texts"] for row in column] == ["tiny-retriever, 256 tokens"] * 2
    assert [row["second"] for row in column] == ["full", "local at 33%"]
    (short,) = found["Table 3", ""]
    assert "no text has 2000 tokens" in short["verdict"]
    bits = found["Table 4", "perplexity"][0]
    assert (bits["first"], bits["second"]) == ("with 4 bits at 50%", "Scissorhands at 50%")
    assert 0 < abs(bits["difference"]) < 0.2


def test_subgen():
    found = _findings("subgen", "--budgets", "50%")
    rows = found["Table 1", "answers right"]
    assert [(row["first"], row["second"]) for row in rows] == [
        ("SubGen at 50%", "H2O at 50%"), ("SubGen at 50%", "sink at 50%"),
        ("full", "SubGen at 50%"),
    ]  # fmt: skip
    assert rows[2]["first_value"] > 0.9
    (estimator,) = found["Algorithm 1", "answers right"]
    assert estimator["verdict"] == "the paper claims nothing here"
    assert estimator["second_value"] == pytest.approx(rows[0]["first_value"], abs=0.25)


def _rows(path):
    with closing(sqlite3.connect(path)) as file:
        return file.execute("SELECT * FROM closed_loop ORDER BY 1, 2, 3, 4, 5, 6, 7").fetchall()
