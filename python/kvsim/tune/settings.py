"""What a search takes, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import _engine
from ..errors import UsageError
from ..trace import Trace
from ..verbs.options import protocol_from
from .space import DEFAULT as DEFAULT_SPACE

_LONG_TEXT = 1_000_000  # tokens: any share of it is a budget
# The field's simple policies, at the defaults of their parameters.
DEFAULTS = ("window", "sink", "h2o", "tova", "snapkv", "vatp", "lru")
# By what is measured, the cost that the optimum makes small: its losses add up over missing tokens.
# In running models that of least attention lost was seen to lose less than that of predicted KL.
_COSTS = {"predicted_kl": "predicted", "attention_loss": "mass", "kl_mean": "mass"}


def traces_of(source: object) -> list[Trace] | None:
    """The traces that a source names; None: it is a model."""
    if isinstance(source, (str, Path)):
        is_trace = str(source).endswith((".h5", ".hdf5"))
        return [Trace(source)] if is_trace else None
    if isinstance(source, Trace):
        return [source]
    if isinstance(source, Sequence):
        if not source:
            raise UsageError("source: expected a trace or a model, found an empty list")
        return [each if isinstance(each, Trace) else Trace(each) for each in source]
    return None


def refusal(has_model: bool, page: int = 1) -> Any:
    """Why a search cannot use a spec with these flags; None: it can."""

    def why_not(flags: dict[str, object]) -> str | None:
        if flags["is_oracle"]:
            return f"{flags['name']} sees the future, which no cache does"
        if not flags["is_bounded"]:
            return f"{flags['text']} does not keep to a budget, so that it would win"
        if flags["selects"]:
            return f"{flags['text']} keeps every token"
        if page != 1 and flags["allocation"] != "uniform":
            return f"@{flags['allocation']} does not come to whole pages"
        if has_model:
            from ..closed_loop.choice import refused_by_imposed

            return refused_by_imposed(flags)
        return None

    return why_not


def whole(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name}: expected a whole number from {least} on, found {value!r}")
    return value


def space_text(space: str | Sequence[str] | None, page: int) -> str:
    """None: the default space, without splits where there are pages."""
    if space is None:
        entries = DEFAULT_SPACE.split(";")
        return ";".join(entry for entry in entries if page == 1 or entry[0] != "@")
    entries = [space] if isinstance(space, str) else list(space)
    if not all(isinstance(entry, str) for entry in entries):
        raise UsageError(f"space: expected specs as texts, found {space!r}")
    return ";".join(entries)


def budget_text(budget: str | float) -> str:
    """One budget as the engine takes it. Raises UsageError for a list."""
    text = str(budget).strip()
    if not text or any(mark in text for mark in (",", "..")):
        raise UsageError(f"budget: expected one, such as 20%, 64 or 64KiB, found '{budget}'")
    return text


def budgets_around(budget: str, page: int) -> list[str]:
    """Half a budget, the budget, and twice as much, where they are budgets and differ."""
    found = [budget]
    number = budget.rstrip("%KiMGkB")
    unit = budget[len(number) :]
    try:
        value = float(number)
    except ValueError:
        return found
    if unit == "" and "." in number:  # a share
        value, unit = 100 * value, "%"
    for factor in (0.5, 2):
        scaled = value * factor
        if unit == "%" and scaled < 100:
            found.append(f"{scaled:g}%")
        elif unit == "" and scaled >= 2 * page and scaled % page == 0:
            found.append(f"{int(scaled)}")
        elif unit not in ("", "%"):
            found.append(f"{scaled:g}{unit}")
    return found


def check_budgets(budgets: Sequence[str], protocol: Mapping[str, Any]) -> None:
    """Raises UsageError for what is no budget, before a search has spent hours on others."""
    of = protocol_from(dict(protocol))
    sizes = [each for each in budgets if _engine.bytes_of_size(each) is None]
    _engine.budgets_of(sizes, of, _LONG_TEXT, _LONG_TEXT // 2)


def check_name(name: str | None) -> None:
    """Raises UsageError for a name that a spec cannot have as its label."""
    if name is not None:
        _engine.specs([f"{name}=lru"], "uniform")


def canonical(specs: Sequence[str], allocate: str = "uniform") -> list[str]:
    return [str(flags["text"]) for flags in _engine.specs(list(specs), allocate)]


def optimum(loss: str) -> str:
    (spec,) = canonical([f"optimal:cost={_COSTS.get(loss, 'value')}"])
    return spec
