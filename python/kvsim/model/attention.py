"""Intercepts the attention calls of a model through the AttentionInterface of transformers."""

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from transformers import AttentionInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from ..errors import RecordError, RecordWarning
from .selection import selection_of_mask, take_selection

PREFIX = "kvsim_"  # of the registered name; the name of the attention that computes follows
SOFTCAP = "attn_logit_softcapping"


Result = tuple[torch.Tensor, torch.Tensor | None]  # output [batch, tokens, heads, dim]; weights
Attention = Callable[..., Result]


@dataclass(frozen=True)
class Call:
    """One attention call of a model: vectors are [batch, heads, tokens, dim]."""

    module: torch.nn.Module
    query: torch.Tensor
    key: torch.Tensor  # of the cache, too; the new tokens are the last
    value: torch.Tensor
    mask: torch.Tensor | None  # of what the model selects, too
    options: dict[str, Any]
    attention: Attention  # what computes it
    # Of a module that may select what it sees: that of the whole call, [batch, queries, keys].
    selected: torch.Tensor | None = None
    outer_mask: torch.Tensor | None = None  # before the selection, where that is known

    def attend(self) -> Result:
        """Computes what the model would."""
        vectors = self.query, self.key, self.value
        return self.attention(self.module, *vectors, self.mask, **self.options)

    def part(self, members: slice, rows: slice, columns: slice) -> "Call":
        """The call of some members of the batch, some of the queries and some of the keys."""
        mask = self.mask
        if mask is not None:
            mask = (mask if mask.shape[0] == 1 else mask[members])[:, :, rows, columns]
        return replace(
            self,
            query=self.query[members, :, rows],
            key=self.key[members, :, columns],
            value=self.value[members, :, columns],
            mask=mask,
        )

    def attend_to(self, visible: torch.Tensor) -> Result:
        """The same to what `visible` shows, and not to what the model's own mask shows.

        `visible` is boolean, [batch, KV heads, queries, keys]: the query heads of a KV head see the
        same. Each query has to see a key, but where the module may select: one that sees none has
        the output 0.

        KV heads stand in the place of the batch, and the query heads of each in that of the heads,
        so that a mask is made once for the heads that share it; unless the module has a learned
        sink for each of its query heads.
        """
        if self.selected is not None:
            return self._attend_where_any(visible)
        batch, num_kv_heads = visible.shape[:2]
        if self.options.get("s_aux") is not None:
            mask = visible.repeat_interleave(self.query.shape[1] // num_kv_heads, dim=1)
            vectors = self.query, self.key, self.value
            return self.attention(self.module, *vectors, self._added(mask), **self.options)
        mask = self._added(visible.flatten(0, 1)[:, None])
        query = self.query.unflatten(1, (num_kv_heads, -1)).flatten(0, 1)
        key, value = (x.flatten(0, 1)[:, None] for x in (self.key, self.value))
        output, weights = self.attention(self.module, query, key, value, mask, **self.options)
        output = output.unflatten(0, (batch, num_kv_heads)).transpose(1, 2).flatten(2, 3)
        if weights is not None:
            weights = weights.unflatten(0, (batch, num_kv_heads)).flatten(1, 2)
        return output, weights

    def _attend_where_any(self, visible: torch.Tensor) -> Result:
        sees = visible.any(-1, keepdim=True)
        output, weights = replace(self, selected=None).attend_to(visible | ~sees)
        sees = sees.repeat_interleave(self.query.shape[1] // visible.shape[1], dim=1)
        output = output * sees.transpose(1, 2)
        return output, None if weights is None else weights * sees

    def _added(self, mask: torch.Tensor) -> torch.Tensor:
        """A boolean mask as the attention takes it: eager attention adds it to the logits."""
        if self.module.config._attn_implementation != PREFIX + "eager":
            return mask
        hidden = torch.finfo(self.query.dtype).min
        return torch.zeros_like(mask, dtype=self.query.dtype).masked_fill_(~mask, hidden)


def _selecting(call: Call, selected: torch.Tensor) -> Call:
    """The call that sees only what is selected, boolean [batch, queries, keys]."""
    queries, keys = call.query.shape[2], call.key.shape[2]
    shown = shown_by(call.mask, keys)
    if shown is None:
        shown = torch.ones(queries, keys, dtype=torch.bool, device=selected.device)
        if is_causal(call.module, call.options):
            shown = shown.tril(keys - queries)
        shown = shown[None, None]
    shown = shown & selected[:, None]
    return replace(call, mask=call._added(shown), selected=shown[:, 0], outer_mask=call.mask)


# Stands in for the attention of the model.
Intercept = Callable[[Call], Result]

_intercept: Intercept | None = None


def layer_of(call: Call, model: torch.nn.Module) -> int | None:
    """The layer of the text decoder that attends; None: another part of the model."""
    if type(call.module.config) is not type(model.config.get_text_config()):
        return None
    return call.module.layer_idx


def shown_by(mask: torch.Tensor | None, num_keys: int) -> torch.Tensor | None:
    """A mask of attention as booleans, true for what it shows; None: it shows everything."""
    if mask is None:
        return None
    mask = mask[..., :num_keys]
    return mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2


@contextmanager
def intercepted(
    model: torch.nn.Module, intercept: Intercept, *, within: bool = False
) -> Iterator[None]:
    """Lets `intercept` answer every attention call of the model, until the block ends.

    Then the model has its own attention again; with `within`, in a block that another one answers,
    that one answers again. Raises RecordError for a model that does not use the interface.
    """
    global _intercept
    if within and _intercept is not None:
        outer, _intercept = _intercept, intercept
        try:
            yield
        finally:
            _intercept = outer
        return
    if _intercept is not None:
        raise RecordError("another model is recorded or evicts; run one at a time")
    name = type(model).__name__
    can_set = getattr(model, "_can_set_attn_implementation", None)
    if can_set is None or not can_set():
        raise RecordError(f"{name} does not use transformers' AttentionInterface")
    base = _base(model)
    own = model.config.get_text_config()._attn_implementation
    if own != base:
        warnings.warn(
            f"{name} attends with {own}; while it is recorded or evicts, with {base}", RecordWarning
        )
    implementation = PREFIX + base
    _register(implementation)
    before = [(config, config._attn_implementation) for config in _configs(model)]
    _intercept = intercept
    try:
        model.set_attn_implementation(implementation)
        if model.config.get_text_config()._attn_implementation != implementation:
            raise RecordError(f"{name} does not let its attention be set")
        yield
    finally:
        _intercept = None
        for config, value in before:  # setting a config also sets those inside it: outermost first
            config._attn_implementation = value


def is_causal(module: torch.nn.Module, options: dict[str, Any]) -> bool:
    """Whether attention without a mask is causal. Eager attention then sees every key."""
    option = options.get("is_causal")
    causal = getattr(module, "is_causal", True) if option is None else option
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
    AttentionInterface.register(implementation, _intercepted(_eager if base == "eager" else _sdpa))


def _sdpa(module: torch.nn.Module, options: dict[str, Any]) -> Attention:
    if options.get("softcap") is not None:
        raise RecordError("SDPA has no soft cap; load the model with attn_implementation='eager'")
    if options.get("s_aux") is not None:
        raise RecordError("SDPA has no sinks; load the model with attn_implementation='eager'")
    return ALL_ATTENTION_FUNCTIONS["sdpa"]


def _eager(module: torch.nn.Module, options: dict[str, Any]) -> Attention:
    # A module passes its eager function only as a default, which a registered name overrides.
    attend = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
    if attend is None:
        raise RecordError(f"{type(module).__name__} has no attention but a kernel's")
    return attend


def _intercepted(choose: Callable[[torch.nn.Module, dict[str, Any]], Attention]) -> Attention:
    """An attention function whose calls, computed by the one from `choose`, are intercepted."""

    def attend(
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        **options: Any,
    ) -> Result:
        attention = choose(module, options)
        selected = take_selection(module, options, key.shape[2])
        call = Call(module, query, key, value, attention_mask, options, attention)
        if selected is not None:
            call = _selecting(call, selected)
        elif (shown := selection_of_mask(module, attention_mask, key.shape[2])) is not None:
            shown = shown.expand(query.shape[0], -1, -1)
            call = replace(call, selected=shown, outer_mask=attention_mask)
        if _intercept is None:
            return call.attend()
        output, weights = _intercept(call)
        return output.contiguous(), weights  # as all attention returns it: some models view it

    return attend
