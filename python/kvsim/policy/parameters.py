"""The parameters of a policy's spec, from the keyword arguments of its class."""

import inspect
import typing
from dataclasses import dataclass
from typing import Any, Literal

_SEPARATORS = ",;+@{}"


@dataclass(frozen=True)
class Parameter:
    """One parameter: `kind` is real, integer, choice or text; the default as a spec has it."""

    name: str
    kind: str
    default: float | int | str
    choices: tuple[str, ...] = ()
    is_bool: bool = False

    def value(self, word: float | int | str) -> Any:
        """What `__init__` gets for a value of the spec."""
        return word == "yes" if self.is_bool else word


def parameters_of(cls: type) -> list[Parameter]:
    """The arguments of `cls.__init__` after `budget` and `seed`.

    Raises TypeError, naming class and argument, for one that a spec cannot express.
    """
    arguments = _arguments(cls)
    if not arguments or arguments[0].name != "budget":
        raise TypeError(f"{cls.__qualname__}.__init__: expected budget as its first argument")
    hints = _hints(cls)
    return [
        _parameter(cls, argument, hints.get(argument.name, inspect.Parameter.empty))
        for argument in arguments[1:]
        if argument.name != "seed"
    ]


def parameters_of_keywords(cls: type) -> list[Parameter]:
    """The same of a class whose `__init__` has parameters alone, and perhaps the seed."""
    hints = _hints(cls)
    return [
        _parameter(cls, argument, hints.get(argument.name, inspect.Parameter.empty))
        for argument in (_arguments(cls) if cls.__init__ is not object.__init__ else [])
        if argument.name != "seed"
    ]


def is_given_seed(cls: type) -> bool:
    """Whether `cls.__init__` asks for the seed."""
    return any(argument.name == "seed" for argument in _arguments(cls))


def _arguments(cls: type) -> list[inspect.Parameter]:
    return list(inspect.signature(cls.__init__).parameters.values())[1:]


def _hints(cls: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls.__init__)
    except (
        NameError,
        TypeError,
    ):  # an annotation that names what is not there: the default decides
        return {}


def _parameter(cls: type, argument: inspect.Parameter, hint: Any) -> Parameter:
    where = f"{cls.__qualname__}.__init__: {argument.name}"
    if argument.kind not in (argument.POSITIONAL_OR_KEYWORD, argument.KEYWORD_ONLY):
        raise TypeError(f"{where}: expected an argument with a name, found {argument}")
    if argument.name == "preset":
        raise TypeError(f"{where}: expected another name; specs use this one")
    default = argument.default
    if default is argument.empty:
        raise TypeError(f"{where}: expected a default, as every parameter of a policy has one")
    if typing.get_origin(hint) is Literal:
        return _choice(where, argument.name, typing.get_args(hint), default)
    wanted = hint if hint in (bool, int, float, str) else type(default)
    if wanted is bool and isinstance(default, bool):
        return Parameter(argument.name, "choice", "yes" if default else "no", ("no", "yes"), True)
    if isinstance(default, bool):
        wanted = None
    if wanted is int and isinstance(default, int):
        return Parameter(argument.name, "integer", default)
    if wanted is float and isinstance(default, int | float):
        return Parameter(argument.name, "real", float(default))
    if wanted is str and isinstance(default, str):
        _check_text(where, default)
        return Parameter(argument.name, "text", default)
    raise TypeError(
        f"{where}: expected a float, int, bool or str, or a Literal of words, found {default!r}"
    )


def _choice(where: str, name: str, choices: tuple, default: Any) -> Parameter:
    if not all(isinstance(choice, str) for choice in choices) or default not in choices:
        raise TypeError(f"{where}: expected words in Literal and one of them as the default")
    for choice in choices:
        _check_text(where, choice)
    return Parameter(name, "choice", default, choices)


def _check_text(where: str, text: str) -> None:
    if any(separator in text for separator in _SEPARATORS) or text != text.strip():
        raise TypeError(f"{where}: expected text without '{_SEPARATORS}', found {text!r}")
