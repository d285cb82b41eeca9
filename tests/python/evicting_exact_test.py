"""Layer 0 of a text sees the inputs of the text's trace, so it evicts what the replay evicts."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

import kvsim
from kvsim import _engine
from kvsim.closed_loop import evicting
from kvsim.closed_loop.adaptive import refused, token_by_token
from kvsim.model.attention import intercepted
from kvsim.record import recording
from nightly import a_third_by_day
from record_zoo import build, letters, tokens

TOKENS, PROMPT, BUDGET = 60, 40, 12
MODES = {
    "stream": dict(mode="stream"),
    "prefill": dict(mode="prefill"),
    "never": dict(mode="prefill", eviction_interval="never"),
}
BUILT_IN = [
    flags
    for flags in _engine.specs("all;oracles", "uniform")
    if kvsim.policies().set_index("name").origin[flags["name"]] == ""
]
RUNNING = [flags for flags in BUILT_IN if refused(flags) is None]
MORE = [
    "h2o:recent=0", "h2o:recent=3,score=mean", "tova:scope=layer", "window+protect:first=2",
    "h2o+protect:first=10%,last=10%", "tova+quant:bits=4", "h2o:positions=slot",
    "h2o+kivi:bits=2,group=2,residual=4", "h2o+mikv:low=1", "tova+kvquant:calibration=9",
    "window+turboquant",
    "sink:positions=slot", "scissorhands:history=20,recent=4", "subgen:t=2+protect:last=4",
    "h2o+merge", "tova+merge:into=nearest", "h2o+merge:into=attention,queries=4",
    "h2o@pyramid", "window+rest", "h2o+protect:first=2+rest@pyramid", "tova:scope=layer+rest",
    "knorm+critical", "h2o:recent=2+critical+shared", "snapkv:window=4+critical@pyramid",
    "tova+chunk:length=4", "h2o+protect:first=2+chunk+shared", "knorm+threshold:below=-0.3",
]  # fmt: skip


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A model, the ids of a text and the path of its float32 trace."""
    model, ids = build("llama"), tokens(TOKENS)
    path = Path(tmp_path_factory.mktemp("trace")) / "t.h5"
    with recording(model, path, dtype="float32", names=["a"], prompt_length=PROMPT,
                   tokenizer=letters(), also="output_projection"), torch.no_grad():  # fmt: skip
        model(ids)
    return model, ids, path


def heads_of(model, ids, reader):
    """The head outputs of layer 0, [query heads, n, dim], while `reader` reads the ids."""
    found = []
    module = model.model.layers[0].self_attn.o_proj
    hook = module.register_forward_pre_hook(lambda _, inputs: found.append(inputs[0]))
    try:
        reader(model, ids)
    finally:
        hook.remove()
    return torch.cat(found, 1)[0].unflatten(1, (4, -1)).transpose(0, 1).numpy()


def read(model, ids):
    with torch.no_grad():
        return model(ids).logits


def replays(path, policy, mode):
    """Of both KV heads of layer 0."""
    return [
        kvsim.replay(path, policy, BUDGET, layer=0, kv_head=head, **MODES[mode]) for head in (0, 1)
    ]


EACH = [flags["text"] for flags in RUNNING if flags["scope"] != "model"] + MORE
PAIRS = list(itertools.product(EACH, MODES))


@a_third_by_day
@pytest.mark.parametrize(("policy", "mode"), PAIRS)
def test_layer_0_evicts_exactly_what_the_replay_does(policy, mode, text):
    model, ids, path = text
    how = dict(prompt_length=PROMPT, names=["a"], tokenizer=letters(), **MODES[mode])
    try:
        expected = replays(path, policy, mode)
    except kvsim.UsageError as error:  # what a replay refuses, a running model does
        with pytest.raises(kvsim.UsageError) as raised, evicting(model, policy, BUDGET, **how):
            pass
        assert str(raised.value).split(";")[0] == str(error).split(";")[0]
        return
    if "@" in policy:
        expected = None  # replayed on all layers below
    with evicting(model, policy, BUDGET, **how) as cache:
        outputs = heads_of(model, ids, read)
    if expected is None:
        _, schedules, _, _ = _engine.schedules(
            [kvsim.Trace(path)._opened], policy, str(BUDGET), MODES[mode], None
        )
        left = schedules[:2]
    else:
        left = [replay.evicted_after for replay in expected]
    for head in (0, 1):
        assert cache.evicted_after(0, head)[0].tolist() == left[head].tolist()
    if expected is None:
        return
    full = heads_of(model, ids, read)
    first = PROMPT if mode != "stream" else 0
    error = np.linalg.norm(outputs - full, axis=2) / np.linalg.norm(full, axis=2)
    found = np.stack([replay.output_error for replay in expected]).reshape(4, -1)
    np.testing.assert_allclose(error[:, first:], found, atol=2e-4)
    assert (error[:, :first] < 1e-4).all()


def test_nothing_is_refused_but_what_sees_the_future_or_everything():
    named = {flags["name"] for flags in BUILT_IN if refused(flags) is not None}
    oracles = set(kvsim.policies().query("oracle and origin == ''").name)
    assert named == oracles | {"topk"}
    model = build("llama")
    for flags in BUILT_IN:
        if refused(flags) is not None:
            with pytest.raises(kvsim.UsageError), evicting(model, flags["text"], 4):
                pass


@pytest.mark.parametrize("mode", ["stream", "prefill"])
def test_a_policy_for_the_model_evicts_token_by_token_what_its_masks_hide(mode, text):
    model, ids, _ = text
    how = dict(prompt_length=PROMPT, mode=mode)
    with evicting(model, "spatten", BUDGET, **how) as cache, torch.no_grad():
        found = token_by_token(model, ids, PROMPT if mode == "prefill" else 0)
    assert cache.peak_tokens >= BUDGET
    left = [np.stack([cache.evicted_after(at, head)[0] for head in (0, 1)]) for at in range(3)]
    for earlier, later in itertools.pairwise(left):
        assert (later <= earlier).all()  # what leaves a layer leaves all later ones
    torch.testing.assert_close(found, imposed(model, ids, left), atol=1e-4, rtol=1e-4)
    assert (found - read(model, ids)).abs().max() > 0.1


def imposed(model, ids, evicted_after):
    """The logits of one forward pass in which token j is visible at step t if j has not left."""
    steps = torch.arange(ids.shape[1])

    def intercept(call):
        left = torch.from_numpy(evicted_after[call.module.layer_idx])
        visible = (steps[:, None] >= steps) & (left[:, None] >= steps[:, None])
        return call.attend_to(visible[None])

    with intercepted(model, intercept):
        return read(model, ids)


@pytest.mark.parametrize("policy", ["window", "sink:sinks=2", "strided:stride=4", "window@pyramid"])
def test_the_replays_kept_sets_imposed_are_what_runs_where_they_depend_on_positions(policy, text):
    model, ids, path = text
    _, schedules, _, _ = _engine.schedules(
        [kvsim.Trace(path)._opened], policy, str(BUDGET), MODES["stream"], None
    )
    expected = imposed(model, ids, np.array(schedules).reshape(3, 2, TOKENS))
    with evicting(model, policy, BUDGET, names=["a"]):
        found = read(model, ids)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
