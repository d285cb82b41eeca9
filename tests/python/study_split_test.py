"""The study of split budgets: which texts it reads, and what it says of them."""

import json
from types import SimpleNamespace

import pandas as pd
import pytest

from study_bytes_test import script


@pytest.fixture(scope="module")
def split():
    pytest.importorskip("torch")
    return script("split")


def test_texts_of_every_kind_come_before_the_second_of_any(split, tmp_path):
    names = ["facts-0", "facts-1", "article-0", "code-0", "article-1"]
    (tmp_path / "texts.jsonl").write_text("\n".join(json.dumps({"name": n}) for n in names))
    trace = SimpleNamespace(sequences=[SimpleNamespace(name=n) for n in names if n != "code-0"])
    found = [line["name"] for line in split.texts_of(tmp_path / "texts.jsonl", trace, 3)]
    assert found == ["facts-0", "article-0", "facts-1"]


def test_the_ratio_is_that_of_each_text_to_its_own_uniform_split(split):
    rows = pd.DataFrame(
        [
            ("a", "uniform", 1.0),
            ("b", "uniform", 4.0),
            ("a", "refined", 0.5),
            ("b", "refined", 8.0),
        ],
        columns=["sequence", "split", "kl_mean"],
    ).assign(budget_request="20%")
    table = split.summary(rows).loc["20%"]
    assert table.loc["refined"].tolist() == [4.25, 1.0, 0.5, 2.0]
    assert table.loc["uniform"].tolist() == [2.5, 1.0, 1.0, 1.0]
