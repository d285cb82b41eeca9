"""Loads a model, runs it on texts and records a trace."""

import argparse
from typing import Any

import torch

from ..errors import UsageError
from ..model.encoding import encode, require_room
from ..model.loading import (
    device_named,
    load_config,
    load_model,
    load_tokenizer,
    quieten,
    say,
    untrained_model,
)
from ..model.texts import Text, read_layers, read_prompts, read_texts
from .also import Also
from .session import recording
from .trace_file import TraceFile


def run(options: argparse.Namespace) -> None:
    """Executes the command line. Raises UsageError for wrong options, RecordError otherwise."""
    quieten()
    Also.of(
        options.also, options.gradient_samples, options.label_seed
    )  # reports a wrong name early
    texts = _texts(options)
    device = device_named(options.device)
    config = load_config(options.model)
    layers = _layers(options.layers, config)
    with TraceFile(options.output):
        pass  # reports an unwritable file before the model is loaded, which takes long
    tokenizer = load_tokenizer(options.model)
    encoded = [
        encode(tokenizer, text, options.prompt_length, options.max_prompt_tokens) for text in texts
    ]
    require_room(config, texts, encoded, options.max_new_tokens)
    say(f"loading {options.model}")
    model = _model(options, device)
    torch.manual_seed(options.seed)
    with recording(
        model, options.output, tokenizer=tokenizer, layers=layers, dtype=options.dtype,
        also=options.also, gradient_samples=options.gradient_samples,
        label_seed=options.label_seed, no_output=options.no_output,
        threads=options.threads, compression=options.compression,
    ) as recorder:  # fmt: skip
        for start in range(0, len(texts), options.batch_size):
            end = start + options.batch_size
            for text, one in zip(texts[start:end], encoded[start:end], strict=True):
                recorder.label([text.name], text.source, one.prompt_length, [one.spans])
            batch = [one.ids for one in encoded[start:end]]
            if options.max_new_tokens == 0 and len(batch) == 1:
                recorder.read(batch[0])
            else:
                _generate(model, tokenizer, batch, options)
                recorder.end_texts()
            say(f"{min(end, len(texts))} of {len(texts)} texts")


def _model(options: argparse.Namespace, device: torch.device) -> Any:
    if options.untrained is None:
        return load_model(options.model, options.model_dtype, device)
    return untrained_model(options.model, options.model_dtype, device, options.untrained)


def _texts(options: argparse.Namespace) -> list[Text]:
    if options.prompts is None:
        return read_texts(options.text, options.prompt)
    if options.prompt:
        raise UsageError(
            "--prompt: expected --text FILE with its continuation, found a file of lines; one "
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
