"""The study's tables of pages, shared heads and two tiers are whole, and the pages quote them."""

import json
import re

import pandas as pd
import pytest

from conftest import HERE
from kvsim.closed_loop.prediction import interval_over_texts

ROOT = HERE.parents[1]
STUDY = ROOT / "notebooks/study"
TEXTS = [json.loads(line)["name"] for line in (STUDY / "texts.jsonl").read_text().splitlines()]
KEYS = {
    "pages": ["policy", "mode"],
    "selectors": ["select", "point", "replace"],
    "misses": ["select", "resident", "replace"],
}


def read(name):
    return pd.read_csv(STUDY / "tables" / f"{name}.csv")


def cells_of(page, wanted):
    """The cells of the rows of a table that begin so, an empty first cell as in the row before."""
    found, first = [], ""
    for line in (ROOT / page).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        first = cells[0] or first
        if line.startswith("|") and re.match(wanted, first) and set(line) - set("|- :"):
            found.append([first, *cells[1:]])
    return found


def quoted(values, digits):
    """A mean over texts with its interval, as pages write it."""
    numbers = [values.mean(), *interval_over_texts(values.to_numpy())]
    mean, low, high = (f"{number:.{digits}f}".removeprefix("0") for number in numbers)
    return f"{mean} [{low}, {high}]"


@pytest.mark.parametrize("name", KEYS)
def test_every_configuration_was_measured_on_every_text(name):
    rows = read(name)
    counts = rows.groupby(KEYS[name]).sequence.nunique()
    # A share of the device that a step does not fit into is another size, or no row.
    whole = counts[~counts.index.get_level_values(0).str.startswith("top-p")]
    assert (whole == len(TEXTS)).all() and set(rows.sequence) == set(TEXTS)
    assert not rows.duplicated(["sequence", *KEYS[name]]).any()


def test_the_page_on_pages_has_what_the_table_says():
    rows = read("pages")
    rows["name"] = rows.policy.str.replace(r":[^+]*", "", regex=True)
    kinds = [("stream", ""), ("stream", "+shared"), ("stream:page=16", "")]
    kinds.append(("stream:page=16", "+shared"))
    found = cells_of("sim/replay/pages.md", r"`(optimal|vatp|h2o|snapkv|sink|tova|keydiff|window)`")
    assert len(found) == 8
    for name, *cells in found:
        for (mode, ending), cell in zip(kinds, cells):
            of = rows[(rows.name == name.strip("`") + ending) & (rows["mode"] == mode)]
            if cell == "the same":
                assert of.empty
                continue
            right = int(of.answers_right.sum())
            assert cell == f"{quoted(of.kl_mean, 3)}, {right}", (name, mode, ending)


def test_the_page_on_misses_has_what_the_table_says():
    rows = read("misses").pivot_table(
        index=["select", "resident", "sequence"], columns="replace", values="misses"
    )
    ratios = rows.div(rows.belady, axis=0)
    hits = read("misses").query("replace == 'belady'")
    hits = hits.groupby(["select", "resident"]).hit_rate.mean()
    found = cells_of("sim/tiers/misses.md", r"`(topk|quest|sparq):k")
    assert len(found) == 7
    specs = {spec: spec for spec in rows.index.get_level_values(0)}
    specs |= {"topk:k=64": "topk:k=64,page=1"}
    specs |= {f"quest:k={k}": f"quest:k={k},page=16" for k in (64, 128)}
    specs |= {"sparq:k=64,page=16,rank=16": "sparq:k=64,rank=16,page=16"}
    for select, size, hit_rate, *cells in found:
        at = specs[select.strip("`")], int(size)
        of = ratios.loc[at]
        assert hit_rate == f"{hits[at]:.3f}".removeprefix("0")
        for replacement, cell in zip(["lru", "clock", "fifo", "mass", "lfu"], cells):
            values = of[replacement]
            assert cell == quoted(values, 2 if values.mean() < 10 else 1), (select, replacement)
