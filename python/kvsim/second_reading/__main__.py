"""python -m kvsim.second_reading: a model and a trace in, the scores of `kvzip` out."""

from __future__ import annotations

import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Sequence

from ..command import STATUS_OTHER, Parser, fail, failed, natural, positive
from ..command.notes import notes_printed
from ..command.termination import terminated_as_interrupted
from ..errors.terminal import say
from .arguments import checked_texts
from .checks import READS, require_model
from .run import CHUNK, SINKS, second_reading
from .wording import INSTRUCTIONS, Wording


def _parser() -> Parser:
    parser = Parser(
        prog="python -m kvsim.second_reading",
        description="Lets a model read the texts of a trace a second time and writes the largest "
        "attention that each token gets: what the policy kvzip keeps tokens by.",
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="of the trace: a folder, a GGUF file, or a name on the hub")
    add("trace", metavar="TRACE", help="with token ids")
    add("-o", "--output", required=True, metavar="SCORES.h5", help="replaces earlier scores")
    add("--reads", choices=READS, default="prompt",
        help="what is read again: the prompt of each sequence (default), or the whole text, by "
        "which a policy knows the future in stream mode")  # fmt: skip
    add("--chunk", type=positive, default=CHUNK, metavar="N",
        help=f"tokens that are read again in a pass (default: {CHUNK})")  # fmt: skip
    add("--sinks", type=natural, default=SINKS, metavar="N",
        help=f"first tokens that later chunks are seen with (default: {SINKS})")  # fmt: skip
    add("--suffix", metavar="TEXT",
        help="between the request and the chunk (default: that of the chat template)")  # fmt: skip
    add("--sequences", metavar="NAME,NAME", help="default: all")
    add("--budgets", metavar="FILE.npy",
        help="also write what each head removes where the lowest scores of all heads leave "
        "together, for POLICY@file:FILE.npy; of one sequence; replaces earlier ones")  # fmt: skip
    add("--model-dtype", choices=("float32", "bfloat16", "float16", "auto"), default="float32",
        help="the type that the model computes in (default: float32; auto: as stored)")  # fmt: skip
    add("--device", default="cpu", help="where the model computes: cpu or cuda (default: cpu)")
    add("-q", "--quiet", action="store_true")
    return parser


def _run(options: Namespace) -> None:
    from ..model.loading import device_named, load_config, load_model, load_tokenizer, quieten
    from ..trace import Trace

    quieten()
    sequences = None if options.sequences is None else options.sequences.split(",")
    # What can be refused is refused before the model is loaded, which takes long.
    trace = Trace(options.trace)
    checked_texts(
        trace, options.output, options.reads, options.chunk, options.sinks, sequences,
        options.budgets,
    )  # fmt: skip
    device = device_named(options.device)
    require_model(load_config(options.model).get_text_config(), trace)
    tokenizer = load_tokenizer(options.model)
    Wording.of(tokenizer, INSTRUCTIONS, options.suffix)
    model = load_model(options.model, options.model_dtype, device)
    second_reading(
        model, trace, options.output, tokenizer=tokenizer, reads=options.reads,
        chunk=options.chunk, sinks=options.sinks, suffix=options.suffix,
        sequences=sequences, budgets=options.budgets, progress=False if options.quiet else None,
    )  # fmt: skip
    if not options.quiet:
        say(f"kvsim: {options.output} is written; replay it with {_replayed(options)}")


def _replayed(options: Namespace) -> str:
    """The options of a sweep that go with the scores."""
    spec = f"kvzip:file={options.output}"
    if options.reads != "prompt":
        spec += f",reads={options.reads}"
    if options.sinks != SINKS:
        spec += f",sinks={options.sinks}"
    if options.budgets is not None:
        spec += f"@file:{options.budgets}"
    words = ["--policies", spec]
    if options.sequences is not None:
        words += ["--sequences", options.sequences]
    if options.reads == "prompt":
        words += ["--mode", "prefill", "--eviction-interval", "never"]
    return shlex.join(words)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line. Returns 0, or 2 for bad usage, 3 for bad data, 1 for other errors."""
    options = _parser().parse_args(arguments)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        with terminated_as_interrupted(), notes_printed():
            _run(options)
    except ImportError as error:
        return fail(f"{error}; pip install 'kvsim[record]'", STATUS_OTHER)
    except KeyboardInterrupt:
        return fail(f"interrupted; {options.output} is not written", STATUS_OTHER)
    except Exception as error:
        return failed(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
