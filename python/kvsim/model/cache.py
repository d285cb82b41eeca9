"""A model's cache: newer releases of transformers call it `cache`, older ones `past_key_values`."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch

_NAMES = ("cache", "past_key_values")


def cache_of(arguments: Mapping[str, Any]) -> Any:
    """The cache among the arguments of a forward pass, or None."""
    return next((arguments[name] for name in _NAMES if arguments.get(name) is not None), None)


def returned_cache(output: Any) -> Any:
    """The cache that a forward pass returned, or None."""
    found = (getattr(output, name, None) for name in _NAMES)
    return next((cache for cache in found if cache is not None), None)


def cache_argument(model: torch.nn.Module, cache: Any) -> dict[str, Any]:
    """The keyword argument that gives `model` this cache."""
    is_new = _NAMES[0] in inspect.signature(model.forward).parameters
    return {_NAMES[0] if is_new else _NAMES[1]: cache}
