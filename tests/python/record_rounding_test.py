"""What is compared on a device counts what the device rounds, whatever the model lets it do."""

import weakref

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kvsim.model.masks import Reach
from kvsim.model.shape import Shape
from kvsim.record import on_device
from kvsim.record.on_device import DeviceErrors, worst_fused, worst_in_blocks
from record_on_device_test import HEADS, KV_HEADS, NAMES, TOKENS, vectors


def flash(query, key, value, is_causal, scale, enable_gqa):
    """Rounds as a fused kernel does: weights relative to the largest, sums and outputs."""
    group = query.shape[1] // key.shape[1]
    key, value = (each.float().repeat_interleave(group, 1) for each in (key, value))
    logits = query.float() @ key.transpose(-1, -2) * scale
    logits += torch.full(logits.shape[-2:], -torch.inf).triu(1)
    weights = (logits - logits.amax(-1, keepdim=True)).exp()
    return (weights.half().float() @ value / weights.sum(-1, keepdim=True)).half()


def fused(monkeypatch, stored, scale):
    monkeypatch.setattr(on_device, "_fuses", lambda *_: True)
    monkeypatch.setattr(on_device, "scaled_dot_product_attention", flash)
    return float(worst_fused(stored, scale))


def test_a_fused_kernel_finds_no_less_where_a_head_rests_on_a_token_of_no_value(monkeypatch):
    tokens_, dim, scale = 512, 32, 17.5 / 900
    random = torch.Generator().manual_seed(0)
    key, query = torch.zeros(1, tokens_, dim), torch.zeros(2, tokens_, dim)
    key[:, 0, 0] = query[..., 0] = 30  # other weights are e^-17.5
    value = dim**-0.5 + 0.02 * torch.randn(1, tokens_, dim, generator=random)
    value[:, 0] = 1e-4 * torch.randn(dim, generator=random)
    stored = {"query": query.half(), "key": key.half(), "value": value.half()}
    wide = (stored[name][None] for name in NAMES[:3])
    stored["output"] = flash(*wide, is_causal=True, scale=scale, enable_gqa=True)[0]
    exact = worst_in_blocks(stored, Shape(2, 1, dim, dim, scale, None), Reach(), None)
    assert 5e-3 < float(exact) < fused(monkeypatch, stored, scale)


def test_values_too_small_for_a_fused_kernel_are_unknown_though_its_outputs_agree(monkeypatch):
    stored = {name: numbers.half() for name, numbers in vectors(16, 16, 2**-24).items()}
    wide = (stored[name][None] for name in NAMES[:3])
    stored["output"] = flash(*wide, is_causal=True, scale=0.4, enable_gqa=True)[0]
    assert np.isnan(fused(monkeypatch, stored, 0.4))


def looked(asked, rows=None):
    errors, shape = DeviceErrors(), Shape(HEADS, KV_HEADS, 16, 24, 0.4, None)
    errors.look(0, rows or vectors(16, 24), asked, shape, Reach(), None)
    return errors.read(TOKENS)[0]


@pytest.mark.parametrize("asked", ["auto", "float32"])
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_autocast_changes_nothing_in_what_is_found(kind, asked):
    expected = looked(asked)
    with torch.autocast("cpu", dtype=kind):
        assert looked(asked) == expected


def test_nothing_is_compared_with_tensor_float_32(monkeypatch):
    seen, own = [], on_device.worst_in_blocks

    def worst(*rest):
        seen.append(torch.get_float32_matmul_precision())
        return own(*rest)

    monkeypatch.setattr(on_device, "worst_in_blocks", worst)
    before = torch.get_float32_matmul_precision()
    try:
        for precision in ("high", "highest"):
            torch.set_float32_matmul_precision(precision)
            looked("float32")
            assert torch.get_float32_matmul_precision() == precision
    finally:
        torch.set_float32_matmul_precision(before)
    assert seen == ["highest"] * 2


def test_a_default_device_does_not_matter():
    rows, expected = vectors(16, 24), looked("float32")
    with torch.device("meta"):
        assert looked("float32", rows) == expected


class Most(TorchDispatchMode):
    """The most bytes at a time of tensors that were computed meanwhile from `given` ones."""

    def __init__(self, given):
        super().__init__()
        self._given = {each.untyped_storage().data_ptr() for each in given}
        self.found, self._made = 0, []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        self._made = [each for each in self._made if each() is not None]
        self._made += [weakref.ref(each) for each in tree_leaves(made) if torch.is_tensor(each)]
        there = (each().untyped_storage() for each in self._made)
        sizes = {storage.data_ptr(): storage.nbytes() for storage in there}
        sizes = [size for place, size in sizes.items() if place not in self._given]
        self.found = max(self.found, sum(sizes))
        return made


def test_blocks_take_the_memory_of_two_matrices_of_logits_and_of_vectors(monkeypatch):
    monkeypatch.setattr(on_device, "LOGITS_AT_ONCE", 1 << 17)
    random = torch.Generator().manual_seed(0)
    rows = {name: torch.randn(4, 1024, 8, generator=random) for name in NAMES}
    with Most(rows.values()) as most, torch.no_grad():
        worst_in_blocks(rows, Shape(4, 4, 8, 8, 0.4, None), Reach(), None)
    of_head = 4 * 1024 * 8
    assert 2 * 4 * (1 << 17) < most.found < 2.1 * 4 * (1 << 17) + 4 * of_head
