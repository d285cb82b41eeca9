"""Policies of presses: what kvpress keeps, the engine keeps."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UsageError
from ..policy import Policy, Rules
from .in_model import ModelPressPolicy, Reading
from .needs import Needs, needs_of, rows_of
from .press_inputs import AttentionRows, PressFailure, call_press, drops_lowest, put_in_halves
from .refusals import refusal_of

if TYPE_CHECKING:
    from kvpress import BasePress


class PressPolicy(Policy):
    """The base of policies made by `from_kvpress` of what a trace has."""

    press: Any
    needs: Needs

    def __init__(self, budget: int, seed: int, settings: dict[str, Any]) -> None:
        super().__init__(budget, seed)
        self._press = copy.deepcopy(self.press)
        if any(getattr(self.press, name) != value for name, value in settings.items()):
            self._press = dataclasses.replace(self.press, **settings)
        self._rows = AttentionRows(rows_of(self._press, self.needs.rows))
        self._queries: deque[np.ndarray] = deque()
        self._is_cut = False

    def score(self, step, scores) -> None:
        """Remembers what the press needs of a step; at an overflow, writes the press's scores."""
        if self._is_cut:
            return
        self._rows.add(step)
        if self.needs.queries:
            self._queries.append(step.queries.copy())
        if step.overflow == 0:
            return
        keys = step.keys
        queries = rotation = None
        if self.needs.queries:
            rotation = self.rotation
            queries, keys = put_in_halves(np.stack(self._queries, axis=1), keys, rotation)
            # Presses divide logits by the root of the head dimension, whatever the trace says.
            queries *= self.scale * np.sqrt(keys.shape[1])
        values = step.values if self.needs.values else np.full_like(keys, np.nan)
        attention = self._rows.over(step.tokens)
        scores[:] = self._found(
            len(scores) - step.overflow, (keys, values, attention, queries, rotation)
        )
        if self.rules.prompt_only:
            self._is_cut = True
            self._rows.clear()
            self._queries.clear()

    def _found(self, budget: int, inputs: tuple[np.ndarray | None, ...]) -> np.ndarray:
        """The press's scores. One that drops otherwise than by scores gets larger ratios until it
        keeps no more than the budget."""
        kind, tokens, asked = type(self.press).__name__, len(inputs[0]), budget
        while True:
            self._press.compression_ratio = 1 - (asked + 0.5) / tokens
            try:
                found = call_press(self._press, *inputs, seed=self.seed % 2**63)
            except PressFailure as failure:
                raise UsageError(f"{kind}: {failure}") from failure
            if np.isnan(found).any():
                raise UsageError(f"{kind}: its scores are not numbers")
            excess = 0 if drops_lowest(self._press) else int((found == 0).sum()) - budget
            if excess <= 0:
                return found
            asked -= excess
            if asked < 1:
                raise UsageError(
                    f"{kind}: it keeps {budget + excess} of {tokens} tokens, more than the budget "
                    f"of {budget}; use a larger budget"
                )


def from_kvpress(
    press: BasePress, name: str | None = None, *, in_model: bool = False
) -> type[Policy]:
    """A policy of a press of kvpress, for `kvsim.sweep` and everything else that takes a class.

    Parameters
    ----------
    press : kvpress.BasePress
        An object of a class below it. It is copied. Its settings that are numbers, words or bools
        become parameters: "kvpress-snapkv:window_size=16". KeyRerotationPress is the press in it
        with keys at their slots, as `positions=slot`.
    name : str, optional
        In specs; without it "kvpress-" and the names of the class and of presses in it, without
        Press, in small letters: "kvpress-chunk-knorm".
    in_model : bool, default False
        The press runs in the model of `kvsim.evaluate` (loop="imposed", mode="prefill",
        eviction_interval="never"), with hidden states, weights and all heads, and what it keeps of
        the prompt is imposed. The budget is the mean over all heads; a press that takes no ratio
        keeps what it keeps at any budget.

    Returns
    -------
    type
        A class below `kvsim.Policy`.

    Raises
    ------
    UsageError
        With the reason, for what cannot run so (python/kvpress.md lists all presses).
    ImportError
        Without kvpress.

    Notes
    -----
    Whenever tokens have to leave, `press.score` is given those in the cache, [1, 1, tokens,
    head_dim], and the tokens with the lowest scores leave, of equals the lower text position. The
    budget takes the place of `compression_ratio`. kvpress itself cuts a prompt once: that is
    `mode="prefill", eviction_interval="never"`. A press that needs queries, keys before rotation or
    all rows of attention, or that drops otherwise than by scores, is replayed in no other way. One
    of the last kind, as ChunkKVPress, gets larger ratios until it keeps no more than the budget.

    Of a trace, a press sees one KV head; attention is the mean over its query heads. Where kvpress
    takes the mean over a layer, as TOVAPress and ChunkKVPress do, the policy takes that of the KV
    head. What a press draws comes from the seed of the unit, in a model from 0.

    Examples
    --------
    >>> from kvpress import SnapKVPress
    >>> snapkv = kvsim.from_kvpress(SnapKVPress(window_size=32))
    >>> kvsim.sweep("trace.h5", [snapkv, "snapkv:preset=code"], ["20%"], mode="prefill",
    ...             eviction_interval="never")
    """
    kind = type(press).__name__
    if reason := refusal_of(press, in_model):
        raise UsageError(f"{kind}: {reason}")
    inner, is_rotated_anew = _unwrapped(press, in_model)
    named = {
        "name": name or "kvpress-" + "-".join(_words(press)),
        "keeps": f"what {kind} of kvpress keeps",
        "source": f"kvpress, {kind}",
        "source_text": " ".join(map(_source_of, _classes(press))),
    }
    if in_model:
        return type(
            kind,
            (ModelPressPolicy,),
            named
            | {
                "rules": Rules(bounded=False, prunes=True, prompt_only=True),
                "reading": Reading(inner),
                "update": ModelPressPolicy.keep,
            },
        )
    needs = needs_of(inner)
    settings = _settings_of(inner)

    def init(self, budget, seed=0, **parameters):
        PressPolicy.__init__(self, budget, seed, parameters)

    init.__signature__ = _signature_of(settings)
    return type(
        kind,
        (PressPolicy,),
        named
        | {
            "rules": Rules(
                prompt_only=needs.prompt_only or not drops_lowest(inner),
                prunes=not drops_lowest(inner),
                sees_values=needs.values,
                sees_queries=needs.queries,
                sees_rotation=needs.queries,
                slot_positions=is_rotated_anew,
            ),
            "press": copy.deepcopy(inner),
            "needs": needs,
            "__init__": init,
            "update": PressPolicy.score,
        },
    )


def _unwrapped(press: Any, in_model: bool) -> tuple[Any, bool]:
    """The press that decides what stays, and whether keys are then rotated to their slots."""
    presses = importlib.import_module("kvpress")
    if isinstance(press, presses.PrefillDecodingPress):
        if press.decoding_press is not None or press.prefilling_press is None:
            raise UsageError(
                f"{type(press).__name__}: it cuts while the model writes; expected one with a "
                "prefilling_press alone"
            )
        if reason := refusal_of(press.prefilling_press, in_model):
            raise UsageError(f"{type(press.prefilling_press).__name__}: {reason}")
        return _unwrapped(press.prefilling_press, in_model)
    is_rotated_anew = isinstance(press, presses.KeyRerotationPress)
    if is_rotated_anew:
        press = press.press
    elif isinstance(press, presses.FinchPress) and press.rerotate_keys:
        press, is_rotated_anew = copy.copy(press), True
        press.rerotate_keys = False
    if is_rotated_anew and in_model:
        raise UsageError(
            f"{type(press).__name__}: it rotates keys to their slots, which a set of tokens that "
            "is imposed does not; leave in_model out"
        )
    return press, is_rotated_anew


def _inner(press: Any) -> list[Any]:
    """The presses in a press."""
    found = [getattr(press, name, None) for name in ("press", "prefilling_press")]
    return [each for each in [*found, *getattr(press, "presses", ())] if each is not None]


def _classes(press: Any) -> list[type]:
    return [type(press), *(cls for each in _inner(press) for cls in _classes(each))]


def _words(press: Any) -> list[str]:
    return [cls.__name__.removesuffix("Press").lower() for cls in _classes(press)]


def _settings_of(press: Any) -> dict[str, Any]:
    if not dataclasses.is_dataclass(press):
        return {}
    values = {
        field.name: getattr(press, field.name) for field in dataclasses.fields(press) if field.init
    }
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, bool | int | float | str)
        and name not in ("compression_ratio", "budget", "seed")
    }


def _signature_of(settings: dict[str, Any]) -> inspect.Signature:
    plain, keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    return inspect.Signature(
        [
            inspect.Parameter("self", plain),
            inspect.Parameter("budget", plain),
            inspect.Parameter("seed", plain, default=0),
            *(inspect.Parameter(name, keyword, default=value) for name, value in settings.items()),
        ]
    )


def _source_of(cls: type) -> str:
    """The text by which rows know that a press changed."""
    try:
        return inspect.getsource(cls)
    except (OSError, TypeError):
        return f"{cls.__module__}.{cls.__qualname__}"
