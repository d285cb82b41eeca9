"""What to train: checked settings, and the texts and units that they are about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import DataError, UsageError
from .features import check_names, reads_keys

if TYPE_CHECKING:
    from ..trace import Trace
    from ..trace.contents import Layer

KINDS = ("linear", "mlp", "trees")
TARGETS = ("future", "price", "optimum")
SCOPES = ("head", "layer", "model")


@dataclass(frozen=True)
class Wanted:
    """The settings of kvsim.train. Raises UsageError for one that does not exist."""

    kind: str
    scope: str
    target: str
    features: list[str]
    budgets: list[str]
    policy: str
    seed: int

    def __post_init__(self) -> None:
        for name, known in (("kind", KINDS), ("scope", SCOPES), ("target", TARGETS)):
            found = getattr(self, name)
            if found not in known:
                raise UsageError(f"{name}: expected {', '.join(known)}, found {found!r}")
        check_names(self.features)


def texts_of(models: list[Trace], sequences: str | Sequence[str] | None) -> list[tuple[Trace, str]]:
    """The texts to train on, in the order of the traces."""
    if not models:
        raise UsageError("traces: expected at least one, found none")
    there = [(model, text.name) for model in models for text in model.sequences]
    if sequences is not None:
        names = sequences.split(",") if isinstance(sequences, str) else list(sequences)
        for name in names:
            if name not in {found for _, found in there}:
                raise UsageError(f"sequences: there is no text {name!r} in the traces")
        there = [(model, name) for model, name in there if name in names]
    seen = set()
    for model, name in there:
        if (model.trace_id, name) in seen:
            raise UsageError(
                f"traces: text {name!r} of {model.trace_id} stands twice; name it once"
            )
        seen.add((model.trace_id, name))
    return there


def header_of(
    models: list[Trace], texts: list[tuple[Trace, str]], wanted: Wanted
) -> dict[str, Any]:
    """The header of the file. Raises DataError if the traces are of several models."""
    shapes = [_shape_of(model, wanted.features) for model in models]
    for shape in shapes:
        for name, expected in shapes[0].items():
            if shape[name] != expected:
                raise DataError(
                    f"traces: expected those of one model, found {name} {expected} and "
                    f"{shape[name]}; train one file for each model"
                )
    return {
        "version": 1,
        "kind": wanted.kind,
        "scope": wanted.scope,
        "features": wanted.features,
        **shapes[0],
        "target": wanted.target,
        "budgets": wanted.budgets,
        "policy": wanted.policy,
        "seed": wanted.seed,
        "trained_on": [[model.trace_id, name] for model, name in texts],
    }


def _shape_of(trace: Trace, features: list[str]) -> dict[str, Any]:
    """What the file says of the model. Raises DataError if its layers differ in it."""
    shapes = [layer.shape for layer in _cached_layers(trace)]
    found: dict[str, Any] = {"model": trace.model, "layers": trace.num_layers}
    found["kv_heads"] = max(shape["num_kv_heads"] for shape in shapes)
    rotated = {shape["rope"] is not None for shape in shapes}
    if reads_keys(features):
        found["keys"] = "unrotated" if True in rotated else "recorded"
    else:
        found["keys"] = "recorded"
        rotated = set()
    for name in ("head_dim", "value_dim"):
        sizes = {shape[name] for shape in shapes}
        found[name] = sizes.pop()
        if sizes:
            raise DataError(f"{trace.model}: expected one {name} in all layers, found several")
    if len(rotated) > 1:
        raise DataError(
            f"{trace.model}: some layers rotate keys and some do not; take features without key "
            "and key_like_mean"
        )
    return found


def _cached_layers(trace: Trace) -> list[Layer]:
    layers = [each for text in trace.sequences for each in text.layers if each.kv_from is None]
    if not layers:
        raise DataError(f"{trace.model}: expected layers with keys and values, found none")
    return layers


def has_cache(models: list[Trace], group: dict[str, int]) -> bool:
    """Whether the traces have a unit that the scorer is for."""
    return any(
        group.get("layer", layer.index) == layer.index
        and group.get("kv_head", layer.kv_heads[0]) in layer.kv_heads
        for model in models
        for layer in _cached_layers(model)
    )


def groups_of(header: dict[str, Any]) -> list[dict[str, int]]:
    """What each scorer is for, in the order of the file: a layer and a KV head, a layer, or {}."""
    if header["scope"] == "model":
        return [{}]
    layers = [{"layer": layer} for layer in range(header["layers"])]
    if header["scope"] == "layer":
        return layers
    heads = range(header["kv_heads"])
    return [{**layer, "kv_head": head} for layer in layers for head in heads]
