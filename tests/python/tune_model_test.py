"""kvsim.tune inside a model."""

import numpy as np
import pytest

import kvsim

pytest.importorskip("optuna")
pytest.importorskip("torch")
from record_zoo import build, tokens

LENGTH = 24


def texts(count=3):
    return [tokens(LENGTH, seed=each)[0].tolist() for each in range(count)]


def tuned(model, **options):
    how = dict(
        texts=texts(), space="h2o:recent={0,0.25,0.5,0.75};sink:sinks={1,2}", finalists=4,
        figure_budgets=["50%"], progress=False,
    )  # fmt: skip
    return kvsim.tune(model, "25%", **(how | options))


@pytest.fixture(scope="module")
def model():
    return build("llama")


@pytest.fixture(scope="module")
def found(model, tmp_path_factory):
    return tuned(model, output=tmp_path_factory.mktemp("tune"))


def test_the_winner_has_the_least_kl_of_those_imposed_on_all_texts_of_the_search(found, model):
    tried = found.ranked[found.ranked.imposed_loss.notna()]
    assert len(tried) == 4 and found.loss == "kl_mean" and found.objective == "predicted_kl"
    assert len(found.searched_on) == 2 and len(found.held_out) == 1
    assert set(tried.stage) == {"held-out texts", "imposed on 1"}
    assert tried.policy.iloc[0] == found.policy and tried.role.iloc[0] == "found"
    rows = kvsim.evaluate(model, texts()[:2], tried.policy.tolist(), "25%", progress=False)
    means = rows.groupby("policy").kl_mean.mean()
    assert found.ranked.imposed_loss[0] == pytest.approx(means[found.policy], rel=1e-6)
    others = tried[tried.stage == "held-out texts"].policy[1:2]
    assert means[found.policy] <= means[others].min()


def test_the_report_is_of_texts_that_the_search_did_not_see(found, model):
    rows = kvsim.evaluate(model, texts()[2:], f"recipe:file={found.recipe}", "25%", progress=False)
    assert set(rows.sequence) == set(found.held_out)
    assert rows.policy.tolist() == [found.policy]
    assert found.ranked.held_out_loss[0] == pytest.approx(rows.kl_mean.iloc[0], rel=1e-6)
    assert set(found.points.budget_request) == {"25%", "50%"}
    assert set(found.points.role) == {"found", "default", "optimum"}
    (optimum,) = set(found.points.policy[found.points.role == "optimum"])
    assert optimum.startswith("optimal:") and "cost=mass" in optimum
    recorded = found.recipe.parent.glob("*.h5")  # each part once, for all budgets
    assert sorted(path.name.rpartition("-")[0] for path in recorded) == ["held-out", "search"]


def test_every_default_is_measured_at_the_budget_and_three_are_drawn(found):
    held = found.ranked[found.ranked.held_out_loss.notna()]
    defaults = held[held.role == "default"]
    names = {policy.split(":")[0] for policy in held.policy}
    assert {"window", "sink", "h2o", "tova", "snapkv", "vatp", "lru"} <= names
    drawn = found.points[found.points.role == "default"]
    assert drawn.policy.nunique() >= 2
    best = defaults.sort_values("held_out_loss").policy[: drawn.policy.nunique()]
    assert set(drawn.policy) == set(best)
    assert (found.points.groupby("policy").budget_request.nunique() == 2).all()


def test_the_recipe_says_where_it_comes_from_and_runs_in_the_model(found, model):
    text = found.recipe.read_text()
    for key in ("model_id", "searched_on", "held_out", "objective", "kvsim_version"):
        assert f"\n{key}:" in text
    with kvsim.evicting(model, policy=f"recipe:file={found.recipe}", budget=6) as cache:
        model(tokens(LENGTH), use_cache=True)
    assert len(cache.kept(layer=0, kv_head=0)[0]) == 6


def test_the_same_call_runs_the_model_no_more(found, model, monkeypatch):
    from kvsim.closed_loop import imposed
    from kvsim.tune.imposed import ImposedLoop

    def ran(*arguments, **options):
        raise AssertionError("the model is run again")

    monkeypatch.setattr(imposed, "forward", ran)
    monkeypatch.setattr(ImposedLoop, "_record", ran)
    again = tuned(model, output=found.recipe.parent)
    assert again.ranked.equals(found.ranked)


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"texts": None}, "a model needs texts"),
        ({"texts": texts(1)}, "at least two"),
        ({"space": "h2o+quant"}, "the numbers of \\+quant"),
        ({"texts": [np.array(texts(1)[0]), texts(1)[0]]}, "has the same tokens"),
    ],
)
def test_arguments_that_cannot_be_meant_are_one_line(model, options, hint):
    with pytest.raises(kvsim.UsageError, match=hint):
        tuned(model, **options)
