"""Caches of pages, and of heads that keep the same tokens, in replays and in running models."""

from pathlib import Path

import numpy as np
import pytest
import torch

import kvsim
from kvsim.closed_loop import evicting
from kvsim.model.cache import cache_argument, returned_cache
from record_zoo import build, tokens

LENGTH = 40
SAMPLE = Path(__file__).parents[2] / "traces" / "sample" / "tiny-llama.h5"


def evaluate(model, policies, budgets, **options):
    return kvsim.evaluate(model, tokens(LENGTH)[0], policies, budgets, progress=False, **options)


def kept_after(text, kept, page):
    """Whether the kept tokens are whole pages, the last one as far as the text goes."""
    pages = {token // page for token in kept}
    return set(kept) == {token for token in range(text) if token // page in pages}


def test_rows_of_pages_have_a_mode_of_their_own():
    frame = kvsim.sweep(SAMPLE, "h2o;optimal", ["20%", 64], page=16, progress=False)
    assert set(frame["mode"]) == {"stream:page=16"}
    assert set(frame.budget) == {64, 96}
    mean = frame.groupby(["budget", "policy"]).attention_recall.mean().unstack()
    assert (mean.filter(like="optimal").squeeze() > mean.filter(like="h2o").squeeze()).all()
    with pytest.raises(kvsim.UsageError, match="budget 65: expected a multiple of --page 16"):
        kvsim.sweep(SAMPLE, "h2o", 65, page=16, progress=False)
    with pytest.raises(kvsim.UsageError, match="--page 16 cannot replay subgen"):
        kvsim.sweep(SAMPLE, "subgen", 64, page=16, progress=False)


@pytest.mark.parametrize("mode", ["stream", "prefill"])
def test_a_curve_has_the_rows_of_a_sweep_at_every_budget_of_pages(mode):
    how = dict(mode=mode, page=64, page_score="max", layers=1, progress=False)
    policies = ["window", "h2o:recent=16,score=full", "optimal"]
    curve = kvsim.curve(SAMPLE, policies, output_error="all", **how)
    assert set(curve.budget) == set(range(128, 513, 64))
    assert set(curve["mode"]) == {f"{mode}:page=64,page-score=max"}
    sweep = kvsim.sweep(SAMPLE, policies, sorted(set(curve.budget)), **how)
    key = ["sequence", "policy", "budget"]
    curve, sweep = (frame.set_index(key).sort_index() for frame in (curve, sweep))
    counts = ["evictions", "peak_tokens", "cache_bytes", "token_misses", "token_accesses", "steps"]
    assert (curve[counts] == sweep[counts]).all(axis=None)
    losses = ["attention_loss", "output_error_mean", "output_error_p95", "bound_mean"]
    np.testing.assert_allclose(curve[losses], sweep[losses], rtol=2e-5, atol=1e-9)


def test_a_trajectory_loses_whole_pages():
    result = kvsim.replay(
        SAMPLE, "tova", 64, sequence="copied-segment", layer=1, kv_head=0, page=16, page_score="max"
    )
    left = np.asarray(result.evicted_after)
    assert (left[:256].reshape(-1, 16) == left[:256:16, None]).all()


@pytest.mark.parametrize("policies", ["window;sink", "window+shared;sink+shared"])
def test_policies_that_do_not_look_at_the_run_do_the_same_in_both_loops(policies):
    model = build("llama")
    frames = [
        evaluate(model, policies, [8, 16], loop=loop, page=4) for loop in ("imposed", "adaptive")
    ]
    imposed, adaptive = frames
    assert set(imposed["mode"]) == {"stream:page=4"}
    numbers = ["kl_mean", "nll", "delta_nll"]
    np.testing.assert_allclose(adaptive[numbers], imposed[numbers], atol=1e-6)
    assert (adaptive.kept_overlap == 1).all()
    assert (adaptive.peak_tokens == adaptive.budget).all()


@pytest.mark.parametrize("mode", ["stream", "prefill"])
def test_shared_pages_are_freed_in_every_layer(mode):
    model, ids = build("llama"), tokens(LENGTH)
    how = dict(mode=mode, page=4, prompt_length=20)
    held, logits = [], []
    for drop in (False, True):
        rows, past = [], None
        with evicting(model, "h2o+shared", 12, drop=drop, **how) as cache, torch.no_grad():
            for start, end in [(0, 20), *((step, step + 1) for step in range(20, LENGTH))]:
                output = model(ids[:, start:end], **cache_argument(model, past), use_cache=True)
                past = returned_cache(output)
                rows.append(output.logits)
            held.append([cache.kept(layer, head)[0] for layer in range(3) for head in range(2)])
            storage = set(cache.storage.values())
        assert storage == {"dropped" if drop else "masked"}
        logits.append(torch.cat(rows, 1))
    torch.testing.assert_close(*logits, atol=1e-4, rtol=1e-4)
    assert [layer.keys.shape[2] for layer in past.layers] == [len(held[1][0])] * 3
    for masked, dropped in zip(*held):
        assert masked.tolist() == dropped.tolist()
        assert kept_after(LENGTH, dropped, 4) and len(dropped) == 12
    assert held[1][0].tolist() == held[1][1].tolist()  # the heads of a layer
