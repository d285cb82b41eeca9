"""Loads models and tokenizers by name, with errors of one line.

A name is a folder, a GGUF file or a model on the hub.
"""

import importlib.util
import io
import logging
from contextlib import nullcontext, redirect_stderr
from pathlib import Path
from typing import Any

import torch
import transformers

from ..errors import RecordError, UsageError
from ..errors.terminal import say
from ..files.paths import is_file, is_folder
from .decoder import GGUF, short_name

GGUF_NEEDS = ("gguf", "accelerate")  # packages with which transformers reads such a file


def quieten() -> None:
    """Silences the libraries, for a command that reports errors itself."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)  # it logs every attempt


def load_config(name: str) -> Any:
    """The configuration of a decoder. Raises RecordError for another model."""
    _require_there(name)
    config = _load(transformers.AutoConfig, name)
    if getattr(config, "is_encoder_decoder", False):
        raise RecordError(f"{name} is an encoder-decoder; a trace holds decoders alone")
    return config


def load_tokenizer(name: str) -> Any:
    tokenizer = _load(transformers.AutoTokenizer, name)
    # Without the files of a tokenizer, transformers makes one that has only special tokens.
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise RecordError(f"{name}: the tokenizer has no vocabulary; add its files there")
    return tokenizer


def load_model(name: str, dtype: str, device: torch.device) -> Any:
    """The model in this type (auto: as stored), with the default cache, which can be recorded."""
    kind = dtype if dtype == "auto" else getattr(torch, dtype)
    model = _load(transformers.AutoModelForCausalLM, name, dtype=kind)
    if name.endswith(GGUF):
        model.config._name_or_path = name  # transformers has the folder there
    model.to(device).eval()
    model.generation_config.cache_implementation = None
    return model


def untrained_model(name: str, dtype: str, device: torch.device, seed: int) -> Any:
    """A model of the same configuration whose weights are drawn anew, as before its training."""
    config = load_config(name)
    kind = config.dtype if dtype == "auto" else getattr(torch, dtype)
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=kind)
    model.config._name_or_path = f"{short_name(name)}, untrained ({seed})"
    model.to(device).eval()
    model.generation_config.cache_implementation = None
    return model


def device_named(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"--device: expected one as cpu or cuda, found {name}") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UsageError(f"--device {name}: PyTorch finds no CUDA device here; use --device cpu")
    try:
        torch.zeros(1, device=device).item()
    except Exception as error:  # the type of the error depends on the device
        raise UsageError(f"--device {name}: cannot be computed on; use --device cpu") from error
    return device


def _require_there(name: str) -> None:
    """Raises RecordError if `name` is the path of a missing folder or file, or needs a package.

    The hub would complain about an invalid name instead.
    """
    if name.endswith(GGUF):
        if not is_file(name):
            raise RecordError(
                f"{name}: there is no such file; a GGUF file has to be on this machine"
            )
        missing = [package for package in GGUF_NEEDS if importlib.util.find_spec(package) is None]
        if missing:
            packages = " ".join(missing)
            raise RecordError(f"{name}: to read a GGUF file, pip install {packages}")
        return
    if is_file(name):
        raise RecordError(
            f"{name}: expected a model's folder, or a file whose name ends in .gguf; this one's "
            "does not"
        )
    is_path = name.startswith((".", "/", "~")) or name.endswith("/") or name.count("/") > 1
    if is_path and not is_folder(name):
        raise RecordError(f"{name}: there is no such folder")
    if not is_folder(name):
        say(f"{name} is no folder here; asking the hub, which takes a while where there is none")


def _load(kind: Any, name: str, **options: Any) -> Any:
    """Loads `name` with `kind`. Raises RecordError with the first line of its message."""
    place, shown = name, nullcontext()
    if name.endswith(GGUF):
        place, options = str(Path(name).parent), {**options, "gguf_file": Path(name).name}
        shown = redirect_stderr(io.StringIO())  # a bar that cannot be turned off
    try:
        with shown:
            return kind.from_pretrained(place, **options)
    except (OSError, ValueError, ImportError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        said = " ".join(lines) if lines[0].endswith(":") else lines[0]
        raise RecordError(f"{name}: cannot be loaded by {kind.__name__}: {said}") from error
