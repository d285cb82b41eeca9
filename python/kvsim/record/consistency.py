"""What has to stay true of each layer from one step to the next."""

from typing import Any

import torch

from .attention import is_causal
from .errors import RecordError
from .steps import Step


class Consistency:
    """Refuses masks that a trace cannot express and caches that change behind one's back."""

    def __init__(self) -> None:
        self._windows: dict[int, list[int | None]] = {}  # those that the masks so far allow
        self._last_keys: dict[int, torch.Tensor] = {}

    @property
    def layers(self) -> set[int]:
        """Those that were seen."""
        return set(self._windows)

    def window(self, layer: int) -> int | None:
        """How many tokens a layer looks back, itself included; None: all."""
        return self._windows[layer][0]

    def begin(self) -> None:
        """New sequences: nothing came before."""
        self._last_keys.clear()

    def check_mask(
        self,
        layer: int,
        module: torch.nn.Module,
        step: Step,
        num_keys: int,
        mask: torch.Tensor | None,
        options: dict[str, Any],
    ) -> None:
        """Raises RecordError unless the mask is causal, with the layer's window and padding."""
        declared = options.get("sliding_window") or getattr(module, "sliding_window", None)
        possible = self._windows.get(layer, [declared, None] if declared else [None])
        causal = is_causal(module, options)
        fitting = [w for w in possible if step.expresses(mask, num_keys, w, causal)]
        if not fitting:
            window = f", with a window of {declared}," if declared else ""
            raise RecordError(
                f"layer {layer}: the attention mask is not causal{window} with padding at the "
                "ends; a trace expresses no other"
            )
        self._windows[layer] = fitting

    def check_past(self, layer: int, key: torch.Tensor, new: int) -> None:
        """Raises RecordError if the key before the `new` ones is not the last one of before.

        Beams and candidates exchange what came before; compressed caches round it.
        """
        before = self._last_keys.get(layer)
        if before is not None and key.shape[2] > new:
            if not torch.equal(before.nan_to_num(), key[:, :, -new - 1].nan_to_num()):
                raise RecordError(
                    f"layer {layer}: the cache changed since the last step; record without beams, "
                    "candidates and compressed caches"
                )
        self._last_keys[layer] = key[:, :, -1].detach().clone()
