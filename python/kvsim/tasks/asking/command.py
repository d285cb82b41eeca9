"""The verb evaluate of python -m kvsim.tasks, and its summary, which the verb score prints, too."""

from __future__ import annotations

import argparse
import json
import shlex
import warnings
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...command import Parser, natural, positive, show_warning
from ...errors import DataError, KvsimWarning

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DESCRIPTION = (
    "Compresses the cache of each context to each budget, asks the questions, and scores the "
    "answers: their likelihood, and with --generate what the model writes. Tasks that the full "
    "cache does not do are marked."
)
FORMATS = ("table", "csv", "json")


def add_verb(verbs: Any) -> None:
    parser: Parser = verbs.add_parser(
        "evaluate", help="asks a model whose cache policies compress", description=DESCRIPTION
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="a folder, a GGUF file, or a name on the hub")
    add("--texts", type=Path, required=True, metavar="TEXTS.jsonl", action="append",
        help="of the verbs ruler and chains, or alike; may be repeated")  # fmt: skip
    add("--policies", action="append", default=[], metavar="SPECS", required=True,
        help="specs separated by ';', or the option again, as for kvsim sweep, without "
        "oracles")  # fmt: skip
    add("--budgets", action="append", default=[], metavar="LIST", required=True,
        help="budgets separated by commas; a share is of what is compressed; or 64KiB")  # fmt: skip
    add("--question", choices=("unseen", "after", "before", "turns"), default="unseen",
        help="unseen: the context is compressed, then asked; after, before: the first question is "
        "compressed with the context that precedes or follows it; turns: as unseen, and the "
        "cache goes on through the turns (default: unseen)")  # fmt: skip
    add("--generate", type=natural, default=0, metavar="N",
        help="let the model write at most N tokens (default: 0, likelihood alone)")  # fmt: skip
    add("--stop", action="append", type=unescaped, metavar="TEXT",
        help="a text that ends what is written, \\n is a line break; may be repeated (default: "
        "\\n, where the right answer has no more than one line)")  # fmt: skip
    add("--eviction-interval", default="1", metavar="K",
        help="as for kvsim sweep; never: the context is cut once (default: 1)")  # fmt: skip
    add("--page", type=positive, default=1, metavar="P",
        help="caches evict whole pages of P tokens, as for kvsim sweep (default: 1)")  # fmt: skip
    add("--page-score", choices=("mean", "max", "min"), default="mean",
        help="as for kvsim sweep (default: mean)")  # fmt: skip
    add("--seed", type=natural, default=0, help="for policies that draw (default: 0)")
    add("--allocate", default="uniform", help="as for kvsim sweep (default: uniform)")
    add("--device", default="cpu", help="where the model computes: cpu or cuda (default: cpu)")
    add("--model-dtype", choices=("float32", "bfloat16", "float16", "auto"), default="float32",
        help="the type that the model computes in (default: float32)")  # fmt: skip
    add("--plugin", action="append", default=[], metavar="FILE",
        help="a shared library of policies (kvsim/plugin.h); may be repeated")  # fmt: skip
    add("-o", "--output", type=Path, metavar="RESULTS.sqlite",
        help="keep the rows here; what it holds is not made again")  # fmt: skip
    add("--force", action="store_true", help="make the rows that it holds again, too")
    add("--format", choices=FORMATS, default="table", help="of what is printed (default: table)")


def run(options: argparse.Namespace, arguments: Sequence[str]) -> None:
    """Executes the verb of these arguments. Raises what kvsim.tasks.evaluate raises."""
    from ...command.termination import terminated_as_interrupted

    command = shlex.join(["python", "-m", "kvsim.tasks", *arguments])
    lines = [line for path in options.texts for line in read_lines(path)]
    with terminated_as_interrupted() as check, warnings.catch_warnings():
        warnings.simplefilter("once", KvsimWarning)
        warnings.showwarning = show_warning
        _run(options, command, lines, check)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines. Raises DataError for other lines."""
    from ...model.texts import read_file

    found = []
    # Not splitlines: a JSON string may contain U+2028 and other line separators.
    for number, line in enumerate(read_file(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise DataError(f"{path}: line {number}: expected JSON: {error}") from error
        if not isinstance(value, dict) or not isinstance(value.get("text"), str):
            raise DataError(
                f'{path}: line {number}: expected {{"text": "...", "spans": [...]}} as kvsim.tasks '
                "writes it"
            )
        found.append(value)
    if not found:
        raise DataError(f"{path}: expected texts, found an empty file")
    return found


def _run(
    options: argparse.Namespace, command: str, lines: Iterable[dict[str, Any]], check: Any
) -> None:
    from ...closed_loop.command import load  # and torch, which takes seconds
    from ...closed_loop.loops import How
    from ...command.progress import Shown
    from ...verbs.options import protocol_from
    from .run import evaluate_as
    from .summary import printed, scores

    model, tokenizer = load(options)
    protocol = protocol_from(vars(options) | {"mode": "prefill"})
    with closing(Shown("rows")) as shown:
        frame = evaluate_as(
            command, model, lines, options.policies, options.budgets,
            question=options.question, generate=options.generate, stop=options.stop,
            tokenizer=tokenizer, how=How(protocol, options.seed, options.allocate),
            output=options.output, progress=False, force=options.force, check=check, watch=shown,
        )  # fmt: skip
    print(printed(scores(frame), options.format), end="")


def unescaped(text: str) -> str:
    """An argument in which \\n is a line break."""
    return text.replace("\\n", "\n")
