"""The study of record is whole, and the pages say what its tables say."""

import importlib.util
import json
import re

import pandas as pd
import pytest

import kvsim
from conftest import HERE, SAMPLE
from kvsim.closed_loop.prediction import SERIOUS, interval_over_texts, rank_correlations
from kvsim.report.style.labels import labels

ROOT = HERE.parents[1]
STUDY = ROOT / "notebooks/study"
TABLES = STUDY / "tables"
KEY = ["sequence", "loop", "policy", "budget"]


@pytest.fixture(scope="module")
def both():
    rows = pd.read_csv(TABLES / "loops.csv")
    return rows.assign(name=rows.policy.map(labels(list(rows.policy.unique()))))


@pytest.fixture(scope="module")
def loops(both):
    return both[both.loop == "imposed"]


def script(name, folder=STUDY):
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def texts():
    return [json.loads(line) for line in (STUDY / "texts.jsonl").read_text().splitlines()]


def test_every_policy_was_run_on_every_text_at_every_budget(loops):
    names = [text["name"] for text in texts()]
    assert set(loops.sequence) <= set(names)
    points = pd.MultiIndex.from_product(
        [loops.sequence.unique(), loops.policy.unique(), ["5%", "10%", "20%", "40%"]]
    )
    found = pd.MultiIndex.from_frame(loops[["sequence", "policy", "point"]])
    assert sorted(found) == sorted(points)
    assert loops.kl_mean.notna().all() and loops.projected_error.notna().all()


@pytest.mark.parametrize("table", ["kinds.csv", "layers.csv.gz"])
def test_the_other_tables_have_the_same_rows(both, loops, table):
    rows = pd.read_csv(TABLES / table)
    key = [name for name in KEY if name in rows]
    expected = both if "loop" in rows else loops
    assert sorted(set(rows[key].itertuples(index=False, name=None))) == sorted(
        set(expected[key].itertuples(index=False, name=None))
    )
    if "layer" in rows:
        assert set(rows.groupby(key).layer.nunique()) == {30}


def test_kinds_and_steps_add_up_to_the_mean_over_the_text(both):
    steps = pd.read_csv(TABLES / "steps.csv.gz").drop_duplicates([*KEY, "step"])
    means = steps.groupby(KEY).kl.mean()
    of_loops = both.set_index(KEY).kl_mean.loc[means.index]
    pd.testing.assert_series_equal(means, of_loops, rtol=1e-3, check_names=False)


def test_the_table_of_the_readme_is_that_of_the_study(loops):
    text = (ROOT / "README.md").read_text()
    shown = re.findall(
        r"^\| `(\S+)`.* \| (0?\.\d+) \| (\S+) \((\S+) to (\S+)\) \|", text, re.MULTILINE
    )
    assert len(shown) == 4
    at = loops[loops.point == "10%"]
    for name, *numbers in shown:
        rows = at[at.name == name]
        kl = rows.kl_mean.to_numpy()
        expected = [rows.attention_recall.mean(), kl.mean(), *interval_over_texts(kl)]
        assert [float(number) for number in numbers] == pytest.approx(expected, abs=6e-4)


def test_the_page_on_comparisons_has_the_correlations_of_the_study(loops):
    page = (ROOT / "sim/results/comparisons.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.*\]) \|", page, re.MULTILINE)
    found = script("cited").correlations(loops)
    assert len(rows) == 6
    for metric, cells in rows:
        assert cells.split(" | ") == [cell.replace("0.", ".") for cell in found.loc[metric]]


def test_weights_of_layers_rank_better_than_any_plain_number(loops):
    found = rank_correlations(loops, SERIOUS).query("outcome == 'kl_mean'")
    table = found.pivot(index="budget", columns="metric", values="spearman")
    table = table.loc[["5%", "10%", "20%", "40%"]]
    assert table.calibrated_kl.mean() > 0.8 and table.calibrated_kl.min() > 0.75
    assert (table.drop(columns="calibrated_kl").max(axis=1) < table.calibrated_kl - 0.1).all()


def test_policies_that_ran_in_the_adaptive_loop_did_so_on_every_text(both):
    adaptive = both[both.loop == "adaptive"]
    texts_of = adaptive.groupby(["name", "point"]).sequence.nunique().unstack()
    assert texts_of.shape == (20, 4) and (texts_of == len(texts())).all(axis=None)
    assert adaptive.kept_overlap.between(0.3, 1).all()


def test_the_page_on_the_papers_orderings_has_what_the_study_says_of_them(capsys, monkeypatch):
    page = (ROOT / "policies/paper_orderings.md").read_text()
    monkeypatch.setattr("sys.argv", ["paper_orderings.py", str(TABLES)])
    script("paper_orderings", ROOT / "policies").main()
    rows = [row for row in capsys.readouterr().out.splitlines() if "` < `" in row]
    assert len(rows) == 14
    assert [row for row in rows if row not in page] == []


def test_a_later_run_replaces_the_rows_of_its_texts_and_policies_alone(tmp_path, monkeypatch):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    summarise = script("summarise")
    monkeypatch.setattr(summarise, "TABLES", tmp_path / "tables")
    model = AutoModelForCausalLM.from_pretrained(SAMPLE.parent / "tiny-retriever").eval()
    tokenizer = AutoTokenizer.from_pretrained(SAMPLE.parent / "tiny-retriever")
    whole = (ROOT / "traces/sample/texts.jsonl").read_text().splitlines()[0]
    text = json.loads(whole)["text"][:60]

    def run(names, policies):
        folder = tmp_path / "-".join(names)
        folder.mkdir()
        lines = [{"name": name, "text": text} for name in names]
        trace = folder / "trace.h5"
        with kvsim.recording(model, trace, names=names, also="output_projection") as recorder:
            for _ in names:
                recorder.read(tokenizer(text, return_tensors="pt").input_ids[0])
        kvsim.evaluate(
            model, lines, policies, ["20%"], tokenizer=tokenizer, trace=trace, per_step=True,
            output=folder / "results.sqlite", progress=False,
        )  # fmt: skip
        kvsim.analyze(
            trace, "sparsity,persistence,repetition", output=folder / "analyses.sqlite",
            progress=False,
        )  # fmt: skip
        monkeypatch.setattr("sys.argv", ["summarise.py", str(folder)])
        summarise.main()
        tables = {path.name: pd.read_csv(path) for path in (tmp_path / "tables").iterdir()}
        others = {"pages.csv", "selectors.csv", "misses.csv", "tasks.csv", "once.csv", "bytes.csv"}
        others |= {"learned.csv", "splits.csv", "scorers.csv"}
        assert set(tables) == {path.name for path in TABLES.iterdir()} - others  # of other scripts
        return tables

    first = run(["a", "b"], ["window", "sink"])
    again = run(["b"], ["sink", "random"])
    for name, table in again.items():
        pd.testing.assert_frame_equal(
            table[table.sequence == "a"].reset_index(drop=True),
            first[name][first[name].sequence == "a"].reset_index(drop=True),
        )
        assert not table.duplicated([c for c in summarise.ORDER if c in table]).any()
        if name in ("loops.csv", "kinds.csv", "layers.csv.gz"):
            names = set(table[table.sequence == "b"].policy.str.split(":").str[0])
            assert names == {"window", "sink", "random"}
    assert set(again["layers.csv.gz"].layer) == {0, 1, 2, 3}
