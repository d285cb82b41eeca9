"""python -m kvsim.reproduce: a paper's own experiments with a model and texts of the user."""

import argparse
import os
import re
import sys
import warnings
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
    show_warning,
)

PAPERS = {
    "h2o": "accuracy against budget: full, local, H2O (Figures 4 and 8, Tables 9 and 10), and "
    "Self-BLEU of generated texts (C.1)",
    "scissorhands": "perplexity and accuracy against compression (Figure 3, Table 3), and with "
    "4-bit quantisation (Table 4)",
    "subgen": "retrieval against cache size: exact, sink, H2O, SubGen (Table 1)",
}
DESCRIPTION = (
    "Repeats a paper's own experiments in small, with your model and texts, and prints each claim "
    "of the paper next to what the model shows: means over texts, the difference with its 95% "
    "interval, and a verdict."
)


def parser() -> Parser:
    result = Parser(prog="python -m kvsim.reproduce", description=DESCRIPTION)
    papers = result.add_subparsers(dest="paper", required=True, metavar="PAPER")
    for name, shows in PAPERS.items():
        one = papers.add_parser(name, help=shows, description=f"{DESCRIPTION} Here: {shows}.")
        _add_shared(one)
        _ADDED.get(name, lambda _: None)(one)
    return result


def _add_shared(one: argparse.ArgumentParser) -> None:
    add = one.add_argument
    add("model", metavar="MODEL", help="a folder, a GGUF file, or a name on the hub")
    add(
        "--texts", type=Path, metavar="FILE.jsonl", action="append", default=[],
        help='an object per line: {"text": "...", "spans": [[first, end, "answer"], ...], '
        '"name": "...", "prompt_length": N}, in characters; repeat the option for texts of another '
        "kind, as another number of shots (default: texts.jsonl in MODEL or next to it)",
    )  # fmt: skip
    add(
        "--text", type=Path, metavar="FILE", action="append", default=[],
        help="plain text, cut into pieces; repeat the option for more; has no answers, so that "
        "likelihood alone is compared",
    )  # fmt: skip
    add(
        "--tokens", type=positive, default=1024, metavar="N",
        help="tokens of a piece of --text, at most what the model takes (default: 1024)",
    )  # fmt: skip
    add(
        "--count", type=positive, default=6, metavar="N",
        help="texts of each file (default: 6; a verdict takes 5)",
    )  # fmt: skip
    add(
        "--budgets", type=_budgets, metavar="LIST",
        help="as in 5%%,20%%,64; those that the paper's tables have are added (default: a few)",
    )  # fmt: skip
    add(
        "--loop", choices=("imposed", "adaptive"), default="imposed",
        help="imposed: kept sets of a replay, one masked forward pass each; adaptive: evict in the "
        "running model (default: imposed; quantised caches and estimators are always adaptive)",
    )  # fmt: skip
    add(
        "--mode", choices=("stream", "prefill"),
        help="stream: evict from the first token on; prefill: cut the prompt (default: stream; "
        "subgen: prefill)",
    )  # fmt: skip
    add(
        "--eviction-interval", metavar="K|never",
        help="as in kvsim sweep (default: 1; subgen: never, as its prompts are compressed once)",
    )  # fmt: skip
    add("--seed", type=natural, default=0, help="of all that is drawn (default: 0)")
    add("--device", default="cpu", help="cpu or cuda (default: cpu)")
    add(
        "--model-dtype", choices=("float32", "bfloat16", "float16", "auto"), default="float32",
        help="the type that the model computes in (default: float32; auto: as stored)",
    )  # fmt: skip
    add(
        "-o", "--output", metavar="RESULTS.sqlite",
        help="keeps rows in table closed_loop; the same command goes on there",
    )  # fmt: skip
    add("--format", choices=("table", "csv", "json"), default="table", help="(default: table)")


def _add_generation(one: argparse.ArgumentParser) -> None:
    add = one.add_argument
    add(
        "--prompt-tokens", type=positive, default=256, metavar="N",
        help="generate after the first N tokens of each text (default: 256)",
    )  # fmt: skip
    add(
        "--new-tokens", type=natural, default=64, metavar="N",
        help="tokens of each generated text; 0: none is generated (default: 64)",
    )  # fmt: skip
    add(
        "--temperature", type=nonnegative, default=1.0, metavar="T",
        help="sample at temperature T; 0: take the most likely token (default: 1)",
    )  # fmt: skip
    add(
        "--order", type=positive, default=4, metavar="N",
        help="longest n-grams of Self-BLEU (default: 4)",
    )  # fmt: skip


def _add_lengths(one: argparse.ArgumentParser) -> None:
    one.add_argument(
        "--lengths", type=_lengths, metavar="LIST",
        help="Table 3: cut the texts to so many tokens (default: 512,1024)",
    )  # fmt: skip


_ADDED = {"h2o": _add_generation, "scissorhands": _add_lengths}


def _budgets(text: str) -> list[str]:
    budgets = [part.strip() for part in text.split(",")]
    for budget in budgets:
        if not re.fullmatch(r"\d+(\.\d+)?%|[1-9]\d*", budget):
            raise argparse.ArgumentTypeError(f"expected shares or tokens as in 5%,64, found {text}")
    return budgets


def _lengths(text: str) -> list[int]:
    return [positive(part.strip()) for part in text.split(",")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line. Returns 0, or 2 for bad usage, 3 for bad data, 1 for other errors."""
    options = parser().parse_args(arguments)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        from ..errors import DataError, KvsimWarning, RecordError, RecordWarning, UsageError
        from .run import run
    except ImportError as error:
        needed = "pip install 'kvsim[record]'"
        return fail(f"{error}; {needed}", STATUS_OTHER)
    shown = (KvsimWarning, RecordWarning)
    try:
        with warnings.catch_warnings():
            for kind in shown:
                warnings.simplefilter("once", kind)
            warnings.showwarning = show_warning
            run(options)
    except UsageError as error:
        return fail(str(error), STATUS_USAGE)
    except (DataError, RecordError) as error:
        return fail(str(error), STATUS_DATA)
    except KeyboardInterrupt:
        kept = f"{options.output} keeps what is done" if options.output else "nothing was stored"
        return fail(f"interrupted; {kept}", STATUS_OTHER)
    except Exception as error:
        return fail(f"{type(error).__name__}: {error}", STATUS_OTHER)
    return 0


if __name__ == "__main__":
    sys.exit(main())
