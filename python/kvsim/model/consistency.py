"""Checks of each layer's mask and cache from one step to the next."""

from typing import Any

import torch

from ..errors import RecordError
from .attention import Call, is_causal
from .host import on_host
from .masks import Reach
from .steps import Step

# Models with multi-head latent attention, such as DeepSeek, cache one compressed vector per token
# and compute all keys from it again at each step, by a matrix product. The order of summation
# depends on the number of rows and threads, so the same key returns with other rounding. On CPUs we
# measured up to 1 float32 rounding unit of the largest |key| with 16 compressed dimensions and 5
# with 2048. Products in half precision are summed in float32 too, then rounded once to their own
# type. Rounding a float32 key to 8 bits changes it by thousands of units, and exchanging beams by
# far more.
SUM_TOLERANCE = 16 * torch.finfo(torch.float32).eps  # relative to the largest |key|


class Consistency:
    """Refuses masks that a trace cannot express, and caches whose old keys change."""

    def __init__(self) -> None:
        # Of each layer, what agrees with all masks so far.
        self._reaches: dict[int, list[Reach]] = {}
        self._last_keys: dict[int, torch.Tensor] = {}
        # Of each layer of this forward pass, whether its past is as it was: [], where it computes.
        self._unchanged: dict[int, torch.Tensor] = {}
        self.may_select: set[int] = set()  # layers that attend by what may be a selection
        self.selecting: set[int] = set()  # of these, those of which a trace holds it

    @property
    def layers(self) -> set[int]:
        """The layers whose attention was called."""
        return set(self._reaches)

    def reach(self, layer: int) -> Reach:
        """Which tokens a query of the layer sees."""
        return self._reaches[layer][0]

    def allows(self, layer: int, reach: Reach) -> bool:
        """Whether all masks of the layer so far agree with this reach."""
        return reach in self._reaches[layer]

    @property
    def last_keys(self) -> dict[int, torch.Tensor]:
        """Of each layer the keys that its last call attended to."""
        return dict(self._last_keys)

    def return_to(self, last_keys: dict[int, torch.Tensor]) -> None:
        """The next calls go on from these keys."""
        self._last_keys = dict(last_keys)

    def begin(self) -> None:
        """Begins new sequences, which have no earlier keys."""
        self._last_keys.clear()
        self._unchanged.clear()

    def check_mask(self, layer: int, call: Call, step: Step) -> None:
        """Raises RecordError unless the mask is causal, with the layer's reach and padding.

        What is selected besides may be any part of that.
        """
        declared = _declared(layer, call.module, call.options)
        possible = self._reaches.get(layer, list(dict.fromkeys([declared, Reach()])))
        causal = is_causal(call.module, call.options)
        mask = call.mask if call.selected is None else call.outer_mask
        num_keys = call.key.shape[2]
        fitting = [reach for reach in possible if step.expresses(mask, num_keys, reach, causal)]
        if not fitting and call.selected is not None and step.is_selection(call.selected):
            fitting = [Reach()]
            self.selecting.add(layer)
        if call.selected is not None:
            self.may_select.add(layer)
            if call.outer_mask is not call.mask:
                self.selecting.add(layer)
        if not fitting:
            reach = f", with {declared}," if str(declared) else ""
            raise RecordError(
                f"layer {layer}: the attention mask is not causal{reach} with padding at the "
                "ends; a trace expresses no other"
            )
        self._reaches[layer] = fitting

    def look_at_past(self, layer: int, key: torch.Tensor, new: int) -> None:
        """Looks whether the cache changed since the last step, for require_same_past() to say.

        It compares the last key of the step before with the same key now, which stands before the
        `new` ones. Beam search and candidate tokens replace cached keys; quantised caches round
        them.
        """
        before = self._last_keys.get(layer)
        has_past = before is not None and key.shape[2] > new
        if has_past:
            self._unchanged[layer] = _nearly_equal(before, key[:, :, -new - 1])
        self._last_keys[layer] = key[:, :, -1].detach().clone()

    def require_same_past(self) -> None:
        """Raises RecordError for the first layer whose cache had changed in this forward pass.

        All layers at its end: the CPU would wait for a device at each of them.
        """
        looked_at, self._unchanged = self._unchanged, {}
        for layer, unchanged in zip(looked_at, on_host(*looked_at.values()), strict=True):
            if not unchanged:
                raise RecordError(
                    f"layer {layer}: the cache changed since the last step; run without beams, "
                    "candidates and compressed caches"
                )


def _declared(layer: int, module: torch.nn.Module, options: dict[str, Any]) -> Reach:
    """What the layer says that it sees. The chunk size is that of the model's chunked layers."""
    types = getattr(module.config, "layer_types", None)
    chunk = getattr(module.config, "attention_chunk_size", None)
    is_chunked = types is None or types[layer] == "chunked_attention"
    window = options.get("sliding_window") or getattr(module, "sliding_window", None)
    return Reach(window or None, chunk if chunk and is_chunked else None)


def _nearly_equal(before: torch.Tensor, now: torch.Tensor) -> torch.Tensor:
    """Whether two keys differ by no more than the rounding of a matrix product: boolean []."""
    if before.shape != now.shape:
        return torch.tensor(False)
    last_rounding = torch.finfo(now.dtype).eps if now.dtype.itemsize < 4 else 0.0
    before, now = (key.nan_to_num().float() for key in (before, now))
    difference, largest = (before - now).abs().max(), now.abs().max()
    return difference <= (SUM_TOLERANCE + last_rounding) * largest
