"""What runs a model takes one that is on a device, which a double stands in for.

What each kind of model does there is in architectures/on_device_test.py.
"""

from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

import device_double
import kvsim
from kvsim.closed_loop import evicting, kept_attention
from kvsim.closed_loop.cli import main as evaluate_command
from kvsim.kvpress.in_model import kept_in_model
from kvsim.model.host import on_host
from kvsim.record.__main__ import main as record_command
from kvsim.second_reading.__main__ import main as second_reading_command
from record_zoo import build, generate, letters, padded, tokens

LENGTH, LAYERS = 24, 3
NUMBERS = ["kl_mean", "nll", "nll_full", "top1_agreement"]


@pytest.fixture
def device():
    with device_double.found() as found:
        yield found


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path, model = tmp_path_factory.mktemp("device") / "t.h5", build("llama")
    with kvsim.recording(model, path, dtype="float32"), torch.no_grad():
        model(tokens(LENGTH))
    return path


def evaluate(model, *configurations, **options):
    return kvsim.evaluate(model, tokens(LENGTH)[0], *configurations, progress=False, **options)


def test_kept_sets_are_imposed_in_batches_of_up_to_32(trace):
    model, sizes = build("llama"), []
    budgets = [*range(3, 20)]
    expected = evaluate(model, "window;topk", budgets, trace=trace).set_index(["policy", "budget"])
    model.register_forward_pre_hook(
        lambda *given: sizes.append(len(given[2]["input_ids"])), with_kwargs=True
    )
    with device_double.found() as device:
        model.to("cuda")
        for policies, some, batches in (
            ("window", [6], [1]), ("window", budgets[:8], [8]), ("window;topk", budgets, [32, 2])
        ):  # fmt: skip
            frame = evaluate(model, policies, some, trace=trace).set_index(["policy", "budget"])
            assert sizes[-len(batches) :] == batches
            assert set(frame.device) == {"cuda"}
            there = expected.loc[frame.index, NUMBERS]
            np.testing.assert_allclose(frame[NUMBERS], there, atol=1e-5)
    waiting = {line.partition(":")[0] for line, times in device.waits.items() if times}
    assert not waiting & {"kvsim/imposed.py", "kvsim/kept_attention.py"}


@pytest.mark.parametrize("policy", ["tova", "h2o+quant:bits=4"])
def test_a_padded_batch_evicts_on_a_device_as_on_the_cpu(policy):
    model, (ids, mask) = build("mistral"), padded([9, 14])
    options = dict(new=4, attention_mask=mask)

    def generated(place):
        with evicting(model, policy, 5, mode="prefill") as cache:
            made = generate(model, ids.to(place), **options | {"attention_mask": mask.to(place)})
            return made.cpu(), [cache.kept(layer, 1) for layer in range(LAYERS)]

    expected, kept = generated("cpu")
    with device_double.found():
        model.to("cuda")
        found, kept_there = generated("cuda")
    assert torch.equal(found, expected)
    for of_layer, there in zip(kept, kept_there, strict=True):
        assert all(map(np.array_equal, of_layer, there))


def test_a_step_waits_once_for_each_layer_and_twice_besides(device):
    """For its tokens and their places; in each layer for the vectors that the policy decides by,
    before attention goes on; and for whether the cache is what it was."""
    model, counted = build("llama").to("cuda"), []
    model.register_forward_pre_hook(lambda *_: counted.append(device.own_waits()))
    with evicting(model, "tova", 5, mode="prefill"):
        counted.clear()
        generate(model, tokens(10).repeat(2, 1).to("cuda"), new=5)
    assert [*np.diff(counted)[1:]] == [LAYERS + 2] * 3


def test_tensors_come_to_the_cpu_together(device):
    here = [
        torch.tensor([True, False, True]), torch.arange(6).view(2, 3), torch.tensor(2.5),
        torch.randn(2, 3, 4).bfloat16().transpose(0, 1), torch.empty(0, 4), torch.randn(3).double(),
    ]  # fmt: skip
    there = [tensor.to("cuda") for tensor in here]
    found = on_host(*there[:3], here[1], *there[3:])
    assert sum(device.waits.values()) == 1
    for tensor, expected in zip(found, [*here[:3], here[1], *here[3:]], strict=True):
        assert (tensor.device.type, tensor.dtype) == ("cpu", expected.dtype)
        assert torch.equal(tensor, expected)
    assert on_host() == []


def test_a_mask_that_is_made_on_the_cpu_is_found(trace, device, monkeypatch):
    future = kept_attention._future
    monkeypatch.setattr(
        kept_attention, "_future", lambda steps, device: future(steps, torch.device("cpu"))
    )
    with pytest.raises(RuntimeError, match="same device"):
        evaluate(build("llama").to("cuda"), "window", 6, trace=trace)


class Draws:
    """Keeps five tokens that it draws, and hooks itself to a model as a press of kvpress does."""

    def forward_hook(self, module, inputs, arguments, output):
        rows = arguments["past_key_values"].layers[module.layer_idx]
        shape = rows.keys.shape[:3]
        at = torch.rand(shape, device=rows.keys.device).topk(5, -1).indices[..., None]
        rows.keys, rows.values = (x.take_along_dim(at, 2) for x in (rows.keys, rows.values))

    @contextmanager
    def __call__(self, model):
        hooks = [
            layer.self_attn.register_forward_hook(self.forward_hook, with_kwargs=True)
            for layer in model.model.layers
        ]
        yield
        for hook in hooks:
            hook.remove()


def test_a_press_runs_in_a_model_on_a_device(device):
    model, ids = build("llama").to("cuda"), tokens(LENGTH)[0].numpy()
    kept = kept_in_model(Draws(), model, ids).kept
    assert [len(tokens) for tokens in kept] == [5] * 2 * LAYERS
    again = kept_in_model(Draws(), model, ids).kept
    assert all(map(np.array_equal, kept, again)), "the same seed draws the same on the device"


def test_the_commands_take_a_device(device, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    build("llama").save_pretrained("zoo")
    letters().save_pretrained("zoo")
    Path("text.txt").write_text("the ships wait for the tide.")
    there = ["--device", "cuda"]
    recorded = ["zoo", "--text", "text.txt", "-o", "t.h5", "--max-new-tokens", "3"]
    assert record_command([*recorded, *there]) == 0
    evaluated = ["zoo", "--text", "text.txt", "--policies", "window", "--budgets", "6"]
    assert evaluate_command([*evaluated, "--loop", "adaptive", "-o", "r.sqlite", *there]) == 0
    assert set(kvsim.load("r.sqlite").closed_loop.device) == {"cuda"}
    assert second_reading_command(["zoo", "t.h5", "-o", "s.h5", *there]) == 0
    assert capsys.readouterr().err.count("Traceback") == 0
