"""Selectors written in Python: a class with `choose` chooses what a step attends to."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from . import packages
from .code import code_of
from .parameters import is_given_seed, parameters_of_keywords


@dataclass(frozen=True)
class SelectorStep:
    """One step of kvsim.fetch, as a selector's `choose` sees it. Arrays are read-only.

    Attributes
    ----------
    index : int
        Its number, from 0.
    pages : ndarray, int32, shape (c,)
        Ascending: the older pages that the step may attend to; page i holds the tokens i * page to
        (i + 1) * page - 1.
    attention : ndarray, float64, shape (c,)
        The full attention to each of them, mean over the group's query heads. A method for a device
        does without.
    queries : ndarray, float32, shape (group, head_dim)
        After positional rotation.
    keys : ndarray, float32, shape (index + 1, head_dim)
        Those of all tokens so far.
    """

    index: int
    pages: np.ndarray
    attention: np.ndarray
    queries: np.ndarray
    keys: np.ndarray


class Selector:
    """Chooses the pages of older tokens that each step of kvsim.fetch attends to.

    Attributes
    ----------
    name : str
        Of specs; by default that of the class, in lower case.
    chooses : str
        What it does, for people; the first line of the docstring, if there is one.
    source : str
        The paper, for people.
    scale : float
        Of the trace: a logit is scale * <query, key>. Set before `__init__`.

    Notes
    -----
    The arguments of `__init__` are the parameters of its spec: float, int, bool, str, or a Literal
    of words, each with a default. `page` is there in any case, in tokens; `k`, if it is one, is how
    many tokens a step attends to at most, rounded up to pages, and lets sizes be checked before the
    work. `seed`, if it is one, is that of the unit. For each KV head one object sees the steps in
    order, in prefill mode those after the prompt.

    Examples
    --------
    >>> class Strided(kvsim.Selector):
    ...     name = "strided"
    ...
    ...     def __init__(self, k=64, page=16, stride=4):
    ...         self.count, self.stride = -(-k // page), stride
    ...
    ...     def choose(self, step):
    ...         return step.pages[:: -self.stride][: self.count]
    >>> kvsim.fetch(trace, [Strided, "strided:stride=8", "quest"], resident="50%")
    """

    name: ClassVar[str]
    chooses: ClassVar[str] = ""
    source: ClassVar[str] = ""
    scale: float = 1.0

    def choose(self, step: SelectorStep) -> Any:
        """Returns the pages that the step attends to, out of `step.pages`.

        Parameters
        ----------
        step : SelectorStep
            What the step sees.

        Returns
        -------
        array_like, int, one dimension
            Numbers of pages, in any order.
        """
        raise NotImplementedError

    def end_page(self, keys: np.ndarray) -> None:
        """Called when a page is complete, in order and before the next step chooses.

        The place to sum the page up.

        Parameters
        ----------
        keys : ndarray, float32, shape (page, head_dim)
            Those of its tokens.
        """

    def summary_bytes(self, num_tokens: int, head_dim: int, element_bytes: int) -> int:
        """What the device holds at the end of a text in order to choose, per KV head.

        Parameters
        ----------
        num_tokens : int
            Of the text.
        head_dim : int
            Dimensions of a key.
        element_bytes : int, bytes
            Of a number of a key.

        Returns
        -------
        int, bytes
            By default 0.
        """
        return 0

    def _step(self, step: SelectorStep) -> Any:
        """Ends the pages before that of the step, then chooses. The engine calls this method."""
        page = self._page
        while (self._ended + 1) * page <= step.index:
            first = self._ended * page
            self._ended += 1
            self.end_page(step.keys[first : first + page])
        return self.choose(step)

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "name" not in vars(cls):
            cls.name = cls.__name__.lower()
        if cls.choose is not Selector.choose:
            _register(cls)


def registered_selector(name: str) -> type[Selector] | None:
    """The class of a selector; None if it is not written in Python."""
    return _registered.get(name)


_registered: dict[str, type[Selector]] = {}


def _register(cls: type[Selector]) -> None:
    from .. import _engine

    if not isinstance(cls.name, str):
        raise TypeError(f"{cls.__qualname__}: name: expected a text, found {cls.name!r}")
    cls._kvsim_parameters = tuple(parameters_of_keywords(cls))
    _engine.register_python_selector(
        cls,
        name=cls.name,
        chooses=cls.chooses or inspect.cleandoc(vars(cls).get("__doc__") or "").partition("\n")[0],
        source=cls.source,
        code=packages.code_with_package(
            code_of(cls, Selector), packages.package_of(cls, packages.SELECTORS)
        ),
        parameters=[(p.name, p.kind, p.default, list(p.choices)) for p in cls._kvsim_parameters],
    )
    _registered[cls.name] = cls


def selector_name(cls: type[Selector]) -> str:
    """The spec of a class that is passed to kvsim.fetch; another class of its name gives way to it.

    Raises TypeError for another class, and for one without `choose`.
    """
    if not issubclass(cls, Selector) or cls.choose is Selector.choose:
        raise TypeError(f"{cls.__qualname__}: expected a class below kvsim.Selector with choose")
    if _registered.get(cls.name) is not cls:
        _register(cls)
    return cls.name


def make_selector(
    cls: type[Selector], values: dict, seed: int, scale: float, page: int
) -> Selector:
    """Makes the object for one unit. The engine calls this function."""
    keywords = {p.name: p.value(values[p.name]) for p in cls._kvsim_parameters}
    if is_given_seed(cls):
        keywords["seed"] = seed
    selector = cls.__new__(cls)
    selector.scale, selector._page, selector._ended = scale, page, 0
    selector.__init__(**keywords)
    return selector


def chosen_pages(found: Any) -> list[int]:
    """What `choose` returned, ascending and each once. Raises ValueError if it is no list of whole
    numbers. The engine calls this function."""
    pages = np.asarray([] if found is None else found)
    if pages.ndim != 1 or (pages.size > 0 and pages.dtype.kind not in "iu"):
        raise ValueError(f"choose: expected page numbers in one dimension, found {found!r}")
    return np.unique(pages).tolist()
