"""What a class is when it is swept counts, not what it was; nothing asked for is dropped."""

import ctypes

import numpy as np
import pytest

import kvsim
from conftest import SAMPLE

UNIT = {"layers": 0, "heads": 0, "sequences": "held-out-text", "progress": False}


def made(weight):
    class Weighted(kvsim.Policy):
        name = "weighted-by-class"

        def update(self, step, scores):
            scores *= weight
            scores += step.attention

    return Weighted


def test_two_classes_of_one_name_are_refused():
    with pytest.raises(kvsim.UsageError, match="two classes of policies are named 'weighted-by"):
        kvsim.sweep(SAMPLE, [made(0.1), made(0.99)], 64, **UNIT)
    once = made(0.5)
    assert len(kvsim.sweep(SAMPLE, [once, once], 64, **UNIT)) == 1


def test_a_class_that_changed_is_swept_as_it_is_now(tmp_path):
    cls = made(0.1)
    output = tmp_path / "r.sqlite"
    before = kvsim.sweep(SAMPLE, cls, 64, output=output, **UNIT)
    cls.update = made(0.99).update
    after = kvsim.sweep(SAMPLE, cls, 64, output=output, **UNIT)
    assert after.attention_recall[0] != before.attention_recall[0]
    cls.rules = kvsim.Rules(protect_newest=50)
    protected = kvsim.sweep(SAMPLE, cls, 64, **UNIT)
    assert protected.attention_recall[0] != after.attention_recall[0]


def test_functions_of_ctypes_tell_codes_apart():
    signature = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)

    class OfCtypes(kvsim.Policy):
        name = "of-ctypes"
        update = signature(lambda step, scores, state: 0)

    first = kvsim.sweep(SAMPLE, OfCtypes, 64, **UNIT).policy_code[0]
    assert kvsim.sweep(SAMPLE, OfCtypes, 64, **UNIT).policy_code[0] == first
    OfCtypes.update = signature(lambda step, scores, state: 0)
    assert kvsim.sweep(SAMPLE, OfCtypes, 64, **UNIT).policy_code[0] != first


@pytest.mark.parametrize("option", ["layers", "heads", "sequences"])
def test_an_empty_selection_does_not_stand_for_all(option):
    with pytest.raises(kvsim.UsageError, match=f"{option}: expected at least one"):
        kvsim.sweep(SAMPLE, "window", 64, progress=False, **{option: []})


def test_a_curve_does_not_follow_rules_that_it_cannot():
    class OfLayers(kvsim.Policy):
        name = "of-layers"
        nests = True
        rules = kvsim.Rules(scope="layer")

        def update(self, step, scores):
            scores[-1] = step.index

    with pytest.raises(kvsim.UsageError, match="of-layers"):
        kvsim.curve(SAMPLE, OfLayers, layers=0, progress=False)


def test_arrays_that_a_trace_cannot_hold_are_refused():
    query, key, value = (np.ones((1, 6, 4), np.float32) for _ in range(3))
    for wrong in ([2**40] * 6, [1.5] * 6, [[1]] * 6, [1] * 5):
        with pytest.raises(kvsim.UsageError, match="token_ids: expected 6 whole numbers"):
            kvsim.Trace.from_arrays(query, key, value, token_ids=wrong)
    with pytest.raises(kvsim.UsageError, match="sliding_window: expected layers"):
        kvsim.Trace.from_arrays(query, key, value, sliding_window={3: 2})
    with pytest.raises(kvsim.UsageError, match="prompt_length"):
        kvsim.Trace.from_arrays(query, key, value, prompt_length=1.5)
