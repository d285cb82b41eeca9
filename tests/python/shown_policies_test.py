import pytest

from conftest import TOKENS, comparison_of, drawings_of
from kvsim.report.headline import headline


@pytest.mark.parametrize(
    "mode, beyond", [("prefill:interval=never", TOKENS), ("stream:interval=8,every=10", 7)]
)
def test_between_evictions_a_policy_may_exceed_its_budget(result_file, mode, beyond):
    recalls = {f"policy{place:02}": 0.42 + place / 100 for place in range(12)}
    for policy, recall in (recalls | {"window": 0.4, "optimal:recent=0": 0.8}).items():
        for budget in (4, 8):
            values = {"attention_recall": recall, "peak_tokens": budget + beyond}
            result_file.sweep([policy], (budget,), mode=mode, **values)
    result_file.sweep(["full"], mode=mode, peak_tokens=2 * TOKENS)
    result_file.sweep(["knorm"], mode=mode, peak_tokens=8 + beyond)  # too many at the budget 4
    comparison = comparison_of(result_file.path)
    holds = comparison.means["holds"].unstack("point")
    assert holds.loc["window"].all() and not holds.loc["full"].any()
    assert holds.loc["knorm"].tolist() == [False, True]
    assert len(comparison.shown) == 10 and "hold the budget" in headline(comparison)
    gap = drawings_of(result_file.path)["gap-closed"]
    (knorm,) = (line for line in gap.explore["data"] if line["name"] == "knorm")
    assert knorm["y"][0] is None and knorm["y"][1] is not None
    assert "besides window and optimal, the policies of the first figure that" in gap.caption


def test_of_policies_that_are_the_same_one_is_drawn(result_file):
    result_file.sweep([f"policy{place:02}" for place in range(20)])
    assert comparison_of(result_file.path).shown == ["policy00"]
