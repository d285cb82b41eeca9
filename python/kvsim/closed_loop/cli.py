"""The command line of python -m kvsim.evaluate, which shows its help without torch."""

import argparse
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from ..command import (
    STATUS_OTHER,
    Parser,
    fail,
    failed,
    natural,
    positive,
    show_warning,
)
from ..command.termination import terminated_as_interrupted
from ..errors import KvsimError, KvsimWarning
from ..files.paths import exists
from ..record import RecordWarning

DESCRIPTION = (
    "Evicts inside a model while it reads texts, and compares its predictions with those of the "
    "full cache. Prints means over the texts; -o keeps a row per text, policy and budget."
)
FORMATS = ("table", "csv", "json")


def parser() -> Parser:
    result = Parser(prog="python -m kvsim.evaluate", description=DESCRIPTION)
    add = result.add_argument
    add("model", metavar="MODEL", help="a folder, a GGUF file, or a name on the hub")
    texts = result.add_mutually_exclusive_group(required=True)
    texts.add_argument("--text", type=Path, metavar="FILE", action="append",
        help="one text, named after its file; may be repeated")  # fmt: skip
    texts.add_argument(
        "--texts", type=Path, metavar="FILE.jsonl",
        help='one JSON string per line, or {"text": "...", "spans": [[first character, end, '
        'label], ...], "name": "...", "prompt_length": characters}; spans labelled answer are '
        "counted as right or wrong",
    )  # fmt: skip
    add("--policies", action="append", default=[], metavar="SPECS",
        help="specs separated by ';', or the option again, as for kvsim sweep")  # fmt: skip
    add("--budgets", action="append", default=[], metavar="LIST",
        help="budgets separated by commas, as for kvsim sweep: 10%%,20%%,64,64KiB")  # fmt: skip
    add("--select", action="append", metavar="SPECS",
        help="selectors as for kvsim fetch, 'topk:k=64;quest:k=64,page=16': every token is kept, "
        "and each step attends to what they choose; with or without policies")  # fmt: skip
    add("--loop", choices=("imposed", "adaptive"), default="imposed",
        help="imposed: what a replay of the text's trace keeps is imposed on one forward pass; "
        "adaptive: the policies decide while the model runs (default: imposed)")  # fmt: skip
    add("--mode", choices=("stream", "prefill"), default="stream",
        help="as for kvsim sweep (default: stream)")  # fmt: skip
    add("--eviction-interval", default="1", metavar="K",
        help="as for kvsim sweep (default: 1)")  # fmt: skip
    add("--page", type=positive, default=1, metavar="P",
        help="caches evict whole pages of P tokens, as for kvsim sweep (default: 1)")  # fmt: skip
    add("--page-score", choices=("mean", "max", "min"), default="mean",
        help="as for kvsim sweep (default: mean)")  # fmt: skip
    add("--prompt-length", type=positive, metavar="N",
        help="the first N tokens of each text are its prompt, special tokens included")  # fmt: skip
    add("--trace", type=Path, metavar="TRACE.h5",
        help="a trace of the same texts by the same model (default: one is recorded)")  # fmt: skip
    add("--also", metavar="LIST",
        help="what that trace holds in addition to attention, some of output_projection, "
        "residual, output_score_grad (default: output_projection where the model has one); "
        "what a policy needs is recorded in any case")  # fmt: skip
    add("--gradient-samples", type=positive, default=1, metavar="S",
        help="gradients of S draws from the model's prediction (default: 1)")  # fmt: skip
    add("--seed", type=natural, default=0, help="for policies that draw (default: 0)")
    add("--allocate", default="uniform", help="as for kvsim sweep (default: uniform)")
    add("--device", default="cpu", help="where the model computes: cpu or cuda (default: cpu)")
    add(
        "--model-dtype",
        choices=("float32", "bfloat16", "float16", "auto"),
        default="float32",
        help="the type that the model computes in (default: float32; auto: as stored)",
    )
    add("--plugin", action="append", default=[], metavar="FILE",
        help="a shared library of policies (kvsim/plugin.h); may be repeated")  # fmt: skip
    add("-o", "--output", type=Path, metavar="RESULTS.sqlite",
        help="keep the rows here, and those of the replay; what it holds is not made again",
    )  # fmt: skip
    add("--per-step", action="store_true",
        help="also keep KL and NLL of every step there; rows without them are made again",
    )  # fmt: skip
    add("--shard", default="1/1", metavar="I/N",
        help="the I-th of N shares of the texts, of equal estimated cost; kvsim merge joins their "
        "files")  # fmt: skip
    add("--scratch", type=Path, metavar="DIR",
        help="a folder on a local disk, where the results are written and from where they are "
        "brought to their place whole, as for kvsim sweep")  # fmt: skip
    add("--format", choices=FORMATS, default="table", help="of what is printed (default: table)")
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line. Returns 0, or 2 for bad usage, 3 for bad data, 1 for other errors."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    options = parser().parse_args(arguments)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    command = shlex.join(["python", "-m", "kvsim.evaluate", *arguments])
    try:
        with terminated_as_interrupted() as check, warnings.catch_warnings():
            warnings.simplefilter("once", KvsimWarning)
            warnings.simplefilter("once", RecordWarning)
            warnings.showwarning = show_warning
            _run(options, command, check)
    except KeyboardInterrupt:
        return fail(f"interrupted; {_kept(options.output)}", STATUS_OTHER)
    except Exception as error:
        return failed(error)
    return 0


def _run(options: argparse.Namespace, command: str, check: Callable[[], None]) -> None:
    try:
        from .command import run  # and torch, which takes seconds
    except ImportError as error:
        raise KvsimError(f"{error}; pip install 'kvsim[record]'") from error
    run(options, command, check)


def _kept(output: Path | None) -> str:
    if output is None or not exists(output):
        return "nothing is kept"
    return f"{output} keeps the finished rows; the same command does the rest"
