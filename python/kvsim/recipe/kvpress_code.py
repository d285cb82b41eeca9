"""The code of a press of kvpress that keeps what a recipe keeps (python/kvpress.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .. import _engine
from ..errors import UsageError
from .file import Recipe
from .parts import Parts, parts_of

Values = Mapping[str, str]

# By policy: the spec, of the same parameters, that equals a press; and that press.
_PRESSES: dict[str, tuple[str, str, Callable[[Values], str]]] = {
    "window": ("window", "StreamingLLMPress", lambda of: "n_sink=0"),
    "sink": ("sink:sinks={sinks}", "StreamingLLMPress", lambda of: f"n_sink={of['sinks']}"),
    "knorm": ("knorm", "KnormPress", lambda of: ""),
    "keydiff": ("keydiff", "KeyDiffPress", lambda of: ""),
    "tova": ("tova:preset=paper", "TOVAPress", lambda of: ""),
    "h2o": ("h2o:preset=kvpress", "ObservedAttentionPress", lambda of: ""),
    "snapkv": (
        "snapkv:preset=code,window={window},kernel={kernel}",
        "SnapKVPress",
        lambda of: f"window_size={of['window']}, kernel_size={of['kernel']}",
    ),
    "expected-attention": (
        "expected-attention:preset=kvpress,future={future},sinks={sinks},"
        "covariance={covariance},values={values},epsilon={epsilon}",
        "ExpectedAttentionPress",
        lambda of: (
            f"n_future_positions={of['future']}, n_sink={of['sinks']}, "
            f"use_covariance={of['covariance'] == 'yes'}, use_vnorm={of['values'] == 'yes'}, "
            f"epsilon={of['epsilon']}"
        ),
    ),
}


def kvpress_code(recipe: Recipe) -> str:
    """The text of a Python module with `press`. Raises UsageError where no press is equal."""
    parts = parts_of(recipe.policy)
    if recipe.mode != "prefill" or recipe.eviction_interval != "never":
        raise _refused(
            recipe,
            f"a press compresses a prompt once, and the recipe is for mode {recipe.mode}, eviction "
            f'interval {recipe.eviction_interval}; search with mode="prefill", '
            'eviction_interval="never"',
        )
    if recipe.page != 1:
        raise _refused(recipe, f"no press keeps pages of {recipe.page} tokens")
    press, names = _press(recipe, parts)
    ratio = 1 - _share(recipe)
    with_ratio = f"{press[:-1]}{'' if press.endswith('()') else ', '}compression_ratio={ratio:.6g})"
    lines = [f'"""{recipe.policy} at {recipe.budget}, as a recipe of kvsim says."""', ""]
    wrapped = with_ratio
    for combinator in parts.combinators:
        if combinator.name != "critical":
            raise _refused(recipe, f"no press of kvpress equals +{combinator.name}")
        wrapped, names = f"CriticalKVPress({wrapped})", [*names, "CriticalKVPress"]
    if parts.split is not None:
        if parts.split.name != "adaptive":
            hint = '; to="lukv" writes its array' if parts.split.name == "file" else ""
            raise _refused(recipe, f"no press of kvpress equals @{parts.split.name}{hint}")
        if parts.combinators:
            raise _refused(recipe, "CriticalAdaKVPress is +critical@adaptive nearly, not exactly")
        wrapped, names = f"AdaKVPress({wrapped})", [*names, "AdaKVPress"]
    lines += [f"from kvpress import {', '.join(sorted(names))}", "", f"press = {wrapped}"]
    return "\n".join(lines) + "\n"


def _press(recipe: Recipe, parts: Parts) -> tuple[str, list[str]]:
    known = _PRESSES.get(parts.policy.name)
    if known is None:
        raise _refused(
            recipe, f"no press of kvpress equals {parts.policy.name}; those are {_names()}"
        )
    template, name, arguments = known
    equal = template.format(**parts.policy.parameters)
    (flags,) = _engine.specs([equal], "uniform")
    if flags["text"] != parts.base:
        raise _refused(recipe, f"{name} is {equal}, found {parts.base}")
    return f"{name}({arguments(parts.policy.parameters)})", [name]


def _names() -> str:
    return ", ".join(sorted(_PRESSES))


def _share(recipe: Recipe) -> float:
    """The budget as a share of the prompt."""
    share = recipe.amount.share
    if share is None:
        reason = f"a press takes a share of the prompt, found the budget {recipe.budget}"
        raise _refused(recipe, f"{reason}; search at a share")
    return share


def _refused(recipe: Recipe, reason: str) -> UsageError:
    return UsageError(f"recipe {recipe.path}: it has no form for kvpress: {reason}")
