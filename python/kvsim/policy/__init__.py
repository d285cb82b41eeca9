"""Policies: those written in Python, those of plug-ins, and the list of all there are.

In: a class below `Policy`, a C function, a shared library. Out: a policy that the engine knows by
its name, with parameters and a digest of its code. Read first: `policy.py` and `rules.py`;
`parameters.py` and `code.py` read the class, `c_function.py` takes a compiled `update`, `plugin.py`
loads libraries, `packages.py` knows what installed packages declare, and `entry_points.py` loads
it; `registry.py` lists policies, `specs.py` completes their specs, `listing.py` answers the
program. `selector.py` is the same for selectors of `kvsim.fetch`. The engine finds here by name
what it calls: `make`, `rules_of`, `add_note`, `find_policy`, `find_selector`, `make_selector`,
`SelectorStep` and `chosen_pages`.
"""

from .entry_points import find_policy, find_selector
from .policy import (
    Policy,
    add_note,
    make,
    name_of,
    register,
    registered,
    registered_here,
    registering_nothing,
    rules_of,
)
from .rules import Rotation, Rules, TokenKind
from .selector import Selector, SelectorStep, chosen_pages, make_selector, selector_name

__all__ = [
    "Policy",
    "Rotation",
    "Rules",
    "Selector",
    "SelectorStep",
    "TokenKind",
    "add_note",
    "chosen_pages",
    "find_policy",
    "find_selector",
    "make",
    "make_selector",
    "name_of",
    "register",
    "registered",
    "registered_here",
    "registering_nothing",
    "rules_of",
    "selector_name",
]
