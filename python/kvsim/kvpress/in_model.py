"""Presses in a running model, where hidden states and weights are at hand."""

from __future__ import annotations

import copy
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from ..errors import UsageError
from ..policy import Policy
from .kept_rows import ChangedRows, kept_rows
from .press_inputs import drawing_from
from .refusals import takes_budget

# As in closed_loop/recorded.py: of the keys of a trace, relative to their length.
_KEY_TOLERANCE = 0.1


class ModelPressPolicy(Policy):
    """The base of policies made by `from_kvpress` with `in_model`."""

    reading: ClassVar[Reading]

    @classmethod
    def read_text(cls, model: Any, ids: np.ndarray, prompt_length: int) -> None:
        """`kvsim.evaluate` calls it before it replays a text, and with no tokens afterwards."""
        cls.reading.begin(model, ids[:prompt_length])

    def keep(self, step, scores) -> None:
        """After the prompt, lets leave what the press drops."""
        if self.reading.num_tokens == 0:
            raise UsageError(
                f"{self.name}: its press needs a running model; use kvsim.evaluate with "
                'loop="imposed", mode="prefill", eviction_interval="never"'
            )
        if step.index + 1 != self.reading.num_tokens:
            return
        scores[:] = -np.inf
        scores[self.reading.kept(self.budget, step.keys)] = 0


@dataclass
class InModel:
    """What a press keeps of a prompt of n tokens."""

    keys: list[np.ndarray]  # of each KV head of all layers, [n, dim]
    kept: list[np.ndarray]  # likewise, tokens in ascending order

    @property
    def largest_mean(self) -> int:
        """Tokens per head, rounded up."""
        return -(-sum(map(len, self.kept)) // len(self.kept))


class Reading:
    """A press, and the prompt that the model reads with it."""

    def __init__(self, press: Any) -> None:
        self._press = copy.deepcopy(press)
        self._lock = threading.Lock()
        self._model: Callable[[], Any] = lambda: None  # a weak reference
        self._of_model = self._press
        self._end()

    def __getstate__(self) -> dict[str, Any]:
        return {"press": self._press}  # for digests of code: what it read is none

    def _end(self) -> None:
        self._ids = np.empty(0, np.int32)
        self._of_budget: dict[int, InModel] = {}

    @property
    def num_tokens(self) -> int:
        """Of the prompt; 0: none was read."""
        return len(self._ids)

    def begin(self, model: Any, ids: np.ndarray) -> None:
        """The prompt whose replays follow, int32 [n]."""
        if model is not self._model():  # what a press loads for a model is of that model
            self._model, self._of_model = weakref.ref(model), copy.deepcopy(self._press)
        self._end()
        self._ids = ids

    def kept(self, budget: int, keys: np.ndarray) -> np.ndarray:
        """What the press keeps of the KV head that has these keys, [n, dim].

        A press that cannot keep exactly the budget gets larger ratios until it keeps no more, on
        average over all heads.
        """
        with self._lock:
            if budget not in self._of_budget:
                self._of_budget[budget] = self._run(budget)
        found = self._of_budget[budget]
        distances = [
            np.linalg.norm(keys - each) if keys.shape == each.shape else np.inf
            for each in found.keys
        ]
        nearest = int(np.argmin(distances))
        if distances[nearest] > _KEY_TOLERANCE * np.linalg.norm(keys):
            raise UsageError(
                f"{type(self._press).__name__}: the trace has other keys than the model computes; "
                "record it with this model, or leave trace out"
            )
        return found.kept[nearest]

    def _run(self, budget: int) -> InModel:
        press, n, asked = self._of_model, len(self._ids), budget
        if not takes_budget(press):
            return kept_in_model(press, self._model(), self._ids)
        while True:
            press.compression_ratio = max(0.0, 1 - (asked + 0.5) / n)
            found = kept_in_model(press, self._model(), self._ids)
            excess = found.largest_mean - budget
            if excess <= 0:
                return found
            asked -= excess
            if asked < 1:
                raise UsageError(
                    f"{type(press).__name__}: it keeps {budget + excess} of {n} tokens, more than "
                    f"the budget of {budget}; use a larger budget"
                )


def kept_in_model(press: Any, model: Any, ids: np.ndarray) -> InModel:
    """What a press keeps of a prompt, int32 [n], that the model reads in one forward pass.

    The press hooks itself to the model, as in kvpress. Raises UsageError with what it raises.
    """
    import torch

    from ..model.attention import Call, Result, intercepted, layer_of

    kind = type(press).__name__
    before: dict[int, tuple[Any, Any]] = {}
    modules: dict[int, Any] = {}
    cache = SimpleNamespace(layers={})

    def intercept(call: Call) -> Result:
        layer = layer_of(call, model)
        if layer is not None:
            before[layer], modules[layer] = (call.key, call.value), call.module
            rows = SimpleNamespace(keys=call.key.clone(), values=call.value.clone())
            cache.layers[layer] = rows
        return call.attend()

    given = {
        "past_key_values": cache,
        "cache_position": torch.arange(len(ids), device=model.device),
    }
    tokens = torch.from_numpy(ids).long()[None].to(model.device)
    try:
        with (
            torch.no_grad(),
            _unchanged(model),
            intercepted(model, intercept),
            drawing_from(0, model.device),
        ):
            with _given(press, given), press(model):
                model(input_ids=tokens, use_cache=False)
            masked = {layer: _masked(module) for layer, module in modules.items()}
    except Exception as error:  # whatever a press raises in a model it does not suit
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(f"{kind}: it cannot run in this model: {reason}") from error
    found = InModel([], [])
    for layer in sorted(before):
        rows = cache.layers[layer]
        try:
            of_heads = kept_rows(*before[layer], rows.keys, rows.values)
        except ChangedRows as error:
            raise UsageError(f"{kind}: layer {layer}: {error}") from error
        heads, hidden = masked[layer]
        for head, kept in enumerate(of_heads):
            found.kept.append(np.sort(np.delete(kept, hidden[heads == head])))
            found.keys.append(before[layer][0][0, head].float().cpu().numpy())
    return found


@contextmanager
def _given(press: Any, more: dict[str, Any]) -> Iterator[None]:
    """Adds arguments to those that hooks of the press see: releases of transformers name the cache
    differently, and here none is needed."""
    hook = press.forward_hook

    def forward_hook(module, inputs, arguments, output) -> None:
        first = {"hidden_states": inputs[0]} if inputs else {}
        hook(module, inputs, first | arguments | more, output)

    press.forward_hook = forward_hook
    try:
        yield
    finally:
        del press.forward_hook


@contextmanager
def _unchanged(model: Any) -> Iterator[None]:
    """Takes back what presses leave in the layers of a model."""
    decoder = getattr(model.model, "language_model", model.model)
    layers = [layer.self_attn for layer in decoder.layers]
    own = [hasattr(layer, "rotary_emb") for layer in layers]
    try:
        yield
    finally:
        for layer, had_one in zip(layers, own, strict=True):
            layer.masked_key_indices = None
            if not had_one and hasattr(layer, "rotary_emb"):
                del layer.rotary_emb


def _masked(module: Any) -> tuple[np.ndarray, np.ndarray]:
    """KV heads and rows of what is masked, in place of being dropped."""
    indices = getattr(module, "masked_key_indices", None)
    if indices is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    _, heads, rows = (each.cpu().numpy() for each in indices)
    return heads, rows
