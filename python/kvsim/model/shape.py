"""The shape of a layer of a trace. Refuses attention that a trace cannot express."""

from dataclasses import dataclass, fields
from typing import Any

import torch

from ..errors import RecordError

UNKNOWN_TO_A_TRACE = {  # options of attention functions that change the result
    "position_bias": "a bias by position",
    "head_mask": "a mask of heads",
    "cache": "a paged cache",
}


@dataclass(frozen=True)
class Shape:
    """What is known of a layer from one attention call, by its attributes in a trace."""

    num_query_heads: int
    num_kv_heads: int
    head_dim: int
    value_dim: int
    scale: float
    logit_softcap: float | None

    def require_same(self, other: "Shape", layer: int) -> None:
        """Raises RecordError that names the first difference to a later call of the layer."""
        for attribute in fields(self):
            expected, found = getattr(self, attribute.name), getattr(other, attribute.name)
            if expected != found:
                raise RecordError(
                    f"layer {layer} has {attribute.name} {found}, before it had {expected}: a "
                    "trace holds layers of one shape"
                )

    def beyond(self, outer: "Shape") -> dict[str, int | float]:
        """The attributes of a layer that are others than the header's."""
        return {name: own for name, own in vars(self).items() if own != getattr(outer, name)}


def sinks_of(layer: int, query_heads: int, options: dict[str, Any]) -> torch.Tensor | None:
    """The learned sink logits of a call, float32 [query heads], if it has any.

    Raises RecordError if they are others than a number per head.
    """
    sinks = options.get("s_aux")
    if sinks is None:
        return None
    logits = sinks.detach().to("cpu", torch.float32)
    if tuple(logits.shape) != (query_heads,) or not bool(logits.isfinite().all()):
        raise RecordError(
            f"layer {layer} has sinks {tuple(logits.shape)}, expected a finite logit for each of "
            f"{query_heads} query heads; a trace holds no others"
        )
    return logits


def shape_of(
    layer: int,
    vectors: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    output: torch.Tensor,
    options: dict[str, Any],
) -> Shape:
    """The shape of one call. Raises RecordError if a trace cannot express what it computes."""
    query, key, value = vectors
    for name, meaning in UNKNOWN_TO_A_TRACE.items():
        if options.get(name) is not None:
            raise RecordError(f"layer {layer} attends with {meaning}, which a trace does not hold")
    if options.get("dropout"):
        raise RecordError(f"layer {layer} drops attention at random; call model.eval() first")
    heads, kv_heads = query.shape[1], key.shape[1]
    if heads % kv_heads or value.shape[1] != kv_heads:
        raise RecordError(
            f"layer {layer} has {heads} query, {kv_heads} key and {value.shape[1]} value heads; "
            "expected as many value as key heads, and a multiple of query heads"
        )
    expected = (query.shape[0], query.shape[2], heads, value.shape[3])
    if tuple(output.shape) != expected:
        raise RecordError(
            f"layer {layer} returns {tuple(output.shape)}, expected {expected}: batch, tokens, "
            "heads, dimensions"
        )
    scale = options.get("scaling")
    return Shape(
        num_query_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=query.shape[3],
        value_dim=value.shape[3],
        scale=query.shape[3] ** -0.5 if scale is None else float(scale),
        logit_softcap=options.get("softcap"),
    )
