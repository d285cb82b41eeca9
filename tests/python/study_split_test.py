"""The study of other splits and scorers: which texts it reads, and what it says of them."""

import json
from types import SimpleNamespace

import pandas as pd
import pytest

from study_bytes_test import STUDY, script


def test_texts_of_every_kind_come_before_the_second_of_any(tmp_path):
    pytest.importorskip("torch")
    names = ["facts-0", "facts-1", "article-0", "code-0", "article-1"]
    (tmp_path / "texts.jsonl").write_text("\n".join(json.dumps({"name": n}) for n in names))
    trace = SimpleNamespace(sequences=[SimpleNamespace(name=n) for n in names if n != "code-0"])
    found = [line["name"] for line in script("split").texts_of(tmp_path / "texts.jsonl", trace, 3)]
    assert found == ["facts-0", "article-0", "facts-1"]


def test_the_ratio_is_that_of_each_text_to_the_base_on_the_same_text():
    rows = pd.DataFrame(
        [
            ("a", "uniform", 1.0),
            ("b", "uniform", 4.0),
            ("a", "refined", 0.5),
            ("b", "refined", 8.0),
        ],
        columns=["sequence", "split", "kl_mean"],
    ).assign(budget_request="20%", answers_right=[1, 0, 1, 2], answers_right_full=[1, None, 1, 2])
    table = script("cited_splits").compared(rows, "split", "uniform").set_index("split")
    assert table.loc["refined", "KL"].startswith("4.250 [")
    assert table.loc["refined", "of uniform"] == "1.00 [.50, 2.00]"
    assert table.loc["uniform", "of uniform"] == "1.00 [1.00, 1.00]"
    assert table["answers"].to_dict() == {"uniform": "1 of 1", "refined": "3 of 3"}


def test_the_pages_quote_the_tables():
    cited, page = script("cited_splits"), (STUDY / "README.md").read_text()
    for table in cited.tables().values():
        for line in cited.lines(table):
            assert line in page
