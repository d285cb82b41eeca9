"""What the engine has to know of a model's attention, found by a short forward pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from ...errors import RecordError
from ...model.attention import Call, Result
from ...model.follower import Follower
from ...model.masks import Reach
from ...model.output_projection import required_outputs
from ...model.rope import Ropes, RopeWitness
from ...model.shape import Shape
from ...model.shared_cache import SharedCaches
from ...model.steps import Step

PROBED_TOKENS = 32  # enough to tell rotations apart
PROJECTION = "output_projection"


@dataclass(frozen=True)
class Geometry:
    """How the attention layers of a model attend."""

    shapes: dict[int, Shape]  # of every layer, in the order of the model
    reaches: dict[int, Reach]  # of every layer
    sinks: dict[int, list[float]]  # learned logits, a number per query head, of some layers
    element_bytes: int  # of a number in the model's own cache
    ropes: Ropes
    caches: SharedCaches
    # W_O [query heads * value_dim, hidden], float32, of the layers with a cache of their own; empty
    # where no policy needs it.
    projections: dict[int, np.ndarray] = field(default_factory=dict)

    @property
    def layers(self) -> tuple[int, ...]:
        """Those with a cache of their own."""
        return tuple(layer for layer in self.shapes if self.caches.cache_of(layer) == layer)

    def for_engine(self) -> dict[str, Any]:
        """As the engine takes it."""
        softcap = next(iter(self.shapes.values())).logit_softcap
        return {
            "layers": [self._layer_for_engine(layer) for layer in self.layers],
            "softcap": softcap,
            "element_bytes": self.element_bytes,
        }

    def _layer_for_engine(self, layer: int) -> dict[str, Any]:
        rope, reach = self.ropes.get(layer), self.reaches[layer]
        return vars(self.shapes[layer]) | {
            "index": layer,
            "window": reach.window,
            "chunk": reach.chunk,
            "sinks": self.sinks.get(layer, []),
            "readers": [
                {
                    "index": reader,
                    "num_query_heads": self.shapes[reader].num_query_heads,
                    "sinks": self.sinks.get(reader, []),
                }
                for reader in self.caches.readers_of(layer)
            ],
            "rope": None if rope is None else {**vars(rope), "inv_freq": list(rope.inv_freq)},
            PROJECTION: self.projections.get(layer),
        }


def geometry_of(
    model: torch.nn.Module, policies: Iterable[str] = (), num_tokens: int = PROBED_TOKENS
) -> Geometry:
    """The geometry, from a forward pass over so many tokens without a cache.

    A model that rotates by frequencies that depend on the length has those of such a text. Output
    projections are looked for if one of the specs `policies` needs them.

    Raises RecordError for a model whose attention a trace cannot express, and for one whose output
    projections are needed and not found.
    """
    geometry = _geometry_of(model, num_tokens)
    needing = _needing_projections(policies)
    return geometry if needing is None else _with_projections(geometry, model, needing)


def _needing_projections(policies: Iterable[str]) -> str | None:
    """The first of the specs that needs W_O."""
    from ... import _engine

    specs = _engine.specs(list(dict.fromkeys(policies)), "uniform")
    return next((str(flags["text"]) for flags in specs if PROJECTION in flags["needs"]), None)


def _with_projections(geometry: Geometry, model: torch.nn.Module, policy: str) -> Geometry:
    matrices = {
        layer: found.projection.to("cpu", torch.float32).contiguous().numpy()
        for layer, found in required_outputs(model, policy).items()
    }
    return replace(geometry, projections=matrices)


def _geometry_of(model: torch.nn.Module, num_tokens: int) -> Geometry:
    config = model.config.get_text_config()
    witness = RopeWitness(model)
    try:
        probe = Probe(model, witness, config.num_hidden_layers)
        room = getattr(config, "max_position_embeddings", None) or 0
        fitting = min(num_tokens, room if room > 0 else PROBED_TOKENS)
        ids = torch.arange(fitting, device=model.device)[None] % config.vocab_size
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
        if not self._shapes:
            raise RecordError(f"{self._name} has no attention that can be followed")
        shapes = dict(sorted(self._shapes.items()))
        return Geometry(
            shapes=shapes,
            reaches={layer: self._consistency.reach(layer) for layer in shapes},
            sinks={layer: logits.tolist() for layer, logits in self._sinks.items()},
            element_bytes=self._element_bytes,
            ropes=self._witness.end_texts(),
            caches=self._caches,
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
        if self._caches.cache_of(layer) == layer:
            self._witness.look(layer, call.module, call.key, step.real_new, [0])
        self._witness.forget()
        self._element_bytes = call.key.element_size()
        return result
