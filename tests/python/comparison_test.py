import itertools

import numpy as np
import pytest
from matplotlib.colors import to_rgb

import kvsim
from conftest import H2O, OPTIMAL, POLICIES
from kvsim.report import Choice, ChoiceError, Comparison
from kvsim.report.style import LIGHT, PALETTE, oracle_names, policy_names, styles
from kvsim.report.style.labels import LONGEST, labels

LONG = "h2o:recent=0.25,score=full,overlap=yes,precision=half,positions=slot,keep=heavy" \
    "+protect:first=0.05,last=0.25+quant:bits=2,group=128@persistence"  # fmt: skip


def _comparison(file, **choice):
    return Comparison(kvsim.load(file.path), Choice(**choice))


def test_labels_say_in_what_specs_differ():
    named = labels([H2O, H2O.replace("0.5", "0.25"), "window", "window@pyramid", "tova:scope=head"])
    assert list(named.values())[:2] == ["h2o recent=0.5", "h2o recent=0.25"]
    assert list(named.values())[2:] == ["window", "window@pyramid", "tova"]


def test_labels_are_short_and_all_different():
    specs = [LONG, LONG.replace("bits=2", "bits=4"), LONG.replace("first=0.05", "first=0.1")]
    specs += [f"schedule:file=/a/long/way/to/plan-{i}.h5,sha256={i:064x}" for i in range(5)]
    named = labels(specs)
    assert len(set(named.values())) == len(specs)
    assert max(map(len, named.values())) <= LONGEST


def test_a_label_that_is_cut_has_a_number_only_next_to_others():
    assert labels([LONG])[LONG][-1] == "…"
    assert [label[-1] for label in labels([LONG, LONG + "x"]).values()] == ["…", "2"]


def test_every_policy_has_a_colour_of_its_own():
    specs = [f"policy{i:02}" for i in range(2 * len(PALETTE))] + ["optimal", "topk", "belady"]
    found = styles(specs, {"optimal", "topk", "belady"}).values()
    for theme in (0, 1):
        assert len({style.colors[theme] for style in found}) == len(specs)


def test_a_policy_looks_the_same_whatever_else_is_in_the_file():
    alone = {name: styles([name])[name].line_in(LIGHT) for name in (H2O, "tova", "optimal")}
    together = styles([*alone, "window", "belady", H2O + "+quant:bits=4,group=64", "h2o-mine"])
    assert {name: together[name].line_in(LIGHT) for name in alone} == alone


# Linear RGB of the same colour as dichromats see it: Machado et al. 2009, severity 1.
VISION = {
    "all colours": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
               [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
               [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
               [0.004733, 0.691367, 0.303900]],
}  # fmt: skip


def _oklab(colour, vision):
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(np.array(VISION[vision]) @ linear, 0, 1)
    cones = [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
             [0.0883024619, 0.2817188376, 0.6299787005]]  # fmt: skip
    lab = [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
           [0.0259040371, 0.7827717662, -0.8086757660]]  # fmt: skip
    return np.array(lab) @ np.cbrt(np.array(cones) @ linear)


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("theme", [0, 1])
def test_the_first_colours_are_told_apart_by_every_kind_of_vision(vision, theme):
    seen = [_oklab(pair[theme], vision) for pair in PALETTE]
    pairs = itertools.combinations(range(len(seen)), 2)
    nearest = {8: 1.0, len(seen): 1.0}
    for first, second in pairs:
        for count in nearest:
            if second < count:
                distance = np.linalg.norm(seen[first] - seen[second])
                nearest[count] = min(nearest[count], distance)
    assert nearest[8] > 0.085 and nearest[len(seen)] > 0.03


def test_every_built_in_policy_has_its_colour_in_all_files():
    listed = kvsim.policies().query("origin == ''").name
    assert set(policy_names()) | set(oracle_names()) == set(listed)
    assert oracle_names()[:3] == ["optimal", "certificate", "belady"]
    colors = [styles([name])[name].colors for name in policy_names()]
    assert colors[:24] == PALETTE and len(set(colors)) == len(colors)


def test_policies_are_told_apart_without_their_colours():
    looks = [style.line_in(LIGHT) for style in styles(policy_names()).values()]
    assert len({(look["marker"], look["linestyle"]) for look in looks}) == len(policy_names())


def test_colours_do_not_depend_on_what_is_shown(result_file):
    result_file.sweep()
    some = _comparison(result_file, policies=("tova", "window"))
    assert some.styles == _comparison(result_file).styles
    assert [spec.split(":")[0] for spec in some.policies] == ["tova", "window"]


def test_regret_and_gap_are_of_the_means(result_file):
    rows = _comparison(result_file.sweep()).at("20%")
    assert rows.index[0] == "full"
    assert rows.loc[H2O, "regret"] == pytest.approx(0.15)
    assert rows.loc[H2O, "gap_closed"] == pytest.approx(0.25)
    assert rows.loc["window", "cache_bytes"] == 512
    assert list(rows.index[~rows["holds"]]) == ["full", "topk:h2=0"]


def test_miss_rate_is_of_all_pivotal_tokens(result_file):
    result_file.replay("window", 4, 0, token_accesses=10, token_misses=10)
    result_file.replay("window", 4, 1, token_accesses=90, token_misses=0)
    assert _comparison(result_file).means["miss_rate"].iloc[0] == pytest.approx(0.1)


def test_an_allocation_has_its_own_yardsticks(result_file):
    specs = ["window", OPTIMAL, "tova@pyramid"]
    specs += ["window@pyramid", f"{OPTIMAL}@pyramid"]
    rows = _comparison(result_file.sweep(specs)).at("10%")
    assert rows.loc["tova@pyramid", "gap_closed"] == pytest.approx(0.5)
    result_file.connection.execute("DELETE FROM replay WHERE policy = 'window@pyramid'")
    result_file.connection.commit()
    rows = _comparison(result_file).at("10%")
    assert rows.loc["tova@pyramid", "regret"] == pytest.approx(0.1)


def test_without_yardsticks_of_its_own_an_allocation_has_those_of_an_even_split(result_file):
    result_file.sweep(["window", OPTIMAL, "tova@pyramid"])
    result_file.sweep([f"{OPTIMAL}@pyramid"], attention_recall=0.9)
    rows = _comparison(result_file).at("10%")
    assert rows.loc["tova@pyramid", "gap_closed"] == pytest.approx(0.5)  # of a pair split alike
    result_file.connection.execute("DELETE FROM replay WHERE policy LIKE 'optimal%@pyramid'")
    result_file.connection.commit()
    rows = _comparison(result_file).at("10%")
    assert rows.loc["tova@pyramid", "regret"] == pytest.approx(0.1)
    assert rows.loc["tova@pyramid", "gap_closed"] == pytest.approx(0.5)


def test_a_split_budget_holds_where_its_mean_does(result_file):
    for budget in (4, 8):
        for kv_head, held in enumerate((budget + 2, budget - 2)):
            for policy in ("window", "window@pyramid"):
                result_file.replay(policy, budget, 0, kv_head, peak_tokens=held)
            result_file.replay("tova@pyramid", budget, 0, kv_head, peak_tokens=held + kv_head)
    holds = _comparison(result_file).at("10%")["holds"]
    assert holds.to_dict() == {"window": False, "window@pyramid": True, "tova@pyramid": False}


def test_shares_of_texts_of_different_length_are_one_budget(result_file):
    result_file.sweep(["window", H2O], budgets=(8,))
    result_file.sweep(["window", H2O], budgets=(16,), sequence="two", budget_request="20%")
    comparison = _comparison(result_file)
    assert comparison.points.to_dict() == {"20%": 12}
    assert comparison.num_units == 8
    assert comparison.budget_name("20%") == "20% (12 tokens, the mean over sequences)"


def test_a_budget_asked_for_in_two_ways_is_one(result_file):
    result_file.sweep(["window", H2O], budgets=(8,))
    result_file.sweep(["tova"], budgets=(8,), budget_request="8")
    assert list(_comparison(result_file).points.index) == ["20%"]


def test_a_policy_of_which_units_are_missing_is_left_out_and_named(result_file):
    result_file.sweep(["window"], budgets=(4, 8))
    result_file.replay(H2O, 8)
    comparison = _comparison(result_file)
    assert comparison.policies == ["window"]
    assert any("h2o at 20%" in note for note in comparison.notes)


def test_the_trace_with_the_most_rows_is_shown_and_the_other_named(result_file):
    result_file.sweep().sweep(["window"], trace_id="b" * 64)
    comparison = _comparison(result_file)
    assert comparison.trace_id == "a" * 64
    assert any("b" * 12 in note and "--trace-id" in note for note in comparison.notes)
    other = _comparison(result_file, trace_id="bb")
    assert other.trace_id == "b" * 64 and other.policies == ["window"]


def test_without_an_oracle_the_order_is_by_recall(result_file):
    comparison = _comparison(result_file.sweep(["window", H2O]))
    assert comparison.yardstick is None
    assert list(comparison.at("10%").index) == [H2O, "window"]
    assert comparison.means["regret"].isna().all()


def test_a_bound_that_does_not_apply_to_a_unit_does_not_apply_to_the_mean(result_file):
    result_file.replay("window", 4, 0)
    result_file.replay("window", 4, 1, bound_mean=None)
    assert _comparison(result_file).means["bound_mean"].isna().all()


@pytest.mark.parametrize(
    "choice, says",
    [
        ({"trace_id": "c"}, "--trace-id: .* has no c"),
        ({"mode": "prefill"}, "--mode: .* it has stream"),
        ({"seed": 3}, "--seed"),
        ({"sequences": ("three",)}, "--sequence: .* it has one"),
        ({"budget": "50%"}, "--budget: .* it has 10%, 20%"),
        ({"policies": ("h3o",)}, "--policies: expected a name, .* found h3o; there are full, h2o"),
        ({"policies": ("h2o:recent=0.4",)}, "--policies: .* found h2o:recent=0.4; there are full"),
    ],
)
def test_a_choice_that_is_not_there_says_what_is(result_file, choice, says):
    with pytest.raises(ChoiceError, match=says):
        _comparison(result_file.sweep(), **choice)


@pytest.mark.parametrize(
    "wanted, names",
    [
        ("h2o", ["h2o recent=0.25", "h2o recent=0.5", "h2o+quant"]),
        ("h2o:recent=0.50", ["h2o recent=0.5", "h2o+quant"]),
        ("h2o:score=sum,recent=0.25", ["h2o recent=0.25"]),
        ("h2o+quant", ["h2o+quant"]),
        (f"{H2O}+quant:bits=4", ["h2o+quant"]),
        ("window@pyramid", ["window@pyramid"]),
        ("window", ["window", "window@pyramid"]),
    ],
)
def test_a_policy_is_chosen_by_what_its_spec_says(result_file, wanted, names):
    other = H2O.replace("recent=0.5", "recent=0.25")
    result_file.sweep([other, H2O, f"{H2O}+quant:bits=4,group=32", "window", "window@pyramid"])
    comparison = _comparison(result_file, policies=(wanted,))
    assert [comparison.styles[spec].label for spec in comparison.policies] == names


@pytest.mark.parametrize("budget", ["10%", "4"])
def test_a_budget_is_chosen_as_it_was_asked_for_or_in_tokens(result_file, budget):
    assert _comparison(result_file.sweep(POLICIES), budget=budget).point == "10%"
