"""Policies: those written in Python, those of plug-ins, and the list of all there are.

In: a class below `Policy`, a C function, a shared library. Out: a policy that the engine knows by
its name, with parameters and a digest of its code. Read first: `policy.py`; `parameters.py` and
`code.py` read the class, `c_function.py` takes a compiled `update`, `plugin.py` loads libraries,
`registry.py` lists policies. The engine finds here by name what it calls: `make`, `rules_of` and
`add_note`.
"""

from .policy import (
    Policy,
    Rotation,
    Rules,
    TokenKind,
    add_note,
    make,
    name_of,
    register,
    registered,
    registering_nothing,
    rules_of,
)

__all__ = [
    "Policy",
    "Rotation",
    "Rules",
    "TokenKind",
    "add_note",
    "make",
    "name_of",
    "register",
    "registered",
    "registering_nothing",
    "rules_of",
]
