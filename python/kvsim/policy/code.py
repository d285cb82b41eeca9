"""A digest of a policy's source text: what `policy_code` of its rows comes from."""

import hashlib
import inspect
import pickle
import secrets
import textwrap
import types
from typing import Any

# What Python adds to a class, and what only the listing shows.
_IGNORED = {
    "__annotations__", "__dict__", "__doc__", "__firstlineno__", "__module__", "__qualname__",
    "__static_attributes__", "__weakref__", "__annotate__", "__annotate_func__",
    "__annotations_cache__", "__abstractmethods__", "_abc_impl",
    "name", "keeps", "source", "presets", "_kvsim_code", "_kvsim_package",
    "_kvsim_parameters",
}  # fmt: skip

_PROCESS = secrets.token_hex(8)
_known_here: dict[int, object] = {}


def code_of(cls: type, below: type) -> str:
    """The digest of `cls` and its bases below `below`: of their methods' source text and the values
    of their other attributes.

    Where Python has no source, as for a class typed at its prompt, the compiled code counts. It
    does not see what methods use from elsewhere: functions and variables of the module.
    """
    digest = hashlib.sha256()
    for base in cls.__mro__[: cls.__mro__.index(below)]:
        for line in _lines_of(base):
            digest.update(line.encode() + b"\n")
    return digest.hexdigest()


def _lines_of(cls: type) -> list[str]:
    own = vars(cls)
    return [f"{name} = {_text_of(own[name])}" for name in sorted(own) if name not in _IGNORED]


def _text_of(value: Any) -> str:
    if isinstance(value, types.FunctionType):
        return _text_of_function(value)
    if isinstance(value, staticmethod | classmethod):
        return _text_of(value.__func__)
    if isinstance(value, property):
        return " ".join(_text_of(part) for part in (value.fget, value.fset, value.fdel))
    for inner in ("py_func", "_pyfunc", "func", "__wrapped__"):  # numba's, and of decorators
        if isinstance(getattr(value, inner, None), types.FunctionType):
            return _text_of_function(getattr(value, inner))
    if isinstance(value, type):
        return " ".join([value.__qualname__, *_lines_of(value)])
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_text_of, value))})"
    if isinstance(value, set | frozenset):
        return f"({', '.join(sorted(map(_text_of, value)))})"
    if isinstance(value, dict):
        return f"({', '.join(f'{_text_of(key)}: {_text_of(of)}' for key, of in value.items())})"
    if isinstance(value, types.ModuleType):
        return value.__name__
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return repr(value)
    return _text_of_object(value)


def _text_of_function(function: types.FunctionType) -> str:
    text = _source_of(function)
    enclosed = [_contents(cell) for cell in function.__closure__ or ()]
    values = (function.__defaults__, function.__kwdefaults__, *enclosed)
    return " ".join([text, *map(_text_of, values)])


def _source_of(function: types.FunctionType) -> str:
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return _text_of_code(function.__code__)


def _contents(cell: types.CellType) -> Any:
    """What a function takes from the function around it; a class (as `super()` does) by name."""
    try:
        contents = cell.cell_contents
    except ValueError:  # not set yet: the class that is being made
        return None
    if isinstance(contents, types.FunctionType):  # it may enclose itself
        return _source_of(contents)
    return contents.__qualname__ if isinstance(contents, type) else contents


def _text_of_code(code: types.CodeType) -> str:
    constants = [
        _text_of_code(value) if isinstance(value, types.CodeType) else _text_of(value)
        for value in code.co_consts
    ]
    return " ".join([code.co_code.hex(), *code.co_names, *code.co_varnames, *constants])


def _text_of_object(value: Any) -> str:
    """A dataclass, an array, an object: by what pickle writes. One that has no such form, as a
    function of ctypes, is known in this process alone: rows of another are made again."""
    try:
        return hashlib.sha256(pickle.dumps(value, protocol=4)).hexdigest()
    except Exception:  # whatever an object raises that is not made for pickle
        _known_here[id(value)] = value  # so that no other object gets its number
        return f"{type(value).__qualname__} {_PROCESS} {id(value)}"
