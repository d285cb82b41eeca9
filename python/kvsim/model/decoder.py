"""Checks that a model is a decoder, and finds its name and the tokens that end its texts."""

from pathlib import Path
from typing import Any

import torch
import transformers

from ..errors import RecordError
from ..files.paths import is_folder

GGUF = ".gguf"  # what the name of a file of weights ends in


def require_decoder(model: torch.nn.Module) -> Any:
    """The configuration of the text decoder. Raises RecordError if there is none."""
    name = type(model).__name__
    if not isinstance(model, transformers.PreTrainedModel):
        parts = model.modules() if isinstance(model, torch.nn.Module) else ()
        inner = next((p for p in parts if isinstance(p, transformers.PreTrainedModel)), None)
        if inner is not None:
            raise RecordError(f"{name} is a wrapper; use the {type(inner).__name__} inside it")
        raise RecordError(f"expected a model of transformers, found {name}")
    config = model.config
    if getattr(config, "is_encoder_decoder", False):
        raise RecordError(f"{name} is an encoder-decoder; a trace holds decoders alone")
    text_config = config.get_text_config()
    if not isinstance(getattr(text_config, "num_hidden_layers", None), int):
        raise RecordError(f"{name}: its configuration does not say how many layers it has")
    return text_config


def end_tokens(model: torch.nn.Module) -> list[int]:
    """The tokens that end a generated text."""
    generation = getattr(model, "generation_config", None)
    ends = getattr(generation or model.config, "eos_token_id", None)
    return ends if isinstance(ends, list) else [] if ends is None else [ends]


def model_name(model: torch.nn.Module) -> str:
    """What a trace calls the model: its name on the hub, or the last part of its path."""
    return short_name(getattr(model.config, "_name_or_path", "") or type(model).__name__)


def short_name(name: str) -> str:
    """The name of a folder or GGUF file without those around it; other names as they are."""
    if is_folder(name):
        return Path(name).resolve().name
    return Path(name).stem if name.endswith(GGUF) else name
