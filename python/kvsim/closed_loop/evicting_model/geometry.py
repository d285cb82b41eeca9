"""What the engine has to know of a model's attention, found by a short forward pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ...errors import RecordError
from ...model.attention import Call, Result
from ...model.follower import Follower
from ...model.masks import Reach
from ...model.rope import Rope, RopeWitness
from ...model.shape import Shape
from ...model.steps import Step

PROBED_TOKENS = 32  # enough to tell rotations apart


@dataclass(frozen=True)
class Geometry:
    """The shape that the attention layers of a model share."""

    shape: Shape
    layers: tuple[int, ...]
    reaches: dict[int, Reach]  # of every layer
    sinks: dict[int, list[float]]  # learned logits, a number per query head, of some layers
    element_bytes: int  # of a number in the model's own cache
    rope: Rope | None  # None: none that is the same in all layers

    def for_engine(self) -> dict[str, Any]:
        """As the engine takes it."""
        rope = self.rope
        return {
            "layers": list(self.layers),
            "query_heads": self.shape.num_query_heads,
            "kv_heads": self.shape.num_kv_heads,
            "head_dim": self.shape.head_dim,
            "value_dim": self.shape.value_dim,
            "scale": self.shape.scale,
            "softcap": self.shape.logit_softcap,
            "windows": {at: each.window for at, each in self.reaches.items() if each.window},
            "chunks": {at: each.chunk for at, each in self.reaches.items() if each.chunk},
            "sinks": self.sinks,
            "element_bytes": self.element_bytes,
            "rope": None if rope is None else {**vars(rope), "inv_freq": list(rope.inv_freq)},
        }


def geometry_of(model: torch.nn.Module, num_tokens: int = PROBED_TOKENS) -> Geometry:
    """The geometry, from a forward pass over so many tokens without a cache.

    A model that rotates by frequencies that depend on the length has those of such a text.

    Raises RecordError for a model whose attention a trace cannot express.
    """
    config = model.config.get_text_config()
    witness = RopeWitness(model)
    try:
        probe = Probe(model, witness, config.num_hidden_layers)
        room = getattr(config, "max_position_embeddings", None) or PROBED_TOKENS
        ids = torch.arange(min(num_tokens, room), device=model.device)[None] % config.vocab_size
        with probe.following(model), torch.no_grad():
            model(input_ids=ids, use_cache=False)
        return probe.geometry()
    finally:
        witness.close()


class Probe(Follower):
    """Looks at a forward pass and changes nothing."""

    def __init__(self, model: torch.nn.Module, witness: RopeWitness, num_layers: int) -> None:
        super().__init__(model, set(range(num_layers)))
        self._name = type(model).__name__
        self._witness = witness
        self._element_bytes = 0

    def geometry(self) -> Geometry:
        layers = sorted(self._consistency.layers)
        if self._shape is None:
            raise RecordError(f"{self._name} has no attention that can be followed")
        self._witness.end_texts()
        return Geometry(
            shape=self._shape,
            layers=tuple(layers),
            reaches={layer: self._consistency.reach(layer) for layer in layers},
            sinks={layer: logits.tolist() for layer, logits in self._sinks.items()},
            element_bytes=self._element_bytes,
            rope=self._witness.result(layers),
        )

    def _begin_sequences(self, step: Step) -> None:
        pass

    def _end_sequences(self, failed: bool) -> None:
        pass

    def _feed(self, step: Step) -> None:
        pass

    def _attend(self, layer: int, call: Call, step: Step) -> Result:
        result = call.attend()
        self._check_shape(layer, call, result[0])
        self._check_cache(layer, call, step)
        self._witness.look(layer, call.key, step.real_new, [0])
        self._element_bytes = call.key.element_size()
        return result
