"""The papers' modules: which claims they judge, from made-up rows."""

import numpy as np
import pandas as pd
import pytest

from kvsim.reproduce import h2o, scissorhands, subgen
from kvsim.reproduce.claims import HOLDS, NO_CLAIM, REVERSED, UNDECIDED
from kvsim.reproduce.data import Group
from kvsim.reproduce.rows import Rows

TOKENS = 1000


class MadeUp:
    """An experiment whose rows are given: answers and likelihood lost, by policy and budget."""

    def __init__(self, lost, groups=("texts",), budgets=None, count=6, longest=1024):
        self.lost, self.asked, self.count, self.longest = lost, budgets, count, longest
        self.groups = [Group(name, ()) for name in groups]
        self.lengths = None
        self.loops, self.diverse = [], []

    def budgets(self, usual, *needed):
        return list(dict.fromkeys([*(self.asked or usual), *needed]))

    def measure(self, group, policies, budgets, *, protocol=None, loop="imposed",
                is_steady=False):  # fmt: skip
        protocol = protocol or {}
        mode = protocol.get("mode", "stream")
        interval = "1" if is_steady else protocol.get("eviction_interval", "1")
        self.loops.append((tuple(policies.values()), mode, interval, loop))
        found = []
        for spec in policies.values():
            for budget in budgets:
                share = float(budget.rstrip("%")) / 100
                for text in range(self.count):
                    lost = self.lost(spec, share, text)
                    found.append({
                        "sequence": f"{group.name}-{text}", "loop": loop, "mode": mode,
                        "policy": spec, "steps": TOKENS, "prompt_length": 0,
                        "budget": round(share * TOKENS), "budget_request": budget, "answers": 10,
                        "answers_right_full": 10, "answers_right": 10 - lost, "nll_full": 1.5,
                        "nll": 1.5 + lost / 10,
                    })  # fmt: skip
        return Rows(group.name, pd.DataFrame(found), policies)

    def measure_beginnings(self, group, policies, budget, tokens):
        if tokens > self.longest:
            return None
        return self.measure(Group(f"{group.name}-{tokens}", ()), policies, [budget])

    def diversity(self, claim, policies, order, budget):
        self.diverse.append((claim, policies, order, budget))
        return iter(())


def _as_the_paper_says(spec, share, text):
    """H2O loses nothing from 20% on, H2 alone some, local much."""
    return {"h2o": 0 if share >= 0.2 else 1, "h2o:recent=0": 3, "window": 5}[spec]


def _by_claim(found):
    verdicts = {}
    for finding in found:
        verdicts.setdefault(finding.claim, []).append(finding.verdict)
    return verdicts


def test_claims_of_h2o_hold_where_rows_are_as_the_paper_says():
    verdicts = _by_claim(h2o.findings(MadeUp(_as_the_paper_says)))
    assert verdicts.pop(h2o.SHOTS)[0].startswith("cannot be shown here, because the texts are of")
    assert set(verdicts) == {
        h2o.AT_EVERY_BUDGET, h2o.MATCHES_FULL, h2o.COLLAPSES, h2o.H2_ALONE, h2o.BOTH
    }  # fmt: skip
    assert {len(found) for found in verdicts.values()} == {10, 2, 4}
    assert {verdict for found in verdicts.values() for verdict in found} == {HOLDS}


def test_claims_of_h2o_are_reversed_where_rows_are():
    def lost(spec, share, text):
        return {"h2o": 4, "h2o:recent=0": 6, "window": 1}[spec]

    verdicts = _by_claim(h2o.findings(MadeUp(lost)))
    assert set(verdicts[h2o.AT_EVERY_BUDGET]) == {REVERSED}
    assert set(verdicts[h2o.MATCHES_FULL]) == {REVERSED}
    assert set(verdicts[h2o.H2_ALONE]) == {REVERSED}
    assert verdicts[h2o.BOTH] == [REVERSED, HOLDS] * 2


def test_differences_of_either_sign_are_not_distinguished():
    def lost(spec, share, text):
        return 3 + (-1) ** text * (spec == "h2o")

    verdicts = _by_claim(h2o.findings(MadeUp(lost)))
    assert set(verdicts[h2o.AT_EVERY_BUDGET]) == {UNDECIDED}


def test_asked_budgets_are_joined_by_those_of_the_tables():
    found = list(h2o.findings(MadeUp(_as_the_paper_says, budgets=["90%", "30%"])))
    shown = [each.first for each in found if each.claim is h2o.AT_EVERY_BUDGET]
    assert shown == [f"H2O at {budget}" for budget in ("20%", "30%", "60%", "90%")] * 2


def test_several_kinds_of_texts_show_the_table_of_shots():
    experiment = MadeUp(_as_the_paper_says, groups=("0-shot", "5-shot"))
    shots = [each for each in h2o.findings(experiment) if each.claim is h2o.SHOTS]
    assert [each.texts for each in shots] == ["0-shot", "0-shot", "5-shot", "5-shot"]
    assert {each.verdict for each in shots} == {HOLDS}


def test_generated_texts_are_compared_at_the_budget_of_the_paper():
    experiment = MadeUp(_as_the_paper_says)
    list(h2o.findings(experiment))
    ((claim, policies, order, budget),) = experiment.diverse
    assert claim is h2o.DIVERSITY and budget == "20%"
    assert policies == {"full": "full", "H2O": "h2o", "local": "window"}
    assert order == [("H2O", "full"), ("full", "local")]


def test_scissorhands_claims_nothing_below_its_budgets():
    def lost(spec, share, text):
        return 0 if "scissorhands" in spec else 5

    experiment = MadeUp(lost, budgets=["10%", "75%"])
    verdicts = _by_claim(scissorhands.findings(experiment))
    assert verdicts[scissorhands.PERPLEXITY_STAYS] == [HOLDS, HOLDS, NO_CLAIM, NO_CLAIM]
    assert verdicts[scissorhands.ACCURACY_STAYS] == [HOLDS, HOLDS, HOLDS, NO_CLAIM]
    assert verdicts[scissorhands.AS_FULL] == verdicts[scissorhands.LOCAL_LOSES] == [HOLDS] * 2
    assert verdicts[scissorhands.QUANTISATION] == [HOLDS] * 2
    assert "one model is asked" in verdicts[scissorhands.FLATTER][0]


def test_quantised_caches_are_measured_in_the_adaptive_loop():
    experiment = MadeUp(lambda spec, share, text: 2 * ("quant" in spec))
    verdicts = _by_claim(scissorhands.findings(experiment))
    assert verdicts[scissorhands.QUANTISATION] == [REVERSED] * 2
    loops = {loop for specs, _, _, loop in experiment.loops if "quant" in "".join(specs)}
    assert loops == {"adaptive"}


def test_texts_shorter_than_a_column_cannot_show_it():
    def lost(spec, share, text):
        return 0 if "scissorhands" in spec else 5

    verdicts = _by_claim(scissorhands.findings(MadeUp(lost, longest=600)))
    assert len(verdicts[scissorhands.AS_FULL]) == 2 and len(verdicts[scissorhands.LOCAL_LOSES]) == 1
    assert any("no text has 1024 tokens" in each for each in verdicts[scissorhands.AS_FULL])


@pytest.mark.parametrize(("of_kcenter", "verdict"), [(1, HOLDS), (6, REVERSED)])
def test_subgen_is_compared_with_each_other_policy(of_kcenter, verdict):
    def lost(spec, share, text):
        return {"sink": 4, "h2o": 3, "kcenter": of_kcenter, "subgen": 5}[spec]

    experiment = MadeUp(lost)
    verdicts = _by_claim(subgen.findings(experiment))
    assert verdicts[subgen.OVER_H2O] == verdicts[subgen.OVER_SINK] == [verdict] * 4
    assert verdicts[subgen.BELOW_EXACT] == [HOLDS] * 4
    assert verdicts[subgen.ALGORITHM_1] == [NO_CLAIM] * 4
    assert [loop for *_, loop in experiment.loops] == ["imposed", "adaptive"]
    assert [each[1:3] for each in experiment.loops] == [("prefill", "never"), ("prefill", "1")]


def test_numbers_of_the_papers_are_those_of_their_cells():
    local, alone, both = np.array([  # H2O Table 9, rows of OPT-30B
        [55.82, 67.25, 78.45], [25.20, 26.60, 43.00],
        [20.87, 21.98, 26.87], [49.17, 47.36, 69.06],
    ]).T  # fmt: skip
    for cells in zip(local, alone, both):
        assert ", ".join(f"{cell:.2f}" for cell in cells) in h2o.BOTH.numbers
    assert (both > local).all() and (both > alone).all()
