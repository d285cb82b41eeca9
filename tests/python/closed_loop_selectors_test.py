"""kvsim.evaluate with selectors: every token is kept, and each step attends to what they choose."""

import sqlite3

import numpy as np
import pytest

import kvsim
from closed_loop_reference import causal, logits_of, scores
from record_zoo import build, tokens

LENGTH, PROMPT, PAGE, CHOSEN = 40, 24, 4, 2
NUMBERS = ["kl_mean", "nll_full", "nll", "top1_agreement"]


class Newest(kvsim.Selector):
    """The last pages before that of the step."""

    name = "closed-loop-newest"

    def __init__(self, k=8, page=4):
        self.count = -(-k // page)

    def choose(self, step):
        return step.pages[-self.count :]


def recorded(model, ids, path, prompt_length=None):
    with kvsim.recording(model, path, dtype="float32", prompt_length=prompt_length):
        model(ids)
    return kvsim.Trace(path)


def evaluate(model, ids, select, **options):
    return kvsim.evaluate(model, ids[0], select=select, progress=False, **options)


def quest_pages(unit, step):
    """The pages with the largest bounds of their logits, summed over query heads (Quest, 3.2)."""
    whole = step // PAGE
    keys = unit.key[: whole * PAGE].astype(np.float64).reshape(whole, PAGE, unit.key.shape[1])
    query = unit.query[:, step].astype(np.float64)
    bounds = np.maximum(query[:, None] * keys.min(1), query[:, None] * keys.max(1)).sum((0, 2))
    return np.argsort(-bounds, kind="stable")[:CHOSEN]


def newest_pages(unit, step):
    return np.arange(step // PAGE)[-CHOSEN:]


def seen(trace, pages_of, first=0):
    """What every step of each layer and KV head attends to: chosen pages, and its own."""
    visible = []
    for layer in trace.sequences[0].layers:
        sees = np.zeros((2, LENGTH, LENGTH), bool)
        for head in layer.kv_heads:
            unit = trace.unit(layer=layer.index, kv_head=head)
            for step in range(LENGTH):
                for page in [*pages_of(unit, step), step // PAGE]:
                    sees[head, step, page * PAGE : (page + 1) * PAGE] = True
        sees[:, :first] = True
        visible.append(sees & causal(LENGTH))
    return visible


@pytest.mark.parametrize(
    ("select", "pages_of"), [("quest:k=8,page=4", quest_pages), (Newest, newest_pages)]
)
@pytest.mark.parametrize("mode", ["stream", "prefill"])
def test_a_model_that_attends_to_what_is_chosen_predicts_that(select, pages_of, mode, tmp_path):
    model, ids = build("llama"), tokens(LENGTH)
    first = PROMPT if mode == "prefill" else 0
    trace = recorded(model, ids, tmp_path / "t.h5", first or None)
    (row,) = evaluate(model, ids, select, trace=trace, mode=mode).to_dict("records")
    whole = [np.broadcast_to(causal(LENGTH), (2, LENGTH, LENGTH))] * 3
    logits = logits_of(model, ids, seen(trace, pages_of, first))
    expected = scores(logits_of(model, ids, whole), logits, ids[0].numpy(), first)
    assert {name: row[name] for name in NUMBERS} == pytest.approx(expected, abs=2e-5)
    assert row["kl_mean"] > 1e-3
    assert (row["budget"], row["budget_request"], row["mode"]) == (8, "8", mode)
    assert (row["peak_tokens"], row["kept_overlap"], row["steps"]) == (LENGTH, 1, LENGTH - first)


@pytest.mark.parametrize("kind", ["gemma2", "deepseek_v3", "smollm3"])
def test_choosing_all_pages_changes_nothing(kind):
    frame = evaluate(build(kind), tokens(LENGTH), ["topk:k=40", "quest:k=48", "top-p:p=1"])
    assert (frame.kl_mean.abs() < 1e-8).all() and (frame.top1_agreement == 1).all()


def test_rows_meet_those_of_fetch_and_are_not_made_again(tmp_path):
    model, ids, output = build("llama"), tokens(LENGTH), tmp_path / "r.sqlite"
    trace = recorded(model, ids, tmp_path / "t.h5")
    select = ["quest:k=8,page=4", "top-p:p=0.5"]
    first = evaluate(model, ids, select, trace=trace, output=output)
    both = evaluate(model, ids, select, trace=trace, output=output, policies="h2o", budgets="20%")
    fetched = kvsim.fetch(trace, select, "100%", output=output, progress=False)
    assert list(both["policy"].str.partition(":")[0]) == ["h2o", "quest", "top-p"]
    assert dict(zip(both["policy"], both["budget"]))["top-p:p=0.5,page=1"] == LENGTH
    for policy in first["policy"]:
        (before,) = first[first["policy"] == policy].to_dict("records")
        (now,) = both[both["policy"] == policy].to_dict("records")
        assert before == now
        rows = fetched[fetched["select"] == policy]
        assert set(rows["trace_id"]) == {now["trace_id"]}
        assert set(rows["policy_code"]) == {now["policy_code"]}
    with sqlite3.connect(output) as connection:
        runs = connection.execute("SELECT command FROM run WHERE command LIKE '%evaluate%'")
        assert "select=['quest:k=8,page=4', 'top-p:p=0.5,page=1']" in runs.fetchone()[0]


def test_another_class_of_the_same_name_is_evaluated_again(tmp_path):
    model, ids, output = build("llama"), tokens(LENGTH), tmp_path / "r.sqlite"
    trace = recorded(model, ids, tmp_path / "t.h5")

    def defined(start):
        class Some(kvsim.Selector):
            name = "closed-loop-some"

            def choose(self, step):
                return step.pages[start:]

        return Some

    few = evaluate(model, ids, defined(-2), trace=trace, output=output)
    more = evaluate(model, ids, defined(-6), trace=trace, output=output)
    assert few.kl_mean[0] > more.kl_mean[0] and few.policy_code[0] != more.policy_code[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(select="magicpig"), "does not run magicpig.*no set of tokens"),
        (dict(select="quest", loop="adaptive"), "loop=adaptive runs no selectors"),
        (dict(select="quest", page=4), "pages are a parameter of each selector"),
        (dict(select="qest"), "did you mean 'quest'"),
        (dict(select="quest", policies="h2o"), "at least one policy and one budget"),
        (dict(select=None), "at least one policy and one budget, or a selector"),
    ],
)
def test_what_selectors_cannot_do_is_refused_in_one_line(options, message):
    with pytest.raises(kvsim.UsageError, match=message) as raised:
        evaluate(build("llama"), tokens(LENGTH), **options)
    assert "\n" not in str(raised.value)
