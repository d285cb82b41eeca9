"""kvsim.evaluate with loop="imposed", against a model that attends position by position."""

import numpy as np
import pytest
import torch

import kvsim
from closed_loop_reference import causal, held, logits_of, replayed, scores
from nightly import a_third_by_day
from record_zoo import build, letters, tokens

LENGTH, PROMPT = 40, 24
NUMBERS = ["kl_mean", "nll_full", "nll", "top1_agreement"]


class Even(kvsim.Policy):
    """Prefers tokens at even positions; of those the newest."""

    name = "closed-loop-even"

    def update(self, step, scores):
        scores[:] = np.asarray(step.tokens) + 1000 * (np.asarray(step.tokens) % 2 == 0)


def recorded(model, ids, path, prompt_length=None):
    with kvsim.recording(model, path, dtype="float32", prompt_length=prompt_length):
        model(ids)
    return kvsim.Trace(path)


def evaluate(model, ids, policies, budgets, **options):
    return kvsim.evaluate(model, ids[0], policies, budgets, progress=False, **options)


def expect(row, full, logits, ids, first=0):
    found = {name: row[name] for name in NUMBERS}
    expected = scores(full, logits, ids[0].numpy(), first)
    assert found == pytest.approx(expected, abs=2e-5)
    assert row.delta_nll == pytest.approx(expected["nll"] - expected["nll_full"], abs=2e-5)
    assert row.steps == ids.shape[1] - first


def full_logits(model, ids, window=None):
    heads, n = model.config.num_key_value_heads, ids.shape[1]
    sees = np.broadcast_to(causal(n, window), (heads, n, n))
    return logits_of(model, ids, [sees] * model.config.num_hidden_layers)


@a_third_by_day
@pytest.mark.parametrize("policy", ["window", "h2o", "tova", "random", "optimal", Even])
def test_a_model_that_sees_what_the_replay_keeps_predicts_that(policy, tmp_path):
    model, ids = build("llama"), tokens(LENGTH)
    trace = recorded(model, ids, tmp_path / "t.h5")
    frame = evaluate(model, ids, [policy], [6, "40%"], trace=trace, seed=3)
    full = full_logits(model, ids)
    assert list(frame.budget) == [6, 16]
    for _, row in frame.iterrows():
        kept = replayed(trace, policy, row.budget, seed=3)
        logits = logits_of(model, ids, [held(layer) for layer in kept])
        expect(row, full, logits, ids)
        assert row.kl_mean > 1e-3
        assert row.kept_overlap == 1 and row.peak_tokens == row.budget
        element = 4 * 2 * model.config.hidden_size // model.config.num_attention_heads
        assert row.cache_bytes == 3 * 2 * row.budget * element


@a_third_by_day
@pytest.mark.parametrize("kind", ["mistral", "gemma2", "gemma3", "gpt2", "deepseek_v3", "smollm3"])
def test_a_budget_for_all_tokens_changes_nothing(kind):
    model, ids = build(kind), tokens(LENGTH)
    frame = evaluate(model, ids, "window;full", [LENGTH])
    assert (frame.kl_mean.abs() < 1e-8).all()
    assert (frame.top1_agreement == 1).all()
    assert frame.delta_nll.abs().max() < 1e-5


def test_a_sliding_window_hides_what_the_cache_still_holds(tmp_path):
    model, ids = build("mistral"), tokens(LENGTH)
    trace = recorded(model, ids, tmp_path / "t.h5")
    (row,) = evaluate(model, ids, "sink", 20, trace=trace).itertuples()
    window = causal(LENGTH, model.config.sliding_window)
    sees = [held(layer) & window for layer in replayed(trace, "sink", 20)]
    full = full_logits(model, ids, model.config.sliding_window)
    expected = scores(full, logits_of(model, ids, sees), ids[0].numpy())
    assert row.kl_mean == pytest.approx(expected["kl_mean"], abs=2e-5)
    assert expected["kl_mean"] < 1e-9 or expected["nll"] != expected["nll_full"]
    (smaller,) = evaluate(model, ids, "sink", 6, trace=trace).itertuples()
    sees = [held(layer) & window for layer in replayed(trace, "sink", 6)]
    expected = scores(full, logits_of(model, ids, sees), ids[0].numpy())
    assert smaller.kl_mean == pytest.approx(expected["kl_mean"], abs=2e-5) and smaller.kl_mean > 0


@pytest.mark.parametrize("interval", [1, 4, "never"])
def test_the_prompt_attends_in_full_and_later_steps_are_measured(interval, tmp_path):
    model, ids = build("llama"), tokens(LENGTH)
    trace = recorded(model, ids, tmp_path / "t.h5", PROMPT)
    how = dict(mode="prefill", eviction_interval=interval)
    (row,) = (
        each
        for _, each in evaluate(
            model, ids, "h2o", 8, prompt_length=PROMPT, trace=trace, **how
        ).iterrows()
    )
    kept = replayed(trace, "h2o", 8, **how)
    assert min(layer.min() for layer in kept) >= PROMPT - 1
    logits = logits_of(model, ids, [held(layer) for layer in kept])
    expect(row, full_logits(model, ids), logits, ids, PROMPT)
    assert row["mode"] == ("prefill" if interval == 1 else f"prefill:interval={interval}")


def test_of_a_policy_that_selects_the_set_of_each_step_is_imposed(tmp_path):
    model, ids, budget = build("llama"), tokens(LENGTH), 5
    trace = recorded(model, ids, tmp_path / "t.h5")
    (row,) = (each for _, each in evaluate(model, ids, "topk", budget, trace=trace).iterrows())
    visible = []
    for layer in range(3):
        sees = np.zeros((2, LENGTH, LENGTH), bool)
        for head in range(2):
            unit = trace.unit(layer=layer, kv_head=head)
            logits = unit.scale * unit.query.astype(np.float64) @ unit.key.T
            logits[:, ~causal(LENGTH)] = -np.inf
            attention = np.exp(logits - logits.max(-1, keepdims=True))
            mean = (attention / attention.sum(-1, keepdims=True)).mean(0)
            for t in range(LENGTH):
                older = np.argsort(-mean[t, :t], kind="stable")[:budget]
                sees[head, t, [*older, t]] = True
        visible.append(sees)
    expect(row, full_logits(model, ids), logits_of(model, ids, visible), ids)
    assert row.peak_tokens == LENGTH and row.kl_mean > 1e-3


def test_batches_and_masks_made_in_parts_change_nothing(monkeypatch):
    from kvsim.closed_loop import imposed, work

    model, ids = build("gemma2"), tokens(LENGTH)
    policies, budgets = "window;h2o;tova;topk", [5, 9]
    expected = evaluate(model, ids, policies, budgets)
    monkeypatch.setattr(imposed, "LARGEST_BATCH_OF_CPU", 3)
    for most_bytes in (1 << 30, 1):
        monkeypatch.setattr(work, "BYTES_OF_CPU", most_bytes)
        found = evaluate(model, ids, policies, budgets)
        for name in NUMBERS:
            np.testing.assert_allclose(found[name], expected[name], atol=1e-6)


def test_the_model_is_as_before_and_may_attend_eagerly():
    model, ids = build("llama"), tokens(LENGTH)
    before = model(ids).logits
    expected = evaluate(model, ids, "tova", 8).kl_mean
    torch.testing.assert_close(model(ids).logits, before, rtol=0, atol=0)
    model.set_attn_implementation("eager")
    np.testing.assert_allclose(evaluate(model, ids, "tova", 8).kl_mean, expected, atol=1e-6)


def test_the_replay_has_the_rows_of_the_same_policies(tmp_path):
    output = tmp_path / "results.sqlite"
    model, ids = build("llama"), tokens(LENGTH)
    frame = evaluate(model, ids, "tova;window", [8], output=output)
    results = kvsim.load(output)
    assert len(results.replay) == 2 * 3 * 2 and len(results.closed_loop) == 2
    keys = ["trace_id", "sequence", "policy", "budget", "mode", "seed", "policy_code"]
    joined = results.replay.merge(frame, on=keys)
    assert len(joined) == 12
    assert (joined.groupby("policy").peak_tokens_x.max() == 8).all()


def test_what_oracles_need_is_recorded_for_them(tmp_path):
    model, words = build("llama"), "the ships wait for the tide, a river. rain"
    text = {"text": words, "spans": [[30, 36, "answer"]]}
    oracles = [
        "optimal:cost=predicted",
        "optimal:weight=spans",
        "lookahead:window=4,cost=projected",
        "lookahead:window=4,cost=predicted",
    ]
    output = tmp_path / "r.sqlite"
    frame = kvsim.evaluate(
        model, text, [*oracles, "window"], [8], tokenizer=letters(), output=output
    )
    assert len(frame) == 5 and (frame.kl_mean > 0).all()
    tables = kvsim.load(output)
    assert tables["replay"].predicted_kl.notna().all()
    assert tables["layer_error"].projected_error.notna().all()


@pytest.mark.parametrize(
    ("kind", "also", "projected", "predicted"),
    [
        ("llama", None, True, False),
        ("gemma2", None, False, False),
        ("llama", "output_score_grad", False, True),
        ("llama", (), False, False),
    ],
)
def test_the_trace_holds_what_was_asked_for(kind, also, projected, predicted, tmp_path):
    output = tmp_path / "r.sqlite"
    evaluate(build(kind), tokens(LENGTH), "window", [8], also=also, output=output)
    tables = kvsim.load(output)
    assert tables["replay"].predicted_kl.notna().all() == predicted
    assert ("layer_error" in tables) == (projected or predicted)
    if projected or predicted:
        assert tables["layer_error"].projected_error.notna().all() == projected


def test_a_model_without_projection_refuses_who_needs_it():
    message = "^lookahead.* needs the output projection: layer 0: .*; leave the policy out$"
    with pytest.raises(kvsim.record.RecordError, match=message):
        evaluate(build("gemma2"), tokens(LENGTH), "lookahead:cost=projected", [8])


def test_a_given_trace_holds_what_it_holds(tmp_path):
    model, ids = build("llama"), tokens(LENGTH)
    trace = recorded(model, ids, tmp_path / "t.h5")
    with pytest.raises(kvsim.UsageError, match="a trace is given"):
        evaluate(model, ids, "window", [8], trace=trace, also="residual")
    with pytest.raises(kvsim.DataError, match="expected the gradients that optimal"):
        evaluate(model, ids, "optimal:cost=predicted", [8], trace=trace)
