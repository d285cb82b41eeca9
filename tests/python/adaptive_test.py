"""kvsim.evaluate(loop="adaptive"): the policies decide while the model reads."""

import numpy as np
import pytest
import torch

import kvsim
from kvsim import _engine
from kvsim.closed_loop import adaptive, evicting
from kvsim.closed_loop.loops import How, Job, Plan
from record_zoo import build, letters, tokens
from written_policies import H2O as WrittenH2O

LENGTH, PROMPT = 60, 40
MIXED = [
    "window",
    "h2o",
    "tova:scope=layer",
    "spatten",
    "subgen",
    "tova+quant:bits=4",
    "h2o+kivi:bits=2,group=2,residual=4",
    "h2o+rest",
    WrittenH2O.name,
]


def evaluate(model, ids, policies, budgets="12", loop="adaptive", **options):
    return kvsim.evaluate(
        model, ids, policies, budgets, loop=loop, progress=False, names=["a"], **options
    )


def plans_of(policies, budgets=(12,)):
    return [
        Plan(flags["text"], flags["policy_code"], None, budget, str(budget), "stream")
        for flags in _engine.specs(";".join(policies), "uniform")
        for budget in budgets
    ]


def job_of(ids, prompt=0):
    return Job("a", "", ids[0].numpy().astype(np.int32), prompt, (), "a test")


def outcomes(model, ids, plans, mode="stream", memory=1 << 28, prompt=0):
    how = How(_engine.Protocol(mode=mode))
    return dict(adaptive.run(model, job_of(ids, prompt), plans, how, memory, None))


@pytest.mark.parametrize("mode", ["stream", "prefill"])
def test_a_batch_of_configurations_is_each_of_them_alone(mode, monkeypatch):
    monkeypatch.setattr(adaptive, "LARGEST_BATCH_OF_CPU", 5)
    model, ids = build("llama"), tokens(LENGTH)
    plans = plans_of(MIXED, (6, 12))
    found = outcomes(model, ids, plans, mode, prompt=PROMPT)
    assert set(found) == set(plans)
    for plan, outcome in found.items():
        how = dict(mode=mode, prompt_length=PROMPT, names=["a"])
        with evicting(model, plan.policy, plan.budget, **how) as cache, torch.no_grad():
            if plan.policy == "spatten":
                alone = adaptive.token_by_token(model, ids, PROMPT if mode == "prefill" else 0)
            else:
                alone = model(ids).logits
        torch.testing.assert_close(outcome.logits, alone[0], atol=1e-4, rtol=1e-4)
        assert outcome.peak_tokens == cache.peak_tokens
        assert outcome.cache_bytes == cache.cache_bytes
        assert outcome.is_set == (not plan.policy.startswith("subgen"))
        for layer in range(3 * outcome.is_set):
            for head in range(2):
                left = cache.evicted_after(layer, head)[0]
                assert outcome.kept[layer][head].tolist() == left.tolist()


def test_memory_decides_how_many_run_at_once_and_nothing_else(monkeypatch):
    model, ids = build("llama"), tokens(LENGTH)
    plans = plans_of(["h2o", "tova", "spatten"], (6, 9, 12))
    sizes = []
    read = adaptive.whole_text
    monkeypatch.setattr(
        adaptive, "whole_text", lambda model, ids: sizes.append(len(ids)) or read(model, ids)
    )
    expected = outcomes(model, ids, plans)
    assert sizes == [4, 2]
    found = outcomes(model, ids, plans, memory=1)
    assert sizes == [4, 2] + [1] * 6
    for plan in plans:
        torch.testing.assert_close(found[plan].logits, expected[plan].logits, atol=1e-4, rtol=1e-4)


def test_an_eager_model_reads_in_parts_too():
    model, ids = build("gemma2"), tokens(LENGTH)
    plans = plans_of(["h2o", "window"])
    expected, found = outcomes(model, ids, plans), outcomes(model, ids, plans, memory=1)
    for plan in plans:
        torch.testing.assert_close(found[plan].logits, expected[plan].logits, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("mode", ["stream", "prefill"])
def test_it_equals_the_imposed_loop_where_the_run_decides_nothing(mode, tmp_path):
    model, ids = build("llama"), tokens(LENGTH)
    how = dict(mode=mode, prompt_length=PROMPT if mode == "prefill" else None)
    policies = ["window", "sink:sinks=2", "full", "window@pyramid", "tova@pyramid"]
    imposed = evaluate(model, ids, policies, loop="imposed", **how)
    found = evaluate(model, ids, policies, **how)
    assert list(found.policy) == list(imposed.policy)
    for one, other in zip(imposed.itertuples(), found.itertuples()):
        assert 0 < other.kept_overlap <= 1
        assert (one.steps, one.peak_tokens) == (other.steps, other.peak_tokens)
        assert one.cache_bytes == other.cache_bytes
        if one.policy.startswith("tova"):
            assert other.kept_overlap < 1 and one.kl_mean != other.kl_mean
            continue
        assert other.kept_overlap == 1
        assert other.kl_mean == pytest.approx(one.kl_mean, abs=1e-6)
        assert other.delta_nll == pytest.approx(one.delta_nll, abs=1e-5)
    assert float(found.kl_mean[found.policy == "full"].iloc[0]) < 1e-9


def test_it_follows_a_schedule_as_the_imposed_loop_does(tmp_path):
    model, ids = build("llama"), tokens(LENGTH)
    from kvsim.record import recording

    path, steps = tmp_path / "t.h5", tmp_path / "steps.h5"
    with recording(model, path, dtype="float32", names=["a"]), torch.no_grad():
        model(ids)
    write_schedules(path, steps)
    policy = f"schedule:file={steps}"
    imposed = evaluate(model, ids, policy, loop="imposed", trace=path)
    found = evaluate(model, ids, policy, trace=path)
    assert found.kept_overlap.tolist() == [1]
    assert found.kl_mean.iloc[0] > 1e-3
    assert found.kl_mean.iloc[0] == pytest.approx(imposed.kl_mean.iloc[0], abs=1e-6)


def test_it_keeps_what_a_second_reading_says_as_the_imposed_loop_does(tmp_path):
    model, ids = build("llama"), tokens(LENGTH)
    path, scores = tmp_path / "t.h5", tmp_path / "s.h5"
    recording = kvsim.recording(model, path, dtype="float32", names=["a"], prompt_length=PROMPT)
    with recording, torch.no_grad():
        model(ids)
    kvsim.second_reading(model, path, scores, tokenizer=letters(), progress=False)
    how = {"trace": path, "mode": "prefill", "eviction_interval": "never"}
    imposed = evaluate(model, ids, f"kvzip:file={scores}", loop="imposed", **how)
    found = evaluate(model, ids, f"kvzip:file={scores}", **how)
    assert found.kept_overlap.tolist() == [1]
    assert found.kl_mean.iloc[0] > 1e-3
    assert found.kl_mean.iloc[0] == pytest.approx(imposed.kl_mean.iloc[0], abs=1e-6)
    with pytest.raises(kvsim.UsageError, match="--eviction-interval never"):
        evaluate(model, ids, f"kvzip:file={scores}", trace=path)


def write_schedules(trace, path):
    """What the optimum keeps, as --per-step writes it."""
    import h5py

    with h5py.File(path, "w") as file:
        for layer in range(3):
            for head in range(2):
                replay = kvsim.replay(trace, "optimal", 12, layer=layer, kv_head=head)
                group = file.create_group(f"sequences/a/layers/{layer}/kv_heads/{head}")
                group.attrs.update(policy=replay.row.policy, budget=12, mode="stream")
                group["evicted_after"] = replay.evicted_after


@pytest.mark.parametrize("mode", ["stream", "prefill"])
@pytest.mark.parametrize("split", ["adaptive", "persistence", "cake:tau1=2"])
def test_a_measured_split_is_that_of_the_trace(split, mode):
    model, ids = build("llama"), tokens(LENGTH)
    how = dict(mode=mode, prompt_length=PROMPT if mode == "prefill" else None)
    one = evaluate(model, ids, f"tova@{split}", loop="imposed", **how)
    other = evaluate(model, ids, f"tova@{split}", **how)
    assert other.policy.tolist() == one.policy.tolist()
    assert other.cache_bytes.tolist() == one.cache_bytes.tolist()
    assert other.peak_tokens.tolist() == one.peak_tokens.tolist()
    assert 0.3 < other.kept_overlap.iloc[0] < 1


@pytest.mark.parametrize("split", ["adaptive", "persistence", "cake:tau1=2"])
def test_generation_measures_its_split_on_the_prompt(split):
    from record_zoo import generate

    model, ids = build("llama"), tokens(PROMPT)
    with evicting(model, f"tova@{split}", 12, mode="prefill", drop=True) as cache:
        generate(model, ids)
    held = [len(cache.kept(layer, head)[0]) for layer in range(3) for head in range(2)]
    assert sum(held) == 6 * 12 and len(set(held)) > 1
    with (
        pytest.raises(kvsim.UsageError, match="mode prefill"),
        evicting(model, f"tova@{split}", 12),
    ):
        pass


def test_a_classified_text_evicts_by_its_kinds():
    model, ids = build("llama"), tokens(LENGTH)
    how = dict(mode="prefill", prompt_length=PROMPT, tokenizer=letters())
    fastgen = "fastgen:recovery=0.4"
    one = evaluate(model, ids, fastgen, loop="imposed", **how)
    other = evaluate(model, ids, fastgen, **how)
    assert other.peak_tokens.iloc[0] <= one.peak_tokens.iloc[0] + 12
    with evicting(model, fastgen, 12, names=["a"], **how) as cache, torch.no_grad():
        model(ids)
    assert cache.peak_tokens == other.peak_tokens.iloc[0]


def test_an_interrupted_evaluation_goes_on(tmp_path, monkeypatch):
    model, ids = build("llama"), tokens(LENGTH)
    output = tmp_path / "results.sqlite"
    policies, budgets = ["h2o", "tova", "spatten"], ["6", "12"]
    whole = evaluate(model, ids, policies, budgets)
    step = adaptive.token_by_token
    monkeypatch.setattr(adaptive, "token_by_token", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        evaluate(model, ids, policies, budgets, output=output)
    assert len(kvsim.load(output).closed_loop) == 4
    monkeypatch.setattr(adaptive, "token_by_token", step)
    monkeypatch.setattr(adaptive, "whole_text", lambda *_, **__: 1 / 0)  # not made again
    found = evaluate(model, ids, policies, budgets, output=output)
    assert list(found.policy) == list(whole.policy)
    np.testing.assert_allclose(found.kl_mean, whole.kl_mean, rtol=1e-4)


def test_lists_leave_out_what_a_running_model_does_not_see():
    model, ids = build("llama"), tokens(LENGTH)
    with pytest.warns(kvsim.KvsimWarning, match="loop=adaptive does not run: .*topk"):
        found = evaluate(model, ids, "all")
    assert {"h2o", "spatten", "subgen"} <= {policy.split(":")[0] for policy in found.policy}
    estimators = found.policy.str.startswith("subgen")
    assert found.kept_overlap.isna().tolist() == estimators.tolist()
    with pytest.raises(kvsim.UsageError, match=r"does not run optimal.*loop=imposed"):
        evaluate(model, ids, "optimal")
