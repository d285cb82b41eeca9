"""kvsim.evaluate with loop="adaptive", compared with loop="imposed"."""

import numpy as np
import pytest

import kvsim
from record_zoo import build, longrope, tokens

LENGTH = 40


def evaluate(model, policies, budgets, **options):
    return kvsim.evaluate(model, tokens(LENGTH)[0], policies, budgets, progress=False, **options)


@pytest.mark.parametrize("kind", ["llama", "mistral", "gemma2", "gpt_oss", "llama4"])
def test_policies_that_do_not_look_at_the_run_do_the_same_in_both_loops(kind):
    model = build(kind)
    frames = [
        evaluate(model, "window;sink", [6, 12], loop=loop) for loop in ("imposed", "adaptive")
    ]
    imposed, adaptive = (frame.drop(columns=["loop", "run_id"]) for frame in frames)
    numbers = ["kl_mean", "nll", "delta_nll"]
    np.testing.assert_allclose(adaptive[numbers], imposed[numbers], atol=1e-6)
    same = ["policy", "budget", "steps", "kept_overlap", "peak_tokens", "cache_bytes"]
    assert adaptive[same].equals(imposed[same])
    assert (adaptive.kept_overlap == 1).all()
    assert (adaptive.kl_mean[adaptive.budget == 6] > 1e-3).all()  # below every window


def test_policies_that_look_at_the_run_drift_from_the_replay(tmp_path):
    model, output = build("llama"), tmp_path / "results.sqlite"
    imposed = evaluate(model, "tova;h2o", 8, output=output)
    adaptive = evaluate(model, "tova;h2o", 8, loop="adaptive", output=output)
    assert ((adaptive.kept_overlap < 1) & (adaptive.kept_overlap > 0.3)).all()
    assert (np.abs(adaptive.kl_mean / imposed.kl_mean - 1) < 0.5).all()
    assert (adaptive.kl_mean != imposed.kl_mean).all()
    table = kvsim.load(output).closed_loop
    assert sorted(table.loop) == ["adaptive"] * 2 + ["imposed"] * 2
    again = evaluate(model, "tova;h2o", 8, loop="adaptive", output=output)
    assert list(again.run_id) == list(adaptive.run_id)


def test_what_keeps_no_set_of_tokens_has_no_overlap():
    frame = evaluate(build("llama"), "subgen:s=2,t=4;window", 16, loop="adaptive")
    assert frame.set_index("policy").kept_overlap.isna().tolist() == [True, False]


def test_what_ends_a_batch_names_the_text_and_the_policies_in_it(monkeypatch):
    def fail(self):
        raise kvsim.RecordError("layer 1: a number that is not finite")

    monkeypatch.setattr("kvsim.closed_loop.adaptive.EvictingModel.finish", fail)
    message = "text .*: layer 1: .* finite; the batch: window at 6 tokens, tova.* at 6 tokens"
    with pytest.raises(kvsim.RecordError, match=message):
        evaluate(build("llama"), "window;tova", 6, loop="adaptive")


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("optimal", "loop=adaptive does not run optimal.*the future.*use loop=imposed"),
        ("topk", "loop=adaptive does not run topk.*use loop=imposed"),
        ("tova:score=full", "tova.*score=full.*attention.*use loop=imposed"),
    ],
)
def test_what_needs_more_than_the_run_is_refused(policy, message):
    with pytest.raises(kvsim.UsageError, match=message):
        evaluate(build("llama"), policy, 8, loop="adaptive")


def test_slots_are_rotated_by_the_frequencies_that_the_model_has_for_the_text():
    frames = [
        evaluate(longrope(36, short_factor=[short] * 8), "sink:positions=slot", 12, loop="adaptive")
        for short in (1.0, 2.0)  # of texts of up to 36 tokens; this one has 40
    ]
    numbers = ["nll_full", "nll", "kl_mean"]
    assert frames[0][numbers].equals(frames[1][numbers])
    assert (frames[0].kl_mean > 1e-3).all()


@pytest.mark.parametrize("loop", ["imposed", "adaptive"])
def test_both_loops_run_policies_that_need_an_output_projection(loop):
    policies = "knorm;knorm+critical:first=2;h2o+chunk:length=4;knorm+threshold:below=-0.3;r-kv"
    frame = evaluate(build("llama"), policies, 10, loop=loop).set_index("policy")
    assert len(frame) == 5 and frame.kl_mean.notna().all()
    critical = frame[frame.index.str.contains("critical")].iloc[0]
    assert critical.peak_tokens == 10
    assert critical.kl_mean != frame.kl_mean["knorm"]


def test_an_output_projection_that_is_not_found_is_named():
    message = "knorm.critical.* needs the output projection: layer 0: .*leave the policy out"
    with pytest.raises(kvsim.KvsimError, match=message):
        evaluate(build("gemma2"), "knorm+critical", 8, loop="adaptive")
