"""The context manager that records a model."""

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
import transformers

from ..model.attention import intercepted
from ..model.errors import RecordError, UsageError
from .recorder import Recorder
from .rope import RopeWitness
from .sequence import DTYPES
from .trace_file import Attribute, TraceFile


@contextmanager
def recording(
    model: torch.nn.Module,
    path: str | os.PathLike[str],
    *,
    tokenizer: Any = None,
    layers: Iterable[int] | None = None,
    dtype: str = "float16",
    names: Iterable[str] = (),
    source: str = "",
    prompt_length: int | None = None,
    end_tokens: Iterable[int] | None = None,
) -> Iterator[Recorder]:
    """Records every text that the model reads or generates into the trace `path`.

        with kvsim.recording(model, "trace.h5", tokenizer=tokenizer):
            model.generate(**inputs, max_new_tokens=100)

    Every forward pass with an empty cache begins new sequences, one per member of the batch,
    without its padding. The prompt is the input of `generate`. If the model reads a prompt with its
    continuation, or you run your own generation loop, give the length of the prompt, here for all
    sequences or to `label` of the recorder that the block receives. The last generated token is not
    recorded, since the model never attends with it. A text on which a forward pass raises is left
    out, with a RecordWarning.

    The file appears under its name when the block ends without an exception. It replaces an
    earlier trace, but no other file.

    tokenizer: gives the text of each token; without it the trace has only token ids.
    layers: the layers to record; all by default.
    dtype: the type of the stored numbers, float16 or float32.
    names: the names of the sequences, in order.
    source: where the sequences come from.
    prompt_length: the first tokens of each sequence that are its prompt, 0 for none.
    end_tokens: the tokens that end a member of a batch when they are generated; the model's end
        tokens by default.

    Raises RecordError, at once or in a forward pass, if a trace cannot hold what the model does.
    """
    text_config = _require_decoder(model)
    num_layers = text_config.num_hidden_layers
    chosen = list(range(num_layers) if layers is None else layers)
    if not chosen or not all(0 <= layer < num_layers for layer in chosen):
        raise UsageError(f"layers: expected some of 0..{num_layers - 1}, found {chosen}")
    if dtype not in DTYPES:
        raise UsageError(f"dtype: expected {' or '.join(DTYPES)}, found {dtype}")
    ends = set(_end_tokens(model) if end_tokens is None else end_tokens)
    header: dict[str, Attribute] = {
        "kvtrace_version": 1,
        "model": _name(model),
        "recorder": f"kvsim.record ({_versions()})",
        "num_layers": num_layers,
    }
    with ExitStack() as stack:
        file = stack.enter_context(TraceFile(path))
        witness = RopeWitness(model)
        stack.callback(witness.close)
        recorder = Recorder(model, file, witness, chosen, dtype, ends, source, prompt_length)
        recorder.label(names if isinstance(names, str) else list(names))
        stack.enter_context(intercepted(model, recorder.observe))
        stack.enter_context(_told_of_generation(model, recorder))
        for hook in (
            model.register_forward_pre_hook(recorder.before_forward, with_kwargs=True),
            model.register_forward_hook(recorder.after_forward),
        ):
            stack.callback(hook.remove)
        yield recorder
        recorder.finish(header, tokenizer)
        if layers is not None and (missing := set(chosen) - recorder.layers):
            raise RecordError(f"layer {min(missing)} has no attention that was seen; leave it out")
        file.commit()


@contextmanager
def _told_of_generation(model: torch.nn.Module, recorder: Recorder) -> Iterator[None]:
    """Tells the recorder about each call of `generate`, whose input is the prompt."""
    generate = getattr(model, "generate", None)
    if generate is None:
        yield
        return
    own = vars(model).get("generate")  # set on this object, not on its class

    def told(inputs: torch.Tensor | None = None, *args: Any, **options: Any) -> Any:
        prompt = options.get("inputs_embeds")
        if prompt is None:
            prompt = options.get("input_ids") if inputs is None else inputs
        # Without an input, `generate` begins with a start token.
        with recorder.generation(1 if prompt is None else prompt.shape[1]):
            return generate(inputs, *args, **options)

    model.generate = told
    try:
        yield
    finally:
        del model.generate
        if own is not None:
            model.generate = own


def _require_decoder(model: torch.nn.Module) -> Any:
    """The configuration of the text decoder. Raises RecordError if there is none."""
    name = type(model).__name__
    if not isinstance(model, transformers.PreTrainedModel):
        parts = model.modules() if isinstance(model, torch.nn.Module) else ()
        inner = next((p for p in parts if isinstance(p, transformers.PreTrainedModel)), None)
        if inner is not None:
            raise RecordError(f"{name} is a wrapper; record the {type(inner).__name__} inside it")
        raise RecordError(f"expected a model of transformers, found {name}")
    config = model.config
    if getattr(config, "is_encoder_decoder", False):
        raise RecordError(f"{name} is an encoder-decoder; a trace holds decoders alone")
    text_config = config.get_text_config()
    if not isinstance(getattr(text_config, "num_hidden_layers", None), int):
        raise RecordError(f"{name}: its configuration does not say how many layers it has")
    return text_config


def _end_tokens(model: torch.nn.Module) -> list[int]:
    generation = getattr(model, "generation_config", None)
    ends = getattr(generation or model.config, "eos_token_id", None)
    return ends if isinstance(ends, list) else [] if ends is None else [ends]


def _name(model: torch.nn.Module) -> str:
    """The name of the model on the hub, or the last part of its folder."""
    name = getattr(model.config, "_name_or_path", "") or type(model).__name__
    is_folder = os.path.isdir(name)  # noqa: PTH112  Path.is_dir raises for what it may not read
    return Path(name).resolve().name if is_folder else str(name)


def _versions() -> str:
    return " ".join(f"{name} {metadata.version(name)}" for name in ("transformers", "torch"))
