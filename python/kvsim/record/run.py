"""Loads a model, runs it on texts and records a trace."""

import argparse
import logging
import sys
from pathlib import Path
from typing import Any

import torch
import transformers

from .encoding import encode, require_room
from .errors import RecordError, UsageError
from .session import recording
from .texts import Text, read_layers, read_prompts, read_texts
from .trace_file import TraceFile


def run(options: argparse.Namespace) -> None:
    """Executes the command line. Raises UsageError for wrong options, RecordError otherwise."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)  # it logs every attempt
    texts = _texts(options)
    device = _device(options.device)
    _require_folder(options.model)
    config = _load(transformers.AutoConfig, options.model)
    if getattr(config, "is_encoder_decoder", False):
        raise RecordError(f"{options.model} is an encoder-decoder; a trace holds decoders alone")
    layers = _layers(options.layers, config)
    with TraceFile(options.output):
        pass  # reports an unwritable file before the model is loaded, which takes long
    tokenizer = _load(transformers.AutoTokenizer, options.model)
    # Without the files of a tokenizer, transformers makes one that has only special tokens.
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise RecordError(f"{options.model}: the tokenizer has no vocabulary; add its files there")
    encoded = [
        encode(tokenizer, text, options.prompt_length, options.max_prompt_tokens) for text in texts
    ]
    require_room(config, texts, encoded, options.max_new_tokens)
    kind = options.model_dtype
    loaded = kind if kind == "auto" else getattr(torch, kind)
    model = _load(transformers.AutoModelForCausalLM, options.model, dtype=loaded)
    model.to(device).eval()
    model.generation_config.cache_implementation = None  # the default cache can be recorded

    torch.manual_seed(options.seed)
    with recording(
        model, options.output, tokenizer=tokenizer, layers=layers, dtype=options.dtype
    ) as recorder:
        for start in range(0, len(texts), options.batch_size):
            end = start + options.batch_size
            for text, one in zip(texts[start:end], encoded[start:end], strict=True):
                recorder.label([text.name], text.source, one.prompt_length)
            _generate(model, tokenizer, [one.ids for one in encoded[start:end]], options)
            _say(f"{min(end, len(texts))} of {len(texts)} texts")
    _say(f"{options.output} is written; check it with: kvsim verify {options.output}")


def _texts(options: argparse.Namespace) -> list[Text]:
    if options.prompts is None:
        return read_texts(options.text, options.prompt)
    if options.prompt:
        raise UsageError(
            "--prompt: expected --text FILE with its continuation, found --prompts; a line of "
            'that file may hold both: {"prompt": "...", "text": "..."}'
        )
    return read_prompts(options.prompts)


def _generate(
    model: Any, tokenizer: Any, batch: list[list[int]], options: argparse.Namespace
) -> None:
    width = max(map(len, batch))
    end = tokenizer.eos_token_id
    padding = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else end or 0
    ids = [[padding] * (width - len(one)) + one for one in batch]
    mask = [[0] * (width - len(one)) + [1] * len(one) for one in batch]
    sampling = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
    if options.temperature > 0:
        sampling |= {"do_sample": True, "temperature": options.temperature}
    with torch.inference_mode():
        model.generate(
            input_ids=torch.tensor(ids, device=model.device),
            attention_mask=torch.tensor(mask, device=model.device),
            max_new_tokens=max(1, options.max_new_tokens),  # 1: only read the prompt
            pad_token_id=padding,
            num_beams=1,
            **sampling,
        )


def _layers(text: str | None, config: Any) -> list[int] | None:
    if text is None:
        return None
    return read_layers(text, config.get_text_config().num_hidden_layers)


def _device(name: str) -> torch.device:
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


def _require_folder(model: str) -> None:
    """Raises RecordError if `model` is the path of a missing folder.

    The hub would complain about an invalid name instead.
    """
    is_path = model.startswith((".", "/", "~")) or model.endswith("/") or model.count("/") > 1
    if is_path and not Path(model).is_dir():
        raise RecordError(f"{model}: there is no such folder")
    if not Path(model).is_dir():
        _say(f"{model} is no folder here; asking the hub, which takes a while where there is none")


def _load(kind: Any, name: str, **options: Any) -> Any:
    """Loads `name` with `kind`. Raises RecordError with the first line of its message."""
    try:
        return kind.from_pretrained(name, **options)
    except (OSError, ValueError, ImportError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        said = " ".join(lines) if lines[0].endswith(":") else lines[0]
        raise RecordError(f"{name}: cannot be loaded by {kind.__name__}: {said}") from error


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
