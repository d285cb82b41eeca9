"""A model that reads a text and then parts of it again."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..errors import RecordError, UsageError
from ..model.attention import Call, Result
from ..model.cache import cache_argument, returned_cache
from ..model.follower import Follower
from ..model.steps import Step
from .attention import Part, largest_attention
from .checks import Text, require_same_keys, why_not

if TYPE_CHECKING:
    from ..trace import Unit


class SecondReader(Follower):
    """Scores the tokens of one text by the attention that they get when it is read again.

    The text is read once, into a cache; each part follows that cache in a pass of its own, and sees
    nothing of the passes before. Use it within `following(model)`.
    """

    def __init__(self, model: torch.nn.Module, text: Text, witness: Unit) -> None:
        super().__init__(model, {layer.index for layer in text.layers})
        self._model, self._text, self._witness = model, text, witness
        self._longest = 0
        self._expected = {layer.index: layer.shape for layer in text.layers}
        self._part: Part | None = None  # None: the text itself is read
        self.scores = {
            layer.index: np.zeros((layer.shape["num_kv_heads"], len(text.ids)), np.float32)
            for layer in text.layers
        }
        """Of each layer, [KV heads, tokens of the text]."""

    def read(
        self, parts: list[tuple[Part, list[int]]], report: Callable[[], object]
    ) -> dict[int, np.ndarray]:
        """Reads the text, then each part by these token ids, which end with the part's own.

        `report` is called after each pass. Returns `scores`.
        """
        self._longest = max(len(ids) for _, ids in parts)
        with torch.inference_mode():
            cache = self._pass(self._text.ids, None)
            if missing := self._layers - self._consistency.layers:
                raise RecordError(f"layer {min(missing)} has no attention that was seen")
            report()
            place = self._place()
            for index, (part, ids) in enumerate(parts):
                self._return_to(place)
                self._part = part
                # The pass adds its tokens to the cache, and the next one begins without them.
                self._pass(ids, cache if index + 1 == len(parts) else copy.deepcopy(cache))
                report()
        return self.scores

    def _pass(self, ids: list[int], cache: Any) -> Any:
        options = {} if cache is None else cache_argument(self._model, cache)
        if "logits_to_keep" in inspect.signature(self._model.forward).parameters:
            options["logits_to_keep"] = 1  # nobody reads them, and all are large
        tokens = torch.tensor([ids], device=self._model.device)
        return returned_cache(self._model(input_ids=tokens, use_cache=True, **options))

    def _end_sequences(self, failed: bool) -> None:
        pass

    def _begin_sequences(self, step: Step) -> None:
        pass

    def _feed(self, step: Step) -> None:
        pass

    def _attend(self, layer: int, call: Call, step: Step) -> Result:
        self._require_heads(layer, call)
        result = call.attend()
        self._check_shape(layer, call, result[0])
        self._check_cache(layer, call, step)
        self._require_all_seen(layer)
        if self._part is not None:
            self._score(layer, call, self._part)
        elif layer == self._witness.layer:
            require_same_keys(self._witness, call.key[0])
        return result

    def _score(self, layer: int, call: Call, part: Part) -> None:
        shape = self._shapes[layer]
        found = largest_attention(
            call.query[0], call.key[0], part, shape.scale, shape.logit_softcap,
            self._sinks.get(layer),
        )  # fmt: skip
        if not bool(found.isfinite().all()):
            raise RecordError(
                f"sequence {self._text.name}, layer {layer}: the model computed attention that is "
                "not finite"
            )
        self.scores[layer][:, part.start : part.end] = found.numpy()

    def _require_heads(self, layer: int, call: Call) -> None:
        expected = self._expected[layer]
        found = {
            "num_query_heads": call.query.shape[1],
            "num_kv_heads": call.key.shape[1],
            "head_dim": call.query.shape[3],
        }
        for name, number in found.items():
            if number != expected[name]:
                raise UsageError(
                    f"model: expected {name} {expected[name]} in layer {layer}, as in the trace, "
                    f"found {number}; give the model that the trace is of"
                )

    def _require_all_seen(self, layer: int) -> None:
        """As checks.py does by the trace, by what the model does."""
        reach = self._consistency.reach(layer)
        found = {
            "sliding_window": reach.window,
            "attention_chunk": reach.chunk,
            "kv_from": self._caches.owners.get(layer),
            "has_selected": layer in self._consistency.selecting or None,
        }
        if reason := why_not(layer, found, len(self._text.ids), self._longest):
            raise RecordError(reason)
