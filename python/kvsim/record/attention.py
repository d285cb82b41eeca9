"""Intercepts the attention calls of a model through the AttentionInterface of transformers."""

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import AttentionInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .errors import RecordError, RecordWarning

PREFIX = "kvsim_"  # of the registered name; the name of the attention that computes follows
SOFTCAP = "attn_logit_softcapping"


Vectors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # query, key, value
Attention = Callable[..., tuple[torch.Tensor, torch.Tensor | None]]
# Receives one call: the module, its vectors, the output, the mask and the options.
Observe = Callable[
    [torch.nn.Module, Vectors, torch.Tensor, torch.Tensor | None, dict[str, Any]], None
]

_observe: Observe | None = None


@contextmanager
def observed(model: torch.nn.Module, observe: Observe) -> Iterator[None]:
    """Calls `observe` after every attention call of the model, until the block ends.

    Then the model has its own attention again. Raises RecordError for a model that does not use
    the interface.
    """
    global _observe
    if _observe is not None:
        raise RecordError("another recording is under way; record one model at a time")
    name = type(model).__name__
    can_set = getattr(model, "_can_set_attn_implementation", None)
    if can_set is None or not can_set():
        raise RecordError(f"{name} does not use transformers' AttentionInterface")
    base = _base(model)
    own = model.config.get_text_config()._attn_implementation
    if own != base:
        warnings.warn(
            f"{name} attends with {own}; while it is recorded, with {base}", RecordWarning
        )
    implementation = PREFIX + base
    _register(implementation)
    before = [(config, config._attn_implementation) for config in _configs(model)]
    _observe = observe
    try:
        model.set_attn_implementation(implementation)
        if model.config.get_text_config()._attn_implementation != implementation:
            raise RecordError(f"{name} does not let its attention be set")
        yield
    finally:
        _observe = None
        for config, value in before:  # setting a config also sets those inside it: outermost first
            config._attn_implementation = value


def is_causal(module: torch.nn.Module, options: dict[str, Any]) -> bool:
    """Whether attention without a mask is causal. Eager attention then sees every key."""
    given = options.get("is_causal")
    causal = getattr(module, "is_causal", True) if given is None else given
    return bool(causal) and module.config._attn_implementation != PREFIX + "eager"


def _configs(model: torch.nn.Module) -> list[Any]:
    found: dict[int, Any] = {}
    for module in model.modules():
        config = getattr(module, "config", None)
        while config is not None and id(config) not in found:
            if hasattr(config, "_attn_implementation"):
                found[id(config)] = config
            config = getattr(config, "text_config", None)
    return list(found.values())


def _base(model: torch.nn.Module) -> str:
    """The name of the attention that computes: SDPA, or eager where SDPA cannot (soft caps)."""
    if model.config.get_text_config()._attn_implementation == "eager":
        return "eager"
    if any(getattr(module, SOFTCAP, None) is not None for module in model.modules()):
        return "eager"
    return "sdpa" if getattr(model, "_supports_sdpa", True) else "eager"


def _register(implementation: str) -> None:
    base = implementation.removeprefix(PREFIX)
    AttentionMaskInterface.register(implementation, ALL_MASK_ATTENTION_FUNCTIONS[base])
    AttentionInterface.register(implementation, _shown(_eager if base == "eager" else _sdpa))


def _sdpa(module: torch.nn.Module, options: dict[str, Any]) -> Attention:
    if options.get("softcap") is not None:
        raise RecordError("SDPA has no soft cap; load the model with attn_implementation='eager'")
    return ALL_ATTENTION_FUNCTIONS["sdpa"]


def _eager(module: torch.nn.Module, options: dict[str, Any]) -> Attention:
    # A module passes its eager function only as a default, which a registered name overrides.
    attend = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
    if attend is None:
        raise RecordError(f"{type(module).__name__} has no attention but a kernel's")
    return attend


def _shown(choose: Callable[[torch.nn.Module, dict[str, Any]], Attention]) -> Attention:
    """An attention function that calls the one from `choose`, then the observer."""

    def attend(
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        **options: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        vectors = query, key, value
        result = choose(module, options)(module, *vectors, attention_mask, **options)
        if _observe is not None:
            _observe(module, vectors, result[0], attention_mask, options)
        return result

    return attend
