"""What to train: checked settings, and the texts and units that they are about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import DataError, UsageError
from .features import check_names, reads_keys
from .scorers import KINDS

if TYPE_CHECKING:
    from ..trace import Trace

TARGETS = ("future", "price", "optimum")
SCOPES = ("head", "layer", "model")
SHAPE = ("num_layers", "num_kv_heads", "head_dim", "value_dim")


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
    if sequences is None:
        return there
    names = sequences.split(",") if isinstance(sequences, str) else list(sequences)
    for name in names:
        if name not in {found for _, found in there}:
            raise UsageError(f"sequences: there is no text {name!r} in the traces")
    return [(model, name) for model, name in there if name in names]


def header_of(
    models: list[Trace], texts: list[tuple[Trace, str]], wanted: Wanted
) -> dict[str, Any]:
    """The header of the file. Raises DataError if the traces are of several models."""
    first = models[0]
    for model in models[1:]:
        for name in SHAPE:
            expected, found = getattr(first, name), getattr(model, name)
            if expected != found:
                raise DataError(
                    f"traces: expected those of one model, found {name} {expected} and {found}; "
                    "train one scorer for each model"
                )
    unrotated = first.rope is not None and reads_keys(wanted.features)
    return {
        "version": 1,
        "kind": wanted.kind,
        "scope": wanted.scope,
        "features": wanted.features,
        "layers": first.num_layers,
        "kv_heads": first.num_kv_heads,
        "head_dim": first.head_dim,
        "value_dim": first.value_dim,
        "keys": "unrotated" if unrotated else "recorded",
        "target": wanted.target,
        "budgets": wanted.budgets,
        "policy": wanted.policy,
        "seed": wanted.seed,
        "model": first.model,
        "trained_on": [[model.trace_id, name] for model, name in texts],
    }


def groups_of(model: Trace, scope: str) -> list[dict[str, int]]:
    """What each scorer is for, in the order of the file: a layer and a KV head, a layer, or {}."""
    if scope == "model":
        return [{}]
    layers = [{"layer": layer} for layer in range(model.num_layers)]
    if scope == "layer":
        return layers
    heads = range(model.num_kv_heads)
    return [{**layer, "kv_head": head} for layer in layers for head in heads]
