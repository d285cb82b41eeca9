"""The context manager that records a model."""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import metadata
from typing import Any

import torch

from ..errors import KvsimError, RecordError, RecordWarning, UsageError
from ..model.decoder import end_tokens as end_tokens_of
from ..model.decoder import model_name, require_decoder
from ..model.rope import RopeWitness
from .also import PROJECTION, Also, Reading, write_projections
from .background import Background
from .copies import Copies
from .packing import COMPRESSIONS, GZIP
from .recorder import Recorder
from .stored_type import AUTO, DTYPES
from .text_writer import TextWriter
from .trace_file import Attribute, TraceFile


@contextmanager
def recording(
    model: torch.nn.Module,
    path: str | os.PathLike[str],
    *,
    tokenizer: Any = None,
    layers: Iterable[int] | None = None,
    dtype: str = AUTO,
    names: Iterable[str] = (),
    source: str = "",
    prompt_length: int | None = None,
    end_tokens: Iterable[int] | None = None,
    also: str | Iterable[str] = (),
    gradient_samples: int = 1,
    label_seed: int = 0,
    no_output: bool = False,
    threads: int | None = None,
    compression: str = GZIP,
) -> Iterator[Recorder]:
    """Records every text that the model reads or generates into the trace `path`.

    Parameters
    ----------
    model : torch.nn.Module
        A causal language model of transformers.
    path : path
        The trace. It appears under its name when the block ends without an exception, and replaces
        an earlier trace, but no other file.
    tokenizer : transformers tokenizer, optional
        Gives the text of each token; without it the trace has only token ids.
    layers : iterable of int, optional
        The layers to record; all by default.
    dtype : {"float16", "float32", "auto"}, default "auto"
        The type of the stored numbers. "auto" is float16 where attention recomputed from it agrees
        as `kvsim verify` demands, decided for each layer of each text, and float32 elsewhere.
    names : iterable of str, optional
        The names of the sequences, in order.
    source : str, default ""
        Where the sequences come from.
    prompt_length : int, tokens, optional
        The first tokens of each sequence that are its prompt, 0 for none. By default the prompt is
        the input of `generate`.
    end_tokens : iterable of int, optional
        The tokens that end a member of a batch when they are generated; the model's end tokens by
        default.
    also : str or iterable of str, optional
        Names of what to record in addition to attention, which python/record.md lists. For all but
        output_projection the model reads each text once more when it has ended, alone and whole,
        and for output_score_grad with its activations kept.
    gradient_samples : int, default 1
        How many times labels are drawn from the model's prediction.
    label_seed : int, default 0
        Of these labels.
    no_output : bool, default False
        Leaves the outputs of the heads out once they have been compared; they are as large as the
        queries. `kvsim verify` then has nothing to compare with.
    threads : int, optional
        That compare and pack at a time, and of which at most 8 bring vectors from a device; None:
        OMP_NUM_THREADS, else the cores that affinity and the quota of a container or job allow. The
        trace is the same for any number.
    compression : {"gzip", "none"}, default "gzip"
        Of the vectors in the file. "none" takes less time and more room, a sixth more for float16
        and float32 models, half more for bfloat16 ones. The numbers and the trace_id are the same.

    Yields
    ------
    Recorder
        Its `label` names the next sequences.

    Raises
    ------
    UsageError
        For arguments that do not exist or contradict each other.
    RecordError
        At once or in a forward pass, if a trace cannot hold what the model does.
    KvsimError
        For a file that cannot be written.

    Warns
    -----
    RecordWarning
        For a text on which a forward pass raises, which is left out; after an exception, with the
        name of the file that has the texts that are whole.

    Notes
    -----
    Every forward pass with an empty cache begins new sequences, one per member of the batch,
    without its padding. If the model reads a prompt with its continuation, or you run your own
    generation loop, give the length of the prompt, here for all sequences or to `label` of the
    recorder that the block receives. The last generated token is not recorded, since the model
    never attends with it.

    On an exception, the texts that are whole are a trace of their own, NAME.unfinished.h5.

    Examples
    --------
    >>> with kvsim.recording(model, "trace.h5", tokenizer=tokenizer):
    ...     model.generate(**inputs, max_new_tokens=100)
    """
    text_config = require_decoder(model)
    num_layers = text_config.num_hidden_layers
    chosen = list(range(num_layers) if layers is None else layers)
    if not chosen or not all(0 <= layer < num_layers for layer in chosen):
        raise UsageError(f"layers: expected some of 0..{num_layers - 1}, found {chosen}")
    if dtype not in DTYPES:
        raise UsageError(f"dtype: expected {' or '.join(DTYPES)}, found {dtype}")
    if threads is not None and threads < 1:
        raise UsageError(f"threads: expected 1 or more, found {threads}")
    if compression not in COMPRESSIONS:
        raise UsageError(f"compression: expected {' or '.join(COMPRESSIONS)}, found {compression}")
    ends = set(end_tokens_of(model) if end_tokens is None else end_tokens)
    extras = Also.of(also, gradient_samples, label_seed)
    header: dict[str, Attribute] = {
        "kvtrace_version": 2,
        "model": model_name(model),
        "recorder": f"kvsim.record ({_versions()})",
        "num_layers": num_layers,
    }
    with ExitStack() as stack:
        file = stack.enter_context(TraceFile(path, threads, compression))
        copies = Copies(file.threads)
        stack.callback(copies.close)
        background = Background()
        stack.callback(background.close)
        outputs = extras.layers_of(model, chosen)
        activations = extras.activations_of(model, chosen)
        witness = RopeWitness(model)
        stack.callback(witness.close)
        reading = Reading(extras, model, outputs, activations, dtype, file.packing)
        texts = TextWriter(file, reading, no_output, copies, background)
        recorder = Recorder(
            model, file, witness, chosen, dtype, ends, source, prompt_length, reading, copies, texts
        )
        recorder.label(names if isinstance(names, str) else list(names))

        def describe() -> None:
            recorder.describe(header, tokenizer)
            if PROJECTION in extras.parts:
                write_projections(file, outputs, recorder.num_query_heads, dtype)

        try:
            with recorder.following(model):
                yield recorder
            recorder.end()
            if layers is not None and (missing := set(chosen) - recorder.layers):
                raise RecordError(
                    f"layer {min(missing)} has no attention that was seen; leave it out"
                )
        except BaseException as error:
            if recorder.sequences and recorder.layers:
                _keep_finished(file, len(recorder.sequences), describe)
            texts.warn_of_left_out(error)
            raise
        describe()
        file.commit()


def _keep_finished(file: TraceFile, texts: int, describe: Callable[[], None]) -> None:
    """Writes the texts that are whole, after an exception that goes on."""
    finished = f"{texts} finished text{'' if texts == 1 else 's'}"
    try:
        describe()
        path = file.commit_unfinished()
    except (KvsimError, OSError, RuntimeError) as error:
        warnings.warn(f"{finished} could not be kept: {error}", RecordWarning, stacklevel=3)
    else:
        warnings.warn(f"{finished} went to {path}", RecordWarning, stacklevel=3)


def _versions() -> str:
    return " ".join(f"{name} {metadata.version(name)}" for name in ("transformers", "torch"))
