"""The study's table of what is learned is whole, its texts are new, and the page quotes it."""

import json

import pandas as pd

from study_bytes_test import STUDY, script


def test_no_text_is_both_learned_from_and_measured_on():
    texts, training = (
        [json.loads(line)["text"] for line in (STUDY / name).read_text().splitlines()]
        for name in ("texts.jsonl", "texts_train.jsonl")
    )
    assert len(training) == 8

    def sentences(of):
        return {part for text in of for part in text.split(". ") if len(part) > 40}

    assert not sentences(texts) & sentences(training)


def test_every_policy_was_measured_on_the_same_texts():
    rows = pd.read_csv(script("cited_learned").ROWS)
    of = rows.groupby(["loop", "budget_request", "policy"])["sequence"].agg(frozenset)
    online = of[~of.index.get_level_values("policy").str.startswith("optimal")]
    assert online.nunique() == 1
    assert online.groupby(["loop", "budget_request"]).size().to_dict() == {
        (loop, budget): 7 for loop in ("adaptive", "imposed") for budget in ("10%", "20%")
    }
    assert not rows["policy"].str.contains("/|sha256").any()


def test_a_file_of_a_policy_is_named_without_its_folder():
    without_folder = script("summarise_learned").without_folder
    spec = "learned:file=/a/m.npz,sha256=0f,recent=0,sinks=4@file:file=b/t.npy,sha256=1e"
    assert without_folder(spec) == "learned:file=m.npz,recent=0,sinks=4@file:file=t.npy"
    assert without_folder("learned:file=m.npz,sha256=") == "learned:file=m.npz"


def test_the_page_quotes_the_table():
    cited = script("cited_learned")
    of, page = cited.rows(), (STUDY / "README.md").read_text()
    section = page[page.index("## Learned scorers") :]
    for name in of["name"].unique():
        cells = []
        for loop in cited.LOOPS:
            for budget in cited.BUDGETS:
                cells += [cited.mean(of, name, loop, budget)]
        line = next(line for line in section.splitlines() if line.startswith(f"| `{name}` |"))
        found = [cell.strip() for cell in line.strip("|").split("|")][1:5]
        assert found == cells
    for loop in cited.LOOPS:
        for budget in cited.BUDGETS:
            assert cited.ratio(of, "learned@file", loop, budget) in section
            assert cited.answers(of, "learned@file", loop, budget) in section
