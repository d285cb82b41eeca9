"""Policies of presses: what kvpress scores, the engine evicts by."""

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
from .press_inputs import AttentionRows, PressFailure, call_press, default_rotation, put_in_halves

if TYPE_CHECKING:
    from kvpress import ScorerPress

# A press may ask for more tokens than its window holds, and read more of longer texts.
_TRIED_TOKENS = (48, 200, 1100)


@dataclasses.dataclass(frozen=True)
class Needs:
    """What a press reads in addition to keys.

    Attributes:
        rows: of attention, the last so many; 0: none; None: all.
        values: whether it reads values.
        queries: whether it reads the queries of the text, by projecting hidden states.
    """

    __module__ = "kvsim.kvpress"  # a pickle of it is in digests of code: it must not change

    rows: int | None
    values: bool
    queries: bool

    @property
    def prompt_only(self) -> bool:
        """Whether it reads of every token what only a prompt that attended in full has."""
        return self.queries or self.rows is None


class PressPolicy(Policy):
    """The base of policies made by `from_kvpress`."""

    press: Any
    needs: Needs

    def __init__(self, budget: int, settings: dict[str, Any]) -> None:
        super().__init__(budget)
        self._press = copy.deepcopy(self.press)
        if any(getattr(self.press, name) != value for name, value in settings.items()):
            self._press = dataclasses.replace(self.press, **settings)
        self._rows = AttentionRows(_rows_of(self._press, self.needs.rows))
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
        self._press.compression_ratio = 1 - (len(scores) - step.overflow + 0.5) / len(scores)
        try:
            found = call_press(
                self._press,
                keys,
                step.values if self.needs.values else np.full_like(keys, np.nan),
                attention=self._rows.over(step.tokens),
                queries=queries,
                rotation=rotation,
            )
        except PressFailure as failure:
            raise UsageError(f"{type(self.press).__name__}: {failure}") from failure
        if np.isnan(found).any():
            raise UsageError(f"{type(self.press).__name__}: its scores are not numbers")
        scores[:] = found
        if self.needs.prompt_only:
            self._is_cut = True
            self._rows.clear()
            self._queries.clear()


def from_kvpress(press: ScorerPress, name: str | None = None) -> type[Policy]:
    """A policy of a kvpress scorer, for `kvsim.sweep` and everything else that takes a class.

    >>> from kvpress import SnapKVPress
    >>> snapkv = kvsim.from_kvpress(SnapKVPress(window_size=32))
    >>> kvsim.sweep("trace.h5", [snapkv, "snapkv:preset=code"], ["20%"], mode="prefill",
    ...             eviction_interval="never")

    Whenever tokens have to leave, `press.score` is given those in the cache, [1, 1, tokens,
    head_dim], and the tokens with the lowest scores leave, of equals the lower text position. The
    budget takes the place of `compression_ratio`. kvpress itself cuts a prompt once: that is
    `mode="prefill", eviction_interval="never"`. A press that needs queries or all rows of attention
    is replayed in no other way.

    Arguments:
      press: an object of a class below kvpress.ScorerPress. It is copied. Its settings that are
        numbers, words or bools become parameters: "kvpress-snapkv:window_size=16".
      name: in specs; without it "kvpress-" and the name of the class, without Press, in small
        letters.

    A press sees one KV head; attention is the mean over its query heads. Where kvpress takes the
    mean over a layer, as TOVAPress does, the policy takes that of the KV head.

    Raises UsageError with the reason for what cannot be scored so: presses that compress otherwise
    than by dropping the lowest scores (wrappers, PyramidKVPress), that need hidden states or
    weights of the model or the number of the layer, or that draw anew at every call; and
    ImportError without kvpress.
    """
    scorer = importlib.import_module("kvpress").ScorerPress
    kind = type(press).__name__
    if not isinstance(press, scorer):
        raise UsageError(
            f"{kind}: expected a kvpress.ScorerPress; write a wrapper as kvsim does: "
            "POLICY@adaptive for AdaKVPress, POLICY@pyramid for a split over layers"
        )
    if type(press).compress is not scorer.compress:
        raise UsageError(
            f"{kind}: its compress() is not that of ScorerPress, which drops the lowest scores; "
            "take the press that it builds on, with POLICY@pyramid for a split over layers"
        )
    needs = _needs_of(press)
    settings = _settings_of(press)

    def init(self, budget, **parameters):
        PressPolicy.__init__(self, budget, parameters)

    init.__signature__ = _signature_of(settings)
    return type(
        kind,
        (PressPolicy,),
        {
            "name": name or "kvpress-" + kind.removesuffix("Press").lower(),
            "keeps": f"what {kind} of kvpress scores highest",
            "source": f"kvpress, {kind}",
            "rules": Rules(
                prompt_only=needs.prompt_only,
                sees_values=needs.values,
                sees_queries=needs.queries,
                sees_rotation=needs.queries,
            ),
            "press": copy.deepcopy(press),
            "needs": needs,
            "source_text": _source_of(type(press)),
            "__init__": init,
            "update": PressPolicy.score,
        },
    )


def _rows_of(press: Any, otherwise: int | None) -> int | None:
    """How many last rows of attention a press reads, of those known to read some."""
    presses = importlib.import_module("kvpress")
    if isinstance(press, presses.SnapKVPress):
        return press.window_size
    return 1 if isinstance(press, presses.TOVAPress) else otherwise


def _needs_of(press: Any) -> Needs:
    """Tries the press on made-up tokens. UsageError if it needs what a policy cannot give."""
    found: list[Needs] = []
    failure = None
    for tokens in _TRIED_TOKENS:
        try:
            found.append(_tried(press, tokens))
        except PressFailure as error:
            failure = error
            if error.is_final:
                break
    if not found or (failure is not None and failure.is_final):
        raise UsageError(f"{type(press).__name__}: {failure}")
    return Needs(
        None if any(each.rows is None for each in found) else max(each.rows for each in found),
        any(each.values for each in found),
        any(each.queries for each in found),
    )


def _tried(press: Any, tokens: int) -> Needs:
    """What the press reads of so many tokens: attention if it is known to, or fails without."""
    rows = _rows_of(press, 0)
    try:
        return _tried_with(press, tokens, rows)
    except PressFailure as error:
        if error.is_final or rows != 0:
            raise
    return _tried_with(press, tokens, None)


def _tried_with(press: Any, tokens: int, rows: int | None) -> Needs:
    heads, dim = 2, 8
    random = np.random.default_rng(0)
    press = copy.deepcopy(press)
    press.compression_ratio = 0.5
    keys, values = random.standard_normal((2, tokens, dim), dtype=np.float32)
    queries = random.standard_normal((heads, tokens, dim), dtype=np.float32)
    attention = None
    if rows != 0:
        attention = np.tril(random.random((tokens, tokens), dtype=np.float32))
        attention = (attention / attention.sum(1, keepdims=True))[-(rows or tokens) :]
    used: set[str] = set()

    def scores(values):
        return call_press(press, keys, values, attention, queries, default_rotation(dim), used)

    found = scores(values)
    if not np.array_equal(found, scores(values)):
        raise PressFailure("its scores differ from call to call; give it a seed", is_final=True)
    reads_values = not np.array_equal(found, scores(np.full_like(values, np.nan)))
    return Needs(rows, reads_values, "queries" in used)


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
            *(inspect.Parameter(name, keyword, default=value) for name, value in settings.items()),
        ]
    )


def _source_of(cls: type) -> str:
    """The text by which rows know that a press changed."""
    try:
        return inspect.getsource(cls)
    except (OSError, TypeError):
        return f"{cls.__module__}.{cls.__qualname__}"
