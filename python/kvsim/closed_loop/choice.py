"""Which policies a loop runs, and which it refuses."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from .. import _engine
from ..errors import KvsimWarning, UsageError

# Why a loop cannot run a policy with these flags (those of _engine.specs); None: it can.
Refuse = Callable[[dict[str, object]], str | None]


def refused_by_imposed(flags: dict[str, object]) -> str | None:
    """Only tokens that stay or leave can be imposed on a model's own attention."""
    if flags["is_estimator"]:
        return "an estimator keeps no set of tokens that could be imposed"
    if flags["is_quantised"]:
        return "what is imposed are tokens that stay or leave, not the numbers of +quant"
    if flags["has_store"]:
        return "what is imposed are tokens that stay or leave, not how their numbers are stored"
    if flags["has_rest"]:
        return "what is imposed are tokens that stay or leave, not the entry of +rest"
    if flags["slot_positions"]:
        return "positions=slot rotates keys anew, which an imposed set of tokens does not"
    return None


def refused_policies(policies: list[str], allocate: str, loop: str, refuse: Refuse) -> set[str]:
    """The canonical specs of `policies` that the loop cannot run, all of them part of a list.

    Warns of them. Raises UsageError for one that is written out, and if nothing is left.
    """
    refused: dict[str, str] = {}
    specs = _engine.specs(policies, allocate)
    for flags in specs:
        reason = refuse(flags)
        if reason is None:
            continue
        if flags["came_from_list"] is None:
            cure = f"; use {_other(loop, flags)}" if _other(loop, flags) else ""
            raise UsageError(f"loop={loop} does not run {flags['text']}: {reason}{cure}")
        refused[str(flags["text"])] = str(flags["name"])
    if specs and len(refused) == len(specs):
        raise UsageError(f"loop={loop} runs none of {';'.join(policies)}; name others")
    if refused:
        lists = sorted({str(flags["came_from_list"]) for flags in specs} - {"None"})
        warnings.warn(
            f"{' and '.join(lists)} leaves out what loop={loop} does not run: "
            f"{', '.join(sorted(refused.values()))}",
            KvsimWarning,
            stacklevel=4,
        )
    return set(refused)


def _other(loop: str, flags: dict[str, object]) -> str:
    """The loop that runs it, if another one does."""
    if loop == "imposed":
        return "" if flags["is_oracle"] or flags["sees_full_attention"] else "loop=adaptive"
    return "loop=imposed" if refused_by_imposed(flags) is None else ""
