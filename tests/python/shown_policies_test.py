import pandas as pd
import pytest

from conftest import H2O, OPTIMAL, TOKENS, comparison_of, drawing_of
from kvsim.report.numbers.protocol import steps_after_prompt
from kvsim.report.numbers.standing import of_replay


@pytest.mark.parametrize(
    "mode, beyond, steps",
    [
        ("prefill:interval=never", TOKENS, TOKENS),
        ("stream:interval=8,every=10", 7, TOKENS),
        ("stream:interval=8,reference=sample:3", 7, 3),
    ],
)
def test_between_evictions_a_policy_may_exceed_its_budget(result_file, mode, beyond, steps):
    recalls = {f"policy{place:02}": 0.42 + place / 100 for place in range(12)}
    for policy, recall in (recalls | {"window": 0.4, OPTIMAL: 0.8}).items():
        for budget in (4, 8):
            values = {"attention_recall": recall, "peak_tokens": budget + beyond}
            result_file.sweep([policy], (budget,), mode=mode, steps=steps, **values)
    result_file.sweep(["full"], mode=mode, steps=steps, peak_tokens=2 * TOKENS)
    at_budget_8 = 8 + beyond  # too many at 4
    result_file.sweep(["knorm"], mode=mode, steps=steps, peak_tokens=at_budget_8)
    comparison = comparison_of(result_file.path)
    holds = comparison.means["holds"].unstack("point")
    assert holds.loc["window"].all() and not holds.loc["full"].any()
    assert holds.loc["knorm"].tolist() == [False, True]
    standing = of_replay(comparison)
    assert len(comparison.shown) == 10
    assert not standing.rows.is_rival[["full", OPTIMAL]].any() and "knorm" in standing.rivals
    gap = drawing_of(result_file.path, "gap-closed")
    (knorm,) = (line for line in gap.explore["data"] if line["name"] == "knorm")
    assert knorm["y"][0] is None and knorm["y"][1] is not None
    assert "window, optimal and the policies of the first curves that" in gap.caption


def test_at_sampled_steps_after_a_prompt_cut_once_what_evicts_holds_its_budget(result_file):
    mode = "prefill:interval=never,reference=sample:3"
    for budget in (4, 8):
        result_file.sweep(["window", H2O, "full"], (budget,), mode=mode, steps=3,
                          peak_tokens=budget + TOKENS)  # fmt: skip
    holds = comparison_of(result_file.path).means["holds"].unstack("point")
    assert holds.loc[["window", H2O]].all(axis=None) and not holds.loc["full"].any()


def test_steps_that_are_a_sample_are_not_those_of_the_text():
    modes = ["stream", "prefill:interval=never,every=2", "stream:interval=8,reference=sample:3"]
    found = steps_after_prompt(pd.DataFrame({"mode": modes, "steps": [40, 20, 3]}))
    assert found.iloc[:2].tolist() == [40, 20] and found.isna().iloc[2]


def test_of_policies_that_are_the_same_one_is_drawn(result_file):
    result_file.sweep([f"policy{place:02}" for place in range(20)])
    assert comparison_of(result_file.path).shown == ["policy00"]
