"""A model of each kind is recorded and evicts on a device, which a double stands in for.

What comes out is what comes of the model on the CPU, and the CPU waits for the device seldom.
"""

import re

import campaign
import h5py
import numpy as np
import page
import pytest
import small_models
import torch

import device_double
import kvsim
from kvsim.closed_loop import evicting
from kvsim.record import recording
from nightly import sample_of

RECORDED = [
    kind
    for kind, said in page.entries(page.PAGE.read_text()).items()
    if said.startswith("## Recorded")
]
SAMPLE = ["gemma3_text"]  # with layers of sliding windows, so with masks
ALSO = "output_projection,residual,output_score_grad,mlp_activation"
TOKENS, PROMPT, NEW, BUDGET = 20, 12, 3, 6
NUMBERS = ["kl_mean", "nll", "nll_full", "top1_agreement"]

# How often the CPU waits for the device in a forward pass over one token, at most: in each layer,
# in each where the model itself selects tokens, and besides, where masks are looked at.
EVICTING, RECORDING = (1, 4, 4), (0, 4, 4)


@pytest.mark.parametrize("kind", sample_of(SAMPLE, RECORDED))
def test_a_model_is_recorded_and_evicts_on_a_device_as_on_the_cpu(kind, tmp_path):
    model = small_models.build(kind)
    ids = torch.randint(
        3, small_models.VOCABULARY, (1, TOKENS), generator=torch.Generator().manual_seed(0)
    )
    expected = {name: step(model, ids, tmp_path / "cpu.h5") for name, step in STEPS.items()}
    assert isinstance(expected["record"], dict)
    with device_double.found() as device:
        model.to("cuda")
        counted = count_waits(model, device)
        for name, step in STEPS.items():
            counted.clear()
            found = step(model, ids.to("cuda"), tmp_path / "device.h5")
            require_close(found, expected[name], name)
            if name in LIMITS and not isinstance(found, str):
                require_few(np.diff(counted)[-1:], model, *LIMITS[name])


def refusable(step):
    """The step, of which a refusal is an outcome, too."""

    def tried(*arguments):
        try:
            return step(*arguments)
        except (kvsim.RecordError, kvsim.UsageError) as error:
            return re.sub(r"\d", "", str(error))

    return tried


def record(model, ids, path, also=ALSO):
    try:
        with recording(model, path, dtype="float32", also=also):
            campaign._logits(model, ids)
    except kvsim.RecordError:
        return record(model, ids, path, ()) if also else "refused"
    return numbers_of(path)


def record_generated(model, ids, path):
    with recording(model, path, dtype="float32"):
        generated(model, ids)
    return numbers_of(path)


def evaluate(loop):
    def step(model, ids, _):
        frame = kvsim.evaluate(
            model, ids[0].cpu(), "window", BUDGET, loop=loop, also=[], progress=False
        )
        return frame[NUMBERS].to_numpy()

    return step


def evict(drop):
    def step(model, ids, _):
        with evicting(model, "tova", BUDGET, **campaign.PROTOCOL, drop=drop):
            return generated(model, ids.repeat(1 if drop else 2, 1)).cpu().numpy()

    return step


def generated(model, ids):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(campaign, "NEW", NEW)
        return campaign._generated(model, ids[:, :PROMPT])


STEPS = {
    "record": refusable(record),
    "record generated": refusable(record_generated),
    "imposed": refusable(evaluate("imposed")),
    "adaptive": refusable(evaluate("adaptive")),
    "evicting": refusable(evict(False)),
    "dropping": refusable(evict(True)),
}
LIMITS = {"record generated": RECORDING, "evicting": EVICTING, "dropping": EVICTING}


def count_waits(model, device):
    """Those so far, at the beginning of each forward pass."""
    counted = []
    model.register_forward_pre_hook(lambda *_: counted.append(device.own_waits()))
    return counted


def require_few(waits, model, of_layer, of_selecting, of_pass):
    selects = any(getattr(each, "indexer", None) is not None for each in model.modules())
    most = small_models.LAYERS * (of_layer + of_selecting * selects) + of_pass
    assert len(waits) and max(waits) <= most, f"{waits} in each pass, expected {most} at most"


def numbers_of(path):
    """All arrays of a trace, and forgets it."""
    found = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, x: found.update({name: x[()]} if hasattr(x, "shape") else {}))
    path.unlink()
    del found["manifest"]  # digests
    return found


def require_close(found, expected, name):
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), name
        for each in expected:
            require_close(found[each], expected[each], f"{name}: {each}")
    elif isinstance(expected, str):
        assert found == expected, name
    else:
        half = expected.dtype == np.float16
        largest = np.abs(expected.astype(float)).max(initial=1e-3)
        np.testing.assert_allclose(
            found, expected, atol=(1e-2 if half else 1e-3) * largest, rtol=0, err_msg=name
        )
