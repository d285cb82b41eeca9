"""Policies written in Python: a class with `update` on numpy arrays is a policy."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from . import packages
from .c_function import address_of
from .code import code_of
from .parameters import is_given_seed, parameters_of
from .rules import Rotation, Rules
from .rules import TokenKind as TokenKind  # pickles look for it here

if TYPE_CHECKING:
    from .. import _engine


class Policy:
    """The base class of policies: a class below it that has `update` is a policy of that name.

    Parameters
    ----------
    budget : int, tokens
        What the cache of the object may hold.
    seed : int, default 0
        Of the unit; set if `__init__` has a parameter of that name.

    Attributes
    ----------
    name : str
        In specs; the class's name in small letters, unless the class says another.
    rules : Rules
        Of the class, of the object, or a property.
    nests : bool, default False
        True: at every step the tokens kept at one budget are a subset of those kept at any larger
        budget, so that `kvsim.curve` may follow all budgets at once. That holds if neither the
        scores nor the number of protected tokens depend on the budget or on what the cache holds:
        score by `full_attention`, not by `attention`.
    keeps : str
        What stays in the cache, in one line, for `kvsim.policies`; the first line of the docstring,
        if there is one.
    source : str
        Where the policy is from, for `kvsim.policies`.
    presets : dict of str to str
        Names of settings, as in `{"paper": "decay=0.5"}` for `mine:preset=paper`.
    scale : float
        Of the trace: a logit is scale * <query, key>. Set before `__init__`; when an object is made
        for its rules alone, 1.0.
    rotation : Rotation or None
        Of the trace, if the rules ask for it. Set before `__init__`; when an object is made for its
        rules alone, None.

    Notes
    -----
    `__init__` takes the budget in tokens, the seed of the unit if it has a parameter of that name,
    and the policy's own parameters, each with a default: a float, an int, a bool (`yes` or `no` in
    a spec), a str, or one of several words (`kind: Literal["sum", "mean"] = "sum"`). One object
    follows one replay of one unit, or of what `rules.scope` says. The engine also makes objects to
    read their rules, with other budgets than those that are asked for, down to 1.

    A class that is defined again, as in a notebook's cell, replaces the earlier one of that name. A
    class without `update` is no policy, but a base of some.

    Examples
    --------
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

        The candidates with the lowest scores leave, the lower text position first among equals.

        Parameters
        ----------
        step : Step
            What the step sees. Arrays belong to the step: at the next one they show other data.
            Copy what is to stay.
        scores : ndarray, float64, writable, shape (num_tokens,)
            Parallel to `step.tokens`: the score written at the previous step, 0 for the token that
            has just arrived. Scores must not be NaN.

        Notes
        -----
        In place of a method, `update` may be a C function: see `kvsim.update_signature`.
        """
        raise NotImplementedError

    @classmethod
    def read_text(cls, model: Any, ids, prompt_length: int) -> None:
        """Lets a class run the model, which its objects do not see, and keep what it finds.

        `kvsim.evaluate` with loop="imposed" calls it before it replays a text; after the text it is
        called again, without tokens.

        Parameters
        ----------
        model : transformers.PreTrainedModel
            The model that reads the text.
        ids : ndarray, int32, shape (n,)
            The tokens of the text.
        prompt_length : int, tokens
            Of the n tokens, the prompt.
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
    cls._kvsim_code = code or _code_of(cls)
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
    code = _code_of(cls)  # its attributes may have changed since
    if _registered.get(cls.name) is not cls or cls._kvsim_code != code:
        register(cls, code)
    return cls.name


def _code_of(cls: type[Policy]) -> str:
    package = packages.package_of(cls, packages.POLICIES)
    return packages.code_with_package(code_of(cls, Policy), package)


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
