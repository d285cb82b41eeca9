"""kvsim.evaluate: what it refuses."""

import warnings

import pytest
import torch

import kvsim
from conftest import OPTIMAL
from record_zoo import build, tokens

LENGTH = 30


def evaluate(model, texts, policies="window;tova"):
    return kvsim.evaluate(model, texts, policies, "6", progress=False)


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        ("subgen", "subgen.*: an estimator keeps no set of tokens.*use loop=adaptive"),
        ("window;h2o+quant", "h2o.*quant.*numbers of .quant; use loop=adaptive"),
        ("h2o+kivi", "h2o.*kivi.*not how their numbers are stored; use loop=adaptive"),
        ("h2o+rest", "h2o.*rest.*the entry of .rest; use loop=adaptive"),
        ("h2o+merge", "h2o.*merge.*not how their numbers are stored; use loop=adaptive"),
        ("sink:positions=slot", "positions=slot rotates keys anew.*use loop=adaptive"),
    ],
)
def test_what_cannot_be_imposed_is_refused(policies, message):
    with pytest.raises(kvsim.UsageError, match=message) as raised:
        evaluate(build("llama"), tokens(LENGTH), policies)
    assert "\n" not in str(raised.value)


def test_lists_leave_out_what_cannot_be_imposed():
    model, ids = build("llama"), tokens(LENGTH)
    with pytest.warns(kvsim.KvsimWarning, match="all leaves out what loop=imposed .*subgen"):
        frame = evaluate(model, ids, "all")
    names = {policy.partition(":")[0] for policy in frame.policy}
    assert {"window", "h2o", "tova", "topk", "full"} < names and "subgen" not in names
    with warnings.catch_warnings():
        warnings.simplefilter("error", kvsim.KvsimWarning)
        oracles = evaluate(model, ids, "oracles")
    assert OPTIMAL in set(oracles.policy)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(loop="open"), "loop: expected imposed or adaptive, found open"),
        (dict(mode="prefill"), "prefill needs a prompt"),
        (dict(policies=""), "at least one policy and one budget"),
        (dict(policies="tovaa"), "did you mean 'tova'"),
        (dict(budgets="0%"), "budget"),
        (dict(texts="words"), "tokenizer: expected one"),
        (dict(texts=tokens(300)), "300 tokens are more than the model's 256 positions"),
        (dict(texts=[70]), "expected token ids below 64, found 70"),
        (dict(eviction_interval="often"), "eviction.interval"),
    ],
)
def test_bad_usage_is_refused_in_one_line(options, message):
    arguments = {"policies": "window", "budgets": "6", "texts": tokens(LENGTH), **options}
    with pytest.raises(kvsim.UsageError, match=message) as raised:
        kvsim.evaluate(build("llama"), progress=False, **arguments)
    assert "\n" not in str(raised.value)


def test_other_models_are_refused():
    with pytest.raises(kvsim.RecordError, match="expected a model of transformers, found Linear"):
        evaluate(torch.nn.Linear(2, 2), [3, 4])
    with pytest.raises(kvsim.UsageError, match=r"being trained; call model\.eval"):
        evaluate(build("llama").train(), [3, 4])
    with pytest.raises(kvsim.RecordError, match="there is no such folder"):
        evaluate("./nowhere", [3, 4])
