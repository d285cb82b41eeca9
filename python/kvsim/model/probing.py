"""A short forward pass in which the parts of a model's layers show what they are."""

from collections.abc import Callable
from typing import Any

import torch

from ..errors import RecordError
from .attention import Call, Result, intercepted, layer_of

PROBE_TOKENS = 8


def attending_modules(model: torch.nn.Module) -> dict[int, torch.nn.Module]:
    """The attention module of each layer that has one."""
    found: dict[int, torch.nn.Module] = {}

    def look(call: Call) -> Result:
        layer = layer_of(call, model)
        if layer is not None:
            found[layer] = call.module
        return call.attend()

    read_probe(model, look)
    return found


def read_probe(model: torch.nn.Module, intercept: Callable[[Call], Result]) -> None:
    """Lets the model read PROBE_TOKENS tokens."""
    vocabulary = model.config.get_text_config().vocab_size
    ids = torch.arange(PROBE_TOKENS, device=model.device)[None] * 7 % vocabulary
    with torch.inference_mode(), intercepted(model, intercept):
        model(input_ids=ids, use_cache=False)


def layer_around(attention: torch.nn.Module, model: torch.nn.Module, fix: str) -> torch.nn.Module:
    """The element of the nearest list of modules that holds the attention."""
    path = next(name for name, module in model.named_modules() if module is attention).split(".")
    for length in range(len(path), 0, -1):
        if isinstance(model.get_submodule(".".join(path[: length - 1])), torch.nn.ModuleList):
            return model.get_submodule(".".join(path[:length]))
    raise RecordError(f"{type(attention).__name__} is in no list of layers; {fix}")


def is_vectors(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim() >= 2


def rows_of(value: Any) -> torch.Tensor | None:
    """The vectors [tokens, width] of a module's input or output, which may be a tuple's first."""
    if isinstance(value, (tuple, list)):
        value = value[0] if value else None
    return value.detach().reshape(-1, value.shape[-1]) if is_vectors(value) else None
