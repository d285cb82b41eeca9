"""The study's table of equal bytes is whole, and the pages quote it."""

import importlib.util
import re

import pandas as pd
import pytest

from conftest import HERE

ROOT = HERE.parents[1]
STUDY = ROOT / "notebooks/study"
TEXTS = {"facts-0", "facts-1", "facts-2", "article-0", "dialogue-0", "code-1"}


def script(name):
    spec = importlib.util.spec_from_file_location(name, STUDY / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(STUDY))  # scripts import each other
        spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def cited():
    return script("cited_bytes")


def cells_after(text, header):
    """The rows of the table with this header, each a list of cells."""
    lines = text[text.index(header) :].splitlines()[2:]
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def test_every_text_was_read_with_every_policy_at_32_kib(cited):
    rows = pd.read_csv(cited.ROWS)
    at = rows[rows["budget_request"] == "32KiB"]
    counts = at.groupby(["loop", "policy"])["sequence"].agg(["count", set])
    assert (counts["count"] == len(TEXTS)).all()
    assert all(texts == TEXTS for texts in counts["set"])
    assert counts.groupby("loop").size().to_dict() == {"adaptive": 25, "imposed": 18}
    assert not rows["policy"].str.contains("/").any()


def test_a_file_of_a_policy_is_named_without_its_folder():
    without_file = script("summarise_bytes").without_file
    spec = "kvzip:file=/a/s.h5,sha256=0f,reads=text,sinks=4"
    assert without_file(spec) == "kvzip:file=,sha256=,reads=text,sinks=4"
    assert without_file("window") == "window"


def test_the_studys_page_has_the_losses_of_the_table(cited):
    found = cells_after((STUDY / "README.md").read_text(), "| policy | KiB that it takes of 32 |")
    adaptive, imposed = cited.rows("adaptive"), cited.rows("imposed")
    names = set(adaptive["name"]) | set(imposed["name"])
    losses = {
        f"`{name.replace(' ', ':', 1)}`": (
            *(cited.loss(adaptive, name, size) for size in cited.SIZES),
            cited.loss(imposed, name, "32KiB"),
        )
        for name in names
    }
    assert {row[0] for row in found} == {name for name, cells in losses.items() if any(cells)}
    for name, taken, *cells in found:
        assert tuple(cells) == losses[name]
        if cells[1]:
            bare = name.strip("`").replace(":", " ", 1)
            assert taken == cited.taken(adaptive, bare, "32KiB")


def test_the_page_of_the_baselines_has_every_claim_of_the_table(cited):
    found = cells_after(
        (ROOT / "analysis/baselines.md").read_text(), "| paper | loses less | 16 KiB |"
    )
    of = cited.rows("adaptive")
    assert [row[0] for row in found] == list(cited.CLAIMS)
    for key, compared, *cells in found:
        policies = tuple(spec.replace(":", " ", 1) for spec in re.findall("`([^`]+)`", compared))
        assert policies == cited.CLAIMS[key]
        assert cells == [cited.claim(of, key, size) for size in cited.SIZES]
        assert any(cells)


def test_both_pages_say_what_four_bits_lose_in_half_the_size(cited):
    for page in (STUDY / "README.md", ROOT / "analysis/baselines.md"):
        assert f"{cited.in_half_the_size()} of what" in " ".join(page.read_text().split())
