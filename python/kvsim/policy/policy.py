"""Policies written in Python: a class with `update` on numpy arrays is a policy."""

from __future__ import annotations

import contextlib
import enum
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from .c_function import address_of
from .code import code_of
from .parameters import is_given_seed, parameters_of

if TYPE_CHECKING:
    from .. import _engine


class TokenKind(enum.IntEnum):
    """What `step.kinds` holds. Without token text the first token is special, all others words."""

    WORD = 0
    PUNCTUATION = 1
    SPECIAL = 2


@dataclass(frozen=True)
class Rules:
    """What the engine reads of a policy before the first step; the fields are those of C++.

    Rules may depend on the parameters and the budget, on nothing else.

    >>> class Mine(kvsim.Policy):
    ...     def __init__(self, budget, seed=0, recent=8):
    ...         self.rules = kvsim.Rules(protect_newest=recent)

    Attributes:
        protect_first: this many first tokens of the text are never candidates.
        protect_newest: this many newest tokens are never candidates.
        drop: tokens evicted at once, repeated until the budget holds.
        bounded: False: the budget does not apply, nothing is evicted.
        prunes: candidates scored minus infinity leave even while the budget holds.
        selects: keep every token; `update` comes before the attention of the step, and the step
            attends to its own token and the `budget` older ones with the highest scores. Needs
            `sees_full_attention`; the cache is not bounded then.
        prompt_only: score the prompt alone; replayed with `mode="prefill",
            eviction_interval="never"` only.
        ignores_interval: prune after every step, whatever the eviction interval.
        scope: "head": one object decides for one KV head; "layer": for all KV heads of a layer,
            which keep the same tokens, by their mean attention; "model": for all layers, updated
            layer by layer at every step, and a token that leaves a layer leaves all later ones.
        sees_full_attention: fill `step.full_attention`.
        sees_keys: a C function gets the keys; `step.keys` of Python is always there.
        sees_kinds: fill `step.kinds`; not for C functions.
        sees_values: fill `step.values`.
        sees_queries: fill `step.queries`.
        sees_rotation: set `self.rotation`; needs a trace that says how keys were rotated.
        slot_positions: rotate keys to their slot in the cache, as if evicted tokens had never
            existed; needs such a trace, too.

    Raises TypeError and ValueError for a field of another type or out of range.
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

    Attributes:
        inverse_frequency: tuple of rotary_dim / 2 numbers.
        interleaved: pairs dimensions 2i and 2i + 1, not i and i + rotary_dim / 2.
        attention_factor: as `transformers` has it.
    """

    inverse_frequency: tuple[float, ...]
    interleaved: bool
    attention_factor: float


class Policy:
    """The base class of policies: a class below it that has `update` is a policy of that name.

    >>> class Mine(kvsim.Policy):
    ...     name = "mine"
    ...     rules = kvsim.Rules(protect_newest=8)
    ...
    ...     def __init__(self, budget, seed=0, decay=0.9):
    ...         self.decay = decay
    ...
    ...     def update(self, step, scores):
    ...         scores *= self.decay
    ...         scores += step.attention
    >>> kvsim.sweep(trace, policies=["h2o", Mine, "mine:decay=0.5"], budgets=["20%"])

    `__init__` takes the budget in tokens, the seed of the unit if it has a parameter of that name,
    and the policy's own parameters, each with a default: a float, an int, a bool (`yes` or `no` in
    a spec), a str, or one of several words (`kind: Literal["sum", "mean"] = "sum"`). One object
    follows one replay of one unit, or of what `rules.scope` says. The engine also makes objects to
    read their rules, with other budgets than those that are asked for, down to 1.

    A class that is defined again, as in a notebook's cell, replaces the earlier one of that name.
    A class without `update` is no policy, but a base of some.

    Attributes:
        name: in specs; the class's name in small letters, unless the class says another.
        rules: a `Rules`, of the class, of the object, or a property.
        nests: True: at every step the tokens kept at one budget are a subset of those kept at any
            larger budget, so that `kvsim.curve` may follow all budgets at once. That holds if
            neither the scores nor the number of protected tokens depend on the budget or on what
            the cache holds: score by `full_attention`, not by `attention`.
        keeps, source: what stays in the cache, in one line, and where the policy is from; for
            `kvsim.policies()`. `keeps` is the first line of the docstring, if there is one.
        presets: names of settings, as in `{"paper": "decay=0.5"}` for `mine:preset=paper`.
        scale, rotation: of the trace: a logit is scale * <query, key>; a `Rotation`, or None. Set
            before `__init__`; when an object is made for its rules alone, 1.0 and None.
    """

    name: ClassVar[str]
    rules: Any = Rules()
    nests: ClassVar[bool] = False
    keeps: ClassVar[str] = ""
    source: ClassVar[str] = ""
    presets: ClassVar[dict[str, str]] = {}
    scale: float = 1.0
    rotation: Rotation | None = None

    def __init__(self, budget: int, seed: int = 0) -> None:
        self.budget = budget
        self.seed = seed

    def update(self, step: _engine.Step, scores) -> None:
        """Updates `scores` in place after the attention of one step.

        `scores` is a writable float64 array, parallel to `step.tokens`: the score written at the
        previous step, 0 for the token that has just arrived. The candidates with the lowest scores
        leave, the lower text position first among equals. Scores must not be NaN.

        Arrays belong to the step: at the next one they show other data. Copy what is to stay.

        In place of a method, `update` may be a C function: see `kvsim.update_signature`.
        """
        raise NotImplementedError

    @classmethod
    def read_text(cls, model: Any, ids, prompt_length: int) -> None:
        """`kvsim.evaluate` with loop="imposed" calls it before it replays a text: a class may run
        the model, which its objects do not see, and keep for them what it finds.

        `model` is that of transformers, `ids` the tokens of the text, int32 [n]; after the text it
        is called again, without tokens.
        """

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "name" not in vars(cls):
            cls.name = cls.__name__.lower()
        if cls.update is not Policy.update and not _suspended:
            register(cls)


_registered: dict[str, type[Policy]] = {}
_suspended = False


def register(cls: type[Policy], code: str | None = None) -> None:
    """Makes a class the policy of its name; `code` if its digest is known, as in another process.

    Raises TypeError for arguments of `__init__` that a spec cannot express, and UsageError for a
    name that is none or that a built-in policy has.
    """
    from .. import _engine

    if not isinstance(cls.name, str):
        raise TypeError(f"{cls.__qualname__}: name: expected a text, found {cls.name!r}")
    cls._kvsim_parameters = tuple(parameters_of(cls))
    cls._kvsim_code = code or code_of(cls, Policy)
    _engine.register_python_policy(
        cls,
        name=cls.name,
        keeps=cls.keeps or inspect.cleandoc(vars(cls).get("__doc__") or "").partition("\n")[0],
        source=cls.source,
        parameters=[(p.name, p.kind, p.default, list(p.choices)) for p in cls._kvsim_parameters],
        presets=list(cls.presets.items()),
        nests=cls.nests,
        c_function=address_of(cls.update),
        code=cls._kvsim_code,
    )
    _registered[cls.name] = cls


def registered_here(name: str) -> type[Policy] | None:
    """The class of a policy; None if it is not written in Python."""
    return _registered.get(name)


@contextlib.contextmanager
def registering_nothing() -> Iterator[None]:
    """Lets classes be made that are no policies yet."""
    global _suspended
    before, _suspended = _suspended, True
    try:
        yield
    finally:
        _suspended = before


def registered(name: str) -> type[Policy]:
    """The class of a policy written in Python."""
    return _registered[name]


def name_of(cls: type[Policy]) -> str:
    """The spec of a class that is passed to a sweep; another class of its name gives way to it.

    Raises TypeError for another class, and for one without `update`.
    """
    if not issubclass(cls, Policy):
        raise TypeError(f"{cls.__qualname__}: expected a class below kvsim.Policy")
    if cls.update is Policy.update:
        raise TypeError(f"{cls.__qualname__}: expected a policy; this class has no update")
    code = code_of(cls, Policy)  # its attributes may have changed since
    if _registered.get(cls.name) is not cls or cls._kvsim_code != code:
        register(cls, code)
    return cls.name


def make(cls: type[Policy], budget: int, seed: int, values: dict, scale: float, rotation) -> Policy:
    """Makes the object for one replay. The engine calls this function."""
    keywords = {p.name: p.value(values[p.name]) for p in cls._kvsim_parameters}
    if is_given_seed(cls):
        keywords["seed"] = seed
    policy = cls.__new__(cls)
    policy.scale = scale
    policy.rotation = None if rotation is None else Rotation(*rotation)
    policy.__init__(budget, **keywords)
    return policy


def rules_of(policy: Policy) -> Rules:
    """The rules of a policy. Raises TypeError if they are not kvsim.Rules."""
    if not isinstance(policy.rules, Rules):
        raise TypeError(f"rules: expected kvsim.Rules, found {policy.rules!r}")
    return policy.rules


def add_note(error: BaseException, note: str) -> None:
    """Adds a note to an error, as `add_note` of Python 3.11 does."""
    if hasattr(error, "add_note"):
        error.add_note(note)
    else:
        error.__notes__ = [*getattr(error, "__notes__", ()), note]
