"""What a policy says of itself before the first step, and what it may be shown."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal


class TokenKind(enum.IntEnum):
    """What `step.kinds` holds. Without token text the first token is special, all others words."""

    __module__ = "kvsim.policy.policy"  # where pickles and digests of code have it

    WORD = 0
    PUNCTUATION = 1
    SPECIAL = 2


@dataclass(frozen=True)
class Rules:
    """What the engine reads of a policy before the first step; the fields are those of C++.

    Rules may depend on the parameters and the budget, on nothing else.

    Parameters
    ----------
    protect_first : int, tokens, default 0
        This many first tokens of the text are never candidates.
    protect_newest : int, tokens, default 0
        This many newest tokens are never candidates.
    drop : int, tokens, default 1
        Tokens evicted at once, repeated until the budget holds.
    bounded : bool, default True
        False: the budget does not apply, nothing is evicted.
    prunes : bool, default False
        Candidates scored minus infinity leave even while the budget holds.
    selects : bool, default False
        Keep every token; `update` comes before the attention of the step, and the step attends to
        its own token and the `budget` older ones with the highest scores. Needs
        `sees_full_attention`; the cache is not bounded then.
    prompt_only : bool, default False
        Score the prompt alone; replayed with mode="prefill", eviction_interval="never" only.
    ignores_interval : bool, default False
        Prune after every step, whatever the eviction interval.
    scope : {"head", "layer", "model"}, default "head"
        "head": one object decides for one KV head; "layer": for all KV heads of a layer, which keep
        the same tokens, by their mean attention; "model": for all layers, updated layer by layer at
        every step, and a token that leaves a layer leaves all later ones.
    sees_full_attention : bool, default False
        Fill `step.full_attention`.
    sees_keys : bool, default False
        A C function gets the keys; `step.keys` of Python is always there.
    sees_kinds : bool, default False
        Fill `step.kinds`; not for C functions.
    sees_values : bool, default False
        Fill `step.values`.
    sees_queries : bool, default False
        Fill `step.queries`.
    sees_rotation : bool, default False
        Set `self.rotation`; needs a trace that says how keys were rotated.
    slot_positions : bool, default False
        Rotate keys to their slot in the cache, as if evicted tokens had never existed; needs such a
        trace, too.

    Raises
    ------
    TypeError
        For a field of another type.
    ValueError
        For a field out of range, or for `selects` without `sees_full_attention`.

    Examples
    --------
    >>> class Mine(kvsim.Policy):
    ...     def __init__(self, budget, seed=0, recent=8):
    ...         self.rules = kvsim.Rules(protect_newest=recent)
    """

    __module__ = "kvsim.policy"  # a pickle of it is in digests of code: it must not change

    protect_first: int = 0
    protect_newest: int = 0
    drop: int = 1
    bounded: bool = True
    prunes: bool = False
    selects: bool = False
    prompt_only: bool = False
    ignores_interval: bool = False
    scope: Literal["head", "layer", "model"] = "head"
    sees_full_attention: bool = False
    sees_keys: bool = False
    sees_kinds: bool = False
    sees_values: bool = False
    sees_queries: bool = False
    sees_rotation: bool = False
    slot_positions: bool = False

    def __post_init__(self) -> None:
        for name, least in (("protect_first", 0), ("protect_newest", 0), ("drop", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not hasattr(value, "__index__"):
                raise TypeError(f"Rules: {name}: expected a whole number, found {value!r}")
            if not least <= value < 2**31:
                raise ValueError(f"Rules: {name}: expected at least {least}, found {value}")
            object.__setattr__(self, name, int(value))
        if self.scope not in ("head", "layer", "model"):
            raise ValueError(f"Rules: scope: expected head, layer or model, found {self.scope!r}")
        for name, field in self.__dataclass_fields__.items():
            if isinstance(field.default, bool) and not isinstance(getattr(self, name), bool):
                raise TypeError(f"Rules: {name}: expected a bool, found {getattr(self, name)!r}")
        if self.selects and not self.sees_full_attention:
            raise ValueError("Rules: a policy that selects sees_full_attention; say so, too")


@dataclass(frozen=True)
class Rotation:
    """How the recorded model rotates queries and keys by their position.

    Attributes
    ----------
    inverse_frequency : tuple of float, length rotary_dim / 2
        Radians per token, of each pair of dimensions.
    interleaved : bool
        Pairs dimensions 2i and 2i + 1, not i and i + rotary_dim / 2.
    attention_factor : float
        As `transformers` has it.
    """

    __module__ = "kvsim.policy.policy"  # where pickles and digests of code have it

    inverse_frequency: tuple[float, ...]
    interleaved: bool
    attention_factor: float
