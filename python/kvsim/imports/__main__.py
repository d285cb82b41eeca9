"""`kvsim convert --from FILE...`, which the program hands over to `python -m kvsim.imports`."""

import json
import sys
import warnings
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from ..command import STATUS_OTHER, Parser, fail, failed, natural, positive, show_warning
from ..command.termination import terminated_as_interrupted
from ..errors import KvsimError, UsageError
from ..errors.terminal import printable
from ..files.paths import reason_of
from .run import import_arrays

Key = TypeVar("Key")
Value = TypeVar("Value")
_OF_PROGRAM = {"files", "more", "output", "quiet", "name", "no_verify"}


def _parser() -> Parser:
    parser = Parser(prog="kvsim convert", description="Makes a trace of what hooks dumped.")
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="as after --from")
    add("--from", dest="more", nargs="+", action="extend", default=[], metavar="FILE")
    add("-o", "--output", required=True, metavar="FILE", help="the trace")
    add("--layout", type=_layout, metavar="bhtd|DATASET=bhtd,...")
    add("--name", type=_pair, action="append", metavar="DATASET=NAME")
    add("--num-query-heads", type=positive, metavar="N")
    add("--num-kv-heads", type=positive, metavar="N")
    add("--head-dim", type=positive, metavar="N")
    add("--repeated", choices=("undo", "keep"))
    add("--dtype", choices=("bfloat16",))
    add("--attention-mask", metavar="FILE.npy")
    add("--token-ids", metavar="FILE.npy")
    add("--sequence-names", type=lambda text: text.split(","), metavar="NAME,NAME")
    add("--prompt-length", type=_lengths, metavar="N|N,N")
    add("--scale", type=float, metavar="X")
    add("--logit-softcap", type=float, metavar="X")
    add("--sliding-window", type=_windows, metavar="N|LAYER=N,LAYER=N")
    add("--rope", metavar="FILE.json")
    add("--rotate", action="store_true", default=None)
    add("--num-layers", type=positive, metavar="N")
    add("--model", metavar="NAME")
    add("--no-verify", action="store_true")
    add("-q", "--quiet", action="store_true")
    return parser


def _pair(text: str) -> tuple[str, str]:
    name, is_there, value = text.partition("=")
    if not is_there:
        raise ArgumentTypeError(f"expected NAME=VALUE, found {text}")
    return name, value


def _once(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, Value]:
    found = {}
    for key, value in pairs:
        if key in found:
            raise ArgumentTypeError(f"expected each name once, found {key} twice")
        found[key] = value
    return found


def _layout(text: str) -> str | dict[str, str]:
    return _once(map(_pair, text.split(","))) if "=" in text else text


def _lengths(text: str) -> int | list[int]:
    found = [natural(each) for each in text.split(",")]
    return found[0] if len(found) == 1 else found


def _windows(text: str) -> int | dict[int, int]:
    if "=" not in text:
        return positive(text)
    pairs = map(_pair, text.split(","))
    return _once((natural(layer), positive(window)) for layer, window in pairs)


def _array(option: str, path: str) -> np.ndarray:
    try:
        array = np.lib.format.open_memmap(path, mode="r")  # which is no larger than the file
    except OSError as error:
        raise UsageError(f"--{option}: {path}: {reason_of(error)}") from error
    except (ValueError, EOFError, OverflowError) as error:
        raise UsageError(
            f"--{option}: {path}: expected one array of numbers, found a file that numpy.save did "
            "not write, or a part of one"
        ) from error
    return array


def _rope(path: str) -> dict[str, object]:
    try:
        rope = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"--rope: {path}: expected a JSON file, found {error}") from error
    if not isinstance(rope, dict):
        raise UsageError(f"--rope: {path}: expected inv_freq, style and attention_factor")
    return rope


def _run(parsed: Namespace) -> None:
    options = {name: value for name, value in vars(parsed).items() if name not in _OF_PROGRAM}
    options = {name: value for name, value in options.items() if value is not None}
    for name in ("attention_mask", "token_ids"):
        if name in options:
            options[name] = _array(name.replace("_", "-"), options[name])
    if "rope" in options:
        options["rope"] = _rope(options["rope"])
    if parsed.name:
        try:
            options["names"] = _once(parsed.name)
        except ArgumentTypeError as error:
            raise UsageError(f"--name: {error}") from error
    if parsed.no_verify:
        options["verify"] = False
    if parsed.quiet:
        options["notes"] = lambda note: None
    files = parsed.files + parsed.more
    source = files[0] if len(files) == 1 else files
    trace = import_arrays(source, parsed.output, **options)
    print(printable(f"{parsed.output}: version 2, trace_id {trace.trace_id}"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line. Returns 0, or 2 for bad usage, 3 for bad data, 1 for other errors."""
    parsed = _parser().parse_args(arguments)
    try:
        with terminated_as_interrupted(), warnings.catch_warnings():
            warnings.showwarning = show_warning
            _run(parsed)
    except KvsimError as error:
        return failed(error)
    except KeyboardInterrupt:
        return fail(f"interrupted; {parsed.output} is not written", STATUS_OTHER)
    return 0


if __name__ == "__main__":
    sys.exit(main())
