"""The verbs ruler and chains of python -m kvsim.tasks."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ...command import Parser, natural, positive
from ...errors.terminal import say
from ...files.partial import written_whole
from . import chains as of_chains
from . import ruler as of_ruler

OF_RULER = (
    "Makes long contexts with questions whose answers are known: the tasks of RULER (arXiv "
    "2404.06654) and key-value retrieval, as long as is asked for."
)
OF_CHAINS = (
    "Makes short prompts with long solutions, step by step, for policies that evict while a model "
    "writes."
)


def add_verbs(verbs: Any) -> None:
    """Adds both to what add_subparsers() returned."""
    make: Parser = verbs.add_parser(
        "ruler", help="writes long contexts with questions about them", description=OF_RULER
    )
    add = make.add_argument
    add("--length", type=_positives, default=of_ruler.LENGTHS, metavar="TOKENS[,...]",
        help="of a text with questions and answers, at most (default: "
        f"{','.join(map(str, of_ruler.LENGTHS))})")  # fmt: skip
    add("--tasks", type=_names, metavar="TASK[,...]",
        help=f"some of {', '.join(of_ruler.TASKS)} (default: all; with --turns those that have "
        "several)")  # fmt: skip
    _add_samples(make, "each task and length")
    add("--haystack", type=Path, nargs="+", metavar="FILE",
        help="texts that hide needles (default: prose that comes with the package)")  # fmt: skip
    add("--depths", type=_depths, metavar="D[,...]",
        help="put the needle of each sample of niah-single at each of these, 0 is the start of the "
        "context and 1 its end (default: a depth of its own for each sample)")  # fmt: skip
    add("--turns", type=positive, default=1, metavar="K",
        help=f"questions to one context, of {' and '.join(of_ruler.WITH_TURNS)} "
        "(default: 1)")  # fmt: skip
    make = verbs.add_parser(
        "chains", help="writes short prompts with long solutions", description=OF_CHAINS
    )
    add = make.add_argument
    add("--kinds", type=_names, default=tuple(of_chains.KINDS), metavar="KIND[,...]",
        help=f"some of {', '.join(of_chains.KINDS)} (default: all)")  # fmt: skip
    size = make.add_mutually_exclusive_group()
    size.add_argument("--tokens", type=positive, metavar="N",
        help=f"of a solution, at most (default: {of_chains.TOKENS})")  # fmt: skip
    size.add_argument("--steps", type=positive, metavar="N", help="of a solution")
    _add_samples(make, "each kind")


def _add_samples(parser: Parser, of: str) -> None:
    add = parser.add_argument
    add("--samples", type=positive, default=of_ruler.SAMPLES, metavar="N",
        help=f"of {of} (default: {of_ruler.SAMPLES})")  # fmt: skip
    add("--seed", type=natural, default=0, help="of all draws (default: 0)")
    add("--tokenizer", metavar="MODEL",
        help="of this model, a folder, a GGUF file or a name on the hub (default: words and "
        "punctuation marks count as tokens, of which a model makes more)")  # fmt: skip
    add("-o", "--output", type=Path, metavar="TEXTS.jsonl",
        help="to write (default: print them)")  # fmt: skip


def write_ruler(options: argparse.Namespace) -> None:
    """Executes the verb ruler. Raises what ruler() raises."""
    _quieten(options)
    texts = of_ruler.ruler(
        options.length, options.tasks, samples=options.samples, seed=options.seed,
        haystack=options.haystack, tokenizer=options.tokenizer, depths=options.depths,
        turns=options.turns,
    )  # fmt: skip
    _write(texts, options.output)


def write_chains(options: argparse.Namespace) -> None:
    """Executes the verb chains. Raises what chains() raises."""
    _quieten(options)
    texts = of_chains.chains(
        options.kinds, tokens=options.tokens, steps=options.steps, samples=options.samples,
        seed=options.seed, tokenizer=options.tokenizer,
    )  # fmt: skip
    _write(texts, options.output)


RUN = {"ruler": write_ruler, "chains": write_chains}


def _quieten(options: argparse.Namespace) -> None:
    """transformers warns of texts that are longer than a model takes."""
    if options.tokenizer is not None:
        from ...model.loading import quieten

        quieten()


def _write(texts: Iterable[dict[str, Any]], output: Path | None) -> None:
    lines = [json.dumps(text, ensure_ascii=False) + "\n" for text in texts]
    if output is None:
        # In UTF-8 as in a file, whatever the terminal's encoding.
        sys.stdout.buffer.write("".join(lines).encode())
        sys.stdout.flush()
        return
    with written_whole(output) as partial:
        partial.write_text("".join(lines), "utf-8")
    say(f"kvsim: {len(lines)} texts in {output}")


def _names(text: str) -> list[str]:
    return text.split(",")


def _positives(text: str) -> list[int]:
    return [positive(part) for part in text.split(",")]


def _depths(text: str) -> list[float]:
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = [-1.0]
    if not all(0 <= depth <= 1 for depth in found):
        raise argparse.ArgumentTypeError(f"expected numbers from 0 to 1, found {text}")
    return found
