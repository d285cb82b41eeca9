"""Verdicts, intervals, Self-BLEU and the printed table of python -m kvsim.reproduce."""

import csv
import io
import json
import math

import pandas as pd
import pytest

import kvsim
from conftest import H2O
from kvsim.reproduce.claims import (
    HOLDS,
    NO_CLAIM,
    REVERSED,
    UNDECIDED,
    Claim,
    Finding,
    Interval,
    interval_of,
    judged,
    verdict_of,
)
from kvsim.reproduce.rows import ANSWERS, FULL, NLL, PERPLEXITY, Rows
from kvsim.reproduce.self_bleu import bleu, self_bleu, words
from kvsim.reproduce.table import COLUMNS, WIDTHS, printed

CLAIM = Claim("Paper", "Table 1", "a beats b", "a 2, b 1")


def _rows(right, nll=None, full=8, answers=8):
    """Six texts under policies a and b, at 20%: answers right and likelihood by policy."""
    found = []
    for policy, numbers in right.items():
        for text, number in enumerate(numbers):
            found.append({
                "sequence": f"text-{text}", "loop": "imposed", "mode": "stream",
                "policy": f"spec of {policy}", "budget": 20,
                "budget_request": "20%", "steps": 100, "prompt_length": 0, "answers": answers,
                "answers_right_full": full, "answers_right": number, "nll_full": 1.5,
                "nll": nll[policy][text] if nll else 1.6,
            })  # fmt: skip
    return Rows("texts", pd.DataFrame(found), {name: f"spec of {name}" for name in right})


def _judged(rows, quantity=ANSWERS, **options):
    return judged(CLAIM, rows, quantity, rows.at("a", "20%"), rows.at("b", "20%"), **options)


def test_an_interval_is_that_of_kvsim_compare(result_file, program):
    recall = {"b": 0.9, "a": 0.3, "C": 0.35, "ä": 0.7, "10": 0.55, "9": 0.1}
    for text, value in recall.items():
        result_file.replay("window", 4, sequence=text, attention_recall=value)
        result_file.replay(H2O, 4, sequence=text, attention_recall=0.5)
    row = kvsim.compare(result_file.path, "window", H2O).iloc[0]
    ours = interval_of(pd.Series(recall) - 0.5)
    assert (ours.mean, ours.low, ours.high) == pytest.approx(
        (row.difference, row.low, row.high), abs=1e-12
    )
    assert ours.samples == row.samples == 6 and row.sampled == "sequences"


@pytest.mark.parametrize(
    ("low", "high", "higher", "margin", "verdict"),
    [
        (0.1, 0.2, True, 0, HOLDS),
        (-0.2, -0.1, True, 0, REVERSED),
        (-0.1, 0.2, True, 0, UNDECIDED),
        (0.0, 0.2, True, 0, UNDECIDED),
        (0.1, 0.2, False, 0, REVERSED),
        (-0.2, -0.1, False, 0, HOLDS),
        (-0.005, 0.1, True, 0.01, HOLDS),
        (0.0, 0.0, True, 0.01, HOLDS),
        (-0.02, 0.1, True, 0.01, UNDECIDED),
        (-0.02, -0.015, True, 0.01, REVERSED),
        (-0.1, 0.005, False, 0.01, HOLDS),
    ],
)
def test_a_verdict_follows_from_the_interval(low, high, higher, margin, verdict):
    assert verdict_of(Interval((low + high) / 2, low, high, 6), higher, margin) == verdict


@pytest.mark.parametrize("texts", [1, 4])
def test_few_texts_have_no_verdict(texts):
    rows = _rows({"a": [8] * texts, "b": [1] * texts})
    finding = _judged(rows)
    said = "1 text is" if texts == 1 else "4 texts are"
    assert finding.verdict.startswith(f"cannot be shown here, because {said} too few")
    assert finding.difference == pytest.approx(7 / 8)
    assert (finding.low is None) == (texts == 1)


def test_answers_are_compared_text_by_text():
    finding = _judged(_rows({"a": [8, 7, 6, 5, 4, 3], "b": [7, 6, 5, 4, 3, 2]}))
    assert finding.verdict == HOLDS
    assert (finding.difference, finding.low, finding.high) == pytest.approx((0.125,) * 3)
    assert (finding.first_value, finding.second_value) == pytest.approx((5.5 / 8, 4.5 / 8))
    assert finding.shown() == (
        "answers right: a at 20% 0.688, b at 20% 0.562: +0.125 [+0.125, +0.125]"
    )


def test_lower_likelihood_is_better_and_perplexity_is_a_ratio():
    nll = {"a": [1.5, 1.6, 1.5, 1.6, 1.5, 1.6], "b": [1.6, 1.7, 1.6, 1.7, 1.6, 1.7]}
    rows = _rows({"a": [0] * 6, "b": [0] * 6}, nll)
    assert _judged(rows, NLL).verdict == HOLDS
    assert _judged(rows, NLL).difference == pytest.approx(-0.1)
    finding = _judged(rows, PERPLEXITY)
    assert finding.first_value == pytest.approx(math.exp(1.55))
    assert finding.difference == pytest.approx(math.exp(-0.1) - 1)
    assert finding.shown() == "perplexity: a at 20% 4.711, b at 20% 5.207: -9.5% [-9.5%, -9.5%]"
    full = judged(CLAIM, rows, NLL, rows.at("a", "20%"), FULL, margin=0.2)
    assert full.verdict == HOLDS and full.difference == pytest.approx(0.05)


def test_answers_need_spans_and_a_model_that_answers():
    without = _judged(_rows({"a": [0] * 6, "b": [0] * 6}, answers=0, full=0))
    assert without.verdict.endswith("no text has a measured span that is labelled answer")
    assert without.difference is None and without.shown() == "answers right"
    unable = _judged(_rows({"a": [1] * 6, "b": [0] * 6}, full=0))
    assert unable.verdict.endswith("the model answers none of 48 questions with its full cache")
    assert unable.difference == pytest.approx(1 / 8)


def test_a_model_that_gains_from_forgetting_gets_no_verdict_on_likelihood():
    nll = {"a": [1.1, 1.2, 1.3, 1.2, 1.1, 1.2], "b": [1.4] * 6}
    rows = _rows({"a": [8] * 6, "b": [0] * 6}, nll)
    assert _judged(rows, NLL).verdict == HOLDS
    rows.check_use_of_context("b")
    assert "predicts better with b at 20%" in _judged(rows, NLL).verdict
    assert "(-0.100 nats per token)" in _judged(rows, NLL).verdict
    assert _judged(rows, ANSWERS).verdict == HOLDS
    few = _rows({"a": [8] * 4, "b": [0] * 4}, {"a": [1.1] * 4, "b": [1.4] * 4})
    few.check_use_of_context("b")
    assert "4 texts are too few" in _judged(few, NLL).verdict
    fit = _rows({"a": [8] * 6, "b": [0] * 6}, {"a": [1.1] * 6, "b": [1.6] * 6})
    fit.check_use_of_context("b")
    assert _judged(fit, NLL).verdict == HOLDS


def test_where_a_paper_claims_nothing_there_is_no_verdict():
    finding = _judged(_rows({"a": [8] * 6, "b": [0] * 6}), claimed=False)
    assert finding.verdict == NO_CLAIM and finding.difference == 1


def test_bleu_is_that_of_its_published_examples():
    # Of the documentation of nltk's sentence_bleu: four-grams, no precision of 0.
    first = (
        "It is a guide to action which ensures that the military always obeys the commands of the "
        "party"
    )
    references = [
        "It is a guide to action that ensures that the military will forever heed Party commands",
        "It is the guiding principle which guarantees the military forces always being under the "
        "command of the Party",
        "It is the practical guide for the army always to heed the directions of the party",
    ]
    found = bleu(first.split(), [each.split() for each in references])
    assert found == pytest.approx(0.5045666840058485, abs=1e-12)
    # Papineni et al., section 2.1.1: the clipped unigram precision of seven "the" is 2/7.
    references = ["The cat is on the mat", "There is a cat on the mat"]
    the = bleu(["the"] * 7, [each.lower().split() for each in references], order=1)
    assert the == pytest.approx(2 / 7)


def test_bleu_of_hand_computed_texts():
    one, two = "a b c d".split(), "a b c e f".split()
    # Unigrams 3/4, bigrams 2/3, trigrams 1/2, four-grams 0.1/1; one word short: exp(1 - 5/4).
    expected = (3 / 4 * 2 / 3 * 1 / 2 * 0.1) ** 0.25 * math.exp(-0.25)
    assert bleu(one, [two]) == pytest.approx(expected)
    assert bleu(one, [two, ["a", "x", "y"]], order=2) == pytest.approx(math.sqrt(3 / 4 * 2 / 3))
    assert bleu(["x"], [one]) == 0
    assert bleu(one, [one]) == 1


def test_self_bleu_compares_every_text_with_all_others():
    a, b, c = "a b c d".split(), "a b c d".split(), "p q r s".split()
    assert self_bleu([a, b, c]) == [1, 1, 0]
    assert self_bleu([a, c], order=1) == [0, 0]
    with pytest.raises(ValueError, match="at least 2 texts, found 1"):
        self_bleu([a])
    assert words("Don't stop, now.") == ["Don", "'", "t", "stop", ",", "now", "."]


def _findings():
    other = Claim("Paper", "section 2", "c is large")
    return [
        Finding(CLAIM, HOLDS, "texts", "answers right", "a", 0.5, "b", 0.25, 0.25, 0.1, 0.4, 6,
                "imposed", "stream"),
        Finding(CLAIM, UNDECIDED, "texts", "perplexity", "a", 4.5, "b", 4.6, -0.02, -0.05, 0.01, 6,
                "imposed", "stream", True),
        Finding(other, "cannot be shown here, because c is not measured"),
    ]  # fmt: skip


def test_the_table_prints_a_claim_once_next_to_its_rows():
    lines = printed(_findings(), "table").splitlines()
    assert max(map(len, lines)) <= sum(WIDTHS) + 4
    said = "\n".join(line[: WIDTHS[0]].strip() for line in lines)
    assert said.count("Paper, Table 1:") == 1 and said.count("a beats b") == 1
    verdicts = [line[WIDTHS[0] + WIDTHS[1] + 4 :].strip() for line in lines]
    assert verdicts.index(HOLDS) < verdicts.index(UNDECIDED)
    shown = " ".join(line[WIDTHS[0] + 2 : WIDTHS[0] + WIDTHS[1] + 2].strip() for line in lines)
    assert shown.count("texts, imposed, stream:") == 1
    assert "answers right: a 0.500, b 0.250: +0.250 [+0.100, +0.400]" in shown
    assert "perplexity: a 4.500, b 4.600: -2.0% [-5.0%, +1.0%]" in shown
    row_of = {line[: WIDTHS[0]].strip(): place for place, line in enumerate(lines)}
    assert "cannot be shown here," in lines[row_of["Paper, section 2:"]]


def test_small_numbers_of_self_bleu_have_four_digits():
    finding = Finding(
        CLAIM, HOLDS, "", "Self-BLEU", "a", 0.0051, "b", 0.0436, -0.0385, -0.05, -0.02
    )
    assert finding.shown() == "Self-BLEU: a 0.0051, b 0.0436: -0.0385 [-0.0500, -0.0200]"
    tie = Finding(CLAIM, HOLDS, "", "answers right", "a", 0.5, "b", 0.5, -1e-17, -1e-17, 0.1)
    assert tie.shown().endswith(": +0.000 [+0.000, +0.100]")


def test_csv_and_json_have_every_number():
    rows = list(csv.DictReader(io.StringIO(printed(_findings(), "csv"))))
    records = json.loads(printed(_findings(), "json"))
    assert [list(row) for row in (rows[0], records[0])] == [COLUMNS, COLUMNS]
    assert records[0]["cell"] == "Table 1" and records[0]["low"] == 0.1
    assert records[2]["difference"] is None and rows[2]["difference"] == ""
    assert [row["verdict"] for row in rows] == [record["verdict"] for record in records]
