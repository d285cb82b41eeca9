"""python -m kvsim.record: runs a model on texts and records a trace."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ..command import (
    STATUS_DATA,
    STATUS_OTHER,
    STATUS_USAGE,
    Parser,
    fail,
    natural,
    nonnegative,
    positive,
)
from ..command.notes import notes_printed
from ..command.termination import terminated_as_interrupted
from ..errors.terminal import say

DESCRIPTION = "Runs a model on texts, lets it generate on request, and records a trace."


def _other_datasets() -> str:
    from .. import _engine

    return ", ".join(f"{name} ({title})" for name, _, title in _engine.given_datasets())


def parser() -> Parser:
    result = Parser(prog="python -m kvsim.record", description=DESCRIPTION)
    add = result.add_argument
    add("model", metavar="MODEL", help="a folder, a GGUF file, or a name on the hub")
    texts = result.add_mutually_exclusive_group(required=True)
    texts.add_argument("--text", type=Path, metavar="FILE", action="append",
        help="one text; may be repeated")  # fmt: skip
    texts.add_argument(
        "--prompts", "--texts", type=Path, metavar="FILE.jsonl",
        help='a text per line: a JSON string, or {"text": "...", "name": "...", "spans": '
        '[[first, end, "label"], ...], "prompt_length": N}, counted in characters; or {"prompt": '
        '"...", "text": "..."}, a prompt and its given continuation',
    )  # fmt: skip
    add("--prompt", type=Path, metavar="FILE", action="append", default=[],
        help="what --text continues, the first --prompt for the first --text and so on; the two "
        "are tokenised apart, special tokens at the beginning only, nothing between")  # fmt: skip
    add("--prompt-length", type=positive, metavar="N",
        help="the first N tokens of each text are its prompt, special tokens included (default: "
        "all that is read before generation; without generation, a text has no prompt)",
    )  # fmt: skip
    add("-o", "--output", type=Path, required=True, metavar="TRACE.h5",
        help="the trace to write; replaces an earlier trace")  # fmt: skip
    add("--max-new-tokens", type=natural, default=0, metavar="N",
        help="generate N tokens; the last is not recorded (default: only read)")  # fmt: skip
    add("--max-prompt-tokens", type=positive, metavar="N",
        help="cut texts, their prompts included, to their first N tokens")  # fmt: skip
    add("--batch-size", type=positive, default=1, metavar="N", help="texts per batch (default: 1)")
    add("--layers", metavar="LIST", help="layers to record, as in 0-3,7 (default: all)")
    add("--dtype", choices=("auto", "float16", "float32"), default="auto",
        help="the type of the trace's numbers (default: auto, float16 where attention recomputed "
        "from it agrees with the model's, else float32, layer by layer)")  # fmt: skip
    add("--no-output", action="store_true",
        help="leave the outputs of the heads out once they have been compared")  # fmt: skip
    add(
        "--model-dtype",
        choices=("float32", "bfloat16", "float16", "auto"),
        default="float32",
        help="the type that the model computes in (default: float32; auto: as stored)",
    )
    add("--untrained", type=natural, metavar="N",
        help="draw the model's weights anew, with seed N, as before its training: what of a trace "
        "comes from the architecture alone (default: as stored)")  # fmt: skip
    add("--device", default="cpu", help="where the model computes: cpu or cuda (default: cpu)")
    add("--threads", type=positive, metavar="N",
        help="compare and pack in N threads (default: OMP_NUM_THREADS or all cores)")  # fmt: skip
    add("--compression", choices=("gzip", "none"), default="gzip",
        help="of the vectors in the file; none takes less time and more room (default: "
        "gzip)")  # fmt: skip
    add("--temperature", type=nonnegative, default=0.0, metavar="T",
        help="sample at temperature T (default: greedy)")  # fmt: skip
    add("--also", default="", metavar="LIST",
        help=f"record also some of {_other_datasets()}")  # fmt: skip
    add("--gradient-samples", type=positive, default=1, metavar="S",
        help="gradients of S draws from the model's prediction (default: 1)")  # fmt: skip
    add("--label-seed", type=natural, default=0, metavar="N", help="of these draws (default: 0)")
    add("--seed", type=natural, default=0, help="seed of sampling (default: 0)")
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line. Returns 0, or 2 for bad usage, 3 for bad data, 1 for other errors."""
    options = parser().parse_args(arguments)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        from ..errors import KvsimError, RecordError, UsageError
        from .run import run
    except ImportError as error:
        needed = "pip install 'kvsim[record]'"
        return fail(f"{error}; {needed}", STATUS_OTHER)
    try:
        with terminated_as_interrupted(), notes_printed():
            run(options)
            say(f"{options.output} is written; check it with: kvsim verify {options.output}")
    except UsageError as error:
        return fail(str(error), STATUS_USAGE)
    except RecordError as error:
        return fail(str(error), STATUS_DATA)
    except KvsimError as error:
        return fail(str(error), STATUS_OTHER)
    except KeyboardInterrupt:
        return fail(f"interrupted; {options.output} is not written", STATUS_OTHER)
    except Exception as error:
        return fail(f"{type(error).__name__}: {error}", STATUS_OTHER)
    return 0


if __name__ == "__main__":
    sys.exit(main())
