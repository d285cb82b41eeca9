"""What the programs of others choose at steps of the sample trace, against our selectors.

A step is alone in a trace whose prompt are the tokens before it. A selector that returns what the
program chose has the same row as ours if both choose the same: the attention that the chosen pages
have and the error that they leave are the same in all bits.
"""

import json

import numpy as np
import pytest

import kvsim
from conftest import HERE, SAMPLE
from nightly import a_third_by_day

FOLDER = HERE.parent / "conformance" / "selectors"
FILES = sorted(FOLDER.glob("*.json"))
CASES = [
    pytest.param(case, id=f"{file.stem}-{case['name']}")
    for file in FILES
    for case in json.loads(file.read_text())["cases"]
]
MEASURES = ["attended_mean", "attention_recall", "output_error_sq"]
BOOK = {}  # what the program chose, by the queries of the step


class Book(kvsim.Selector):
    """Chooses what BOOK says."""

    name = "book"

    def choose(self, step):
        return BOOK[step.queries.tobytes()]


def pages_of(digits):
    """The pages of a set: four per hexadecimal digit, the first one in the highest bit."""
    bits = [int(digit, 16) >> bit & 1 for digit in digits for bit in (3, 2, 1, 0)]
    return [page for page, is_chosen in enumerate(bits) if is_chosen]


def head_of(trace, case, unit):
    """Queries, keys and values of one cache; a program without groups has one per query head."""
    if case["heads"] == "kv":
        found = trace.unit(unit["sequence"], unit["layer"], unit["head"])
        return found.query, found.key[None], found.value[None]
    found = trace.unit(unit["sequence"], unit["layer"], unit["head"] // 2)
    place = unit["head"] % 2
    return found.query[place : place + 1], found.key[None], found.value[None]


def rows(heads, step, select):
    """The row of each head at one step, in which each head is a layer of its own."""
    layers = {
        place: tuple(array[:, : step + 1] for array in arrays) for place, arrays in enumerate(heads)
    }
    trace = kvsim.Trace.from_arrays(layers, prompt_length=step)
    frame = kvsim.fetch(trace, select, "100%", "lru", "prefill", threads=1)
    return frame.sort_values("layer")[MEASURES].to_numpy()


def equal_sets(case):
    """Whether our selector chooses the same older pages as the program, for each set."""
    trace, page, found = kvsim.Trace(SAMPLE), case["page"], []
    heads = [head_of(trace, case, unit) for unit in case["units"]]
    for place, step in enumerate(case["steps"]):
        older = []
        for unit, (query, _, _) in zip(case["units"], heads):
            chosen = [each for each in pages_of(unit["kept"][place]) if each < step // page]
            older.append(chosen)
            BOOK[np.ascontiguousarray(query[:, step]).tobytes()] = chosen
        theirs = rows(heads, step, f"book:page={page}")
        # A program that lets the step's own page compete has one older page less where it wins.
        for count in {len(chosen) for chosen in older}:
            which = [unit for unit, chosen in enumerate(older) if len(chosen) == count]
            select = case["select"].replace("N", str(count * page))
            ours = rows([heads[unit] for unit in which], step, select)
            found += (theirs[which] == ours).all(axis=1).tolist()
    return found


@a_third_by_day
@pytest.mark.parametrize("case", CASES)
def test_selectors_choose_what_the_programs_of_others_do_or_the_stated_share(case):
    found = equal_sets(case)
    assert len(found) == len(case["units"]) * len(case["steps"])
    assert np.mean(found) == pytest.approx(case["share"], abs=0.0005)
    assert (case["cause"] == "") == (case["share"] == 1)


def test_rows_of_another_choice_differ():
    case = json.loads((FOLDER / "quest.json").read_text())["cases"][0]
    case |= {"select": "topk:k=N,page=16", "units": case["units"][:8], "steps": case["steps"][-2:]}
    case["units"] = [unit | {"kept": unit["kept"][-2:]} for unit in case["units"]]
    assert np.mean(equal_sets(case)) < 0.5


def table():
    lines = []
    for file in FILES:
        for case in json.loads(file.read_text())["cases"]:
            heads = "query heads" if case["heads"] == "query" else "KV heads"
            sets = len(case["units"]) * len(case["steps"])
            lines.append(
                f"| {file.stem} | {case['name']} | {case['settings']} | `{case['select']}` | "
                f"{heads} | {sets} | {case['share']:.0%} | {case['cause']} |\n"
            )
    return "".join(lines)


def test_the_page_has_the_sets_and_programs_of_the_files():
    page = (FOLDER.parent / "README.md").read_text()
    assert f"{table()}<!-- end of selectors -->" in page, table()
    for file in FILES:
        program = json.loads(file.read_text())
        assert f"({program['source']})" in page and program["commit"][:7] in page
        assert f"(selectors/{file.name})" in page and program["date"] in page
