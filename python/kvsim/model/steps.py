"""Reads from the arguments of a forward pass which tokens it adds to the sequences."""

import inspect
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers

from ..errors import RecordError
from .cache import cache_of
from .host import on_host
from .masks import Reach, is_expressible

QUANTIZED_CACHE = getattr(transformers, "QuantizedCache", ())


@dataclass
class Step:
    """One forward pass over [batch, new] tokens, after `seen` tokens in the cache."""

    ids: torch.Tensor | None  # [batch, new] on the CPU; None: the model was given embeddings
    real: torch.Tensor  # boolean [batch, seen + new], false for padding
    seen: int
    positions_known: bool  # whether token i of each sequence has position i
    cache: Any = None  # as it was given
    checked: dict[tuple[Any, ...], bool] = field(default_factory=dict)
    masks: list[torch.Tensor | None] = field(default_factory=list)  # kept, so that ids stay unique

    @property
    def new(self) -> int:
        return self.real.shape[1] - self.seen

    @property
    def real_new(self) -> torch.Tensor:
        """Boolean [batch, new]."""
        return self.real[:, self.seen :]

    def expresses(
        self, mask: torch.Tensor | None, num_keys: int, reach: Reach, causal: bool
    ) -> bool:
        """`is_expressible`, computed once per mask, since layers share masks."""
        key = (id(mask), num_keys, reach, causal)
        if key not in self.checked:
            self.masks.append(mask)
            self.checked[key] = is_expressible(mask, self.real, self.new, num_keys, reach, causal)
        return self.checked[key]

    def is_selection(self, selected: torch.Tensor) -> bool:
        """Whether these, boolean [batch, new, keys], are tokens up to each step, one at least."""
        keys = self.real.shape[1]
        if selected.shape[1:] != (self.new, keys):
            return False
        shown = selected.cpu()
        visible = torch.ones(self.new, keys, dtype=torch.bool).tril(self.seen)
        allowed = visible & self.real[:, None]
        wrong = (shown & ~allowed).any(-1) | ~shown.any(-1)
        return not bool((wrong & self.real_new).any())


def read_step(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step:
    """Reads the step of `model(*args, **kwargs)`. Raises RecordError if it cannot be followed."""
    arguments = inspect.signature(model.forward).bind_partial(*args, **kwargs).arguments
    arguments |= arguments.pop("kwargs", {})
    ids, embeddings = arguments.get("input_ids"), arguments.get("inputs_embeds")
    tokens = ids if ids is not None else embeddings
    if tokens is None:
        raise RecordError("the model was called without input_ids and without inputs_embeds")
    batch, new = tokens.shape[:2]
    cache = cache_of(arguments)
    seen = _seen(cache)
    mask, positions = arguments.get("attention_mask"), arguments.get("position_ids")
    given = {"ids": ids, "mask": mask, "positions": positions}
    given = {name: x for name, x in given.items() if isinstance(x, torch.Tensor) and x.dim() == 2}
    here = dict(zip(given, on_host(*given.values()), strict=True))
    real = torch.ones(batch, seen + new, dtype=torch.bool)
    if "mask" in here:
        if mask.shape[1] != seen + new:
            raise RecordError(
                f"the attention mask covers {mask.shape[1]} tokens, expected {seen + new}"
            )
        real &= here["mask"].bool()
    elif mask is not None and not isinstance(mask, torch.Tensor):
        raise RecordError("a prepared attention mask cannot be followed; give the mask of padding")
    _require_unbroken(real)
    return Step(
        ids=here.get("ids"),
        real=real,
        seen=seen,
        positions_known=(positions is None or "positions" in here)
        and _count_up(here.get("positions"), real, seen),
        cache=cache,
    )


def _seen(cache: Any) -> int:
    if cache is None:
        return 0
    if isinstance(cache, QUANTIZED_CACHE) or getattr(cache, "is_compileable", False):
        raise RecordError(
            f"a {type(cache).__name__} cannot be followed; use the default cache (DynamicCache)"
        )
    if not hasattr(cache, "get_seq_length"):
        raise RecordError(f"a cache of type {type(cache).__name__} cannot be followed")
    return int(cache.get_seq_length())


def _require_unbroken(real: torch.Tensor) -> None:
    """Raises RecordError for padding between tokens, which would change their distances."""
    starts = (real[:, 1:] & ~real[:, :-1]).sum(1) + real[:, 0]
    if bool((starts > 1).any()):
        raise RecordError(
            "there is padding inside a sequence; pad on the left (padding_side='left')"
        )


def _count_up(positions: torch.Tensor | None, real: torch.Tensor, seen: int) -> bool:
    new = real[:, seen:]
    if positions is None:
        return bool(real[:, 0].all())  # the model counts positions from the first column
    expected = (real.long().cumsum(1) - 1)[:, seen:]
    return positions.shape[1] == new.shape[1] and bool(((positions == expected) | ~new).all())
