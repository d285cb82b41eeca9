"""The study's table of tasks is whole, and its page quotes it."""

import importlib.util
import re

import pandas as pd
import pytest

from conftest import HERE

STUDY = HERE.parents[1] / "notebooks/study"
TEXTS = {f"{task}.512.seed-0.sample-{n}" for task in (
    "niah-single", "niah-multikey", "niah-multivalue") for n in range(1, 11)}  # fmt: skip


@pytest.fixture(scope="module")
def cited():
    spec = importlib.util.spec_from_file_location("cited_tasks", STUDY / "cited_tasks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def page():
    text = (STUDY / "README.md").read_text()
    return text[text.index("\n## Tasks") : text.index("\n### Compressed once")]


def test_every_policy_answered_every_text():
    rows = pd.read_csv(STUDY / "tables/tasks.csv")
    counts = rows.groupby(["loop", "asked", "policy"])["sequence"].agg(["count", set])
    assert (counts["count"] == len(TEXTS)).all()
    assert all(texts == TEXTS for texts in counts["set"])
    assert len(counts) == 11 + 7 + 12


def test_the_page_has_the_scores_of_the_table(cited, page):
    scores = {column: cited.scores(column) for column in cited.COLUMNS}
    found = re.findall(r"^\| `([^`]+)`[^|]*\|([^|]*)\|([^|]*)\|$", page, re.MULTILINE)
    assert len(found) == 13
    for name, unseen, after in found:
        online = name not in ("optimal", "lookahead")
        assert unseen.strip() == scores["unseen" if online else "imposed"][name]
        assert after.strip() == scores["after"].get(name, "")


def test_the_page_has_what_contexts_lose_that_are_compressed_once(cited):
    rows = pd.read_csv(cited.ONCE)
    assert rows.groupby("policy")["sequence"].agg(set).map(TEXTS.__eq__).all()
    table = cited.compressed_once()
    text = (STUDY / "README.md").read_text()
    page = text[text.index("\n### Compressed once") : text.index("\n## Equal bytes")]
    found = re.findall(r"^\| `([^`]+)`[^|]*\|([^|]*)\|([^|]*)\|$", page, re.MULTILINE)
    assert {name for name, _, _ in found} == set(table.index)
    for name, score, kl in found:
        assert (score.strip(), kl.strip()) == tuple(table.loc[name])
    assert cited.against_snapkv() in page
    assert cited.against_snapkv() in (HERE.parents[1] / "analysis/baselines.md").read_text()


def test_the_page_has_how_far_a_replay_agrees(cited, page):
    for measure in cited.OF_REPLAY:
        assert cited.agreement(measure) in page
    for policy in ("snapkv", "lookback", "h2o"):
        assert cited.better_in_view(policy) in page
