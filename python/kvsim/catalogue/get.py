"""Fetches a published trace from the server that the user names."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import KvsimError, UsageError
from ..files.paths import exists, is_file
from ..trace import Trace
from ..verbs.progress import Progress, reporter
from .entries import Entry, entry_named
from .location import url_of


def get_trace(
    name: str,
    path: str | os.PathLike[str] | None = None,
    url: str | None = None,
    progress: Progress = None,
) -> Trace:
    """Fetches a published trace and opens it. A file that is there already is not fetched again.

    The file gets its name when its size and SHA-256 are those of the catalogue. What an
    interrupted call has received stays in `FILE.part`, and the next call continues it.

    Parameters
    ----------
    name : str
        A name of `kvsim.catalogue`.
    path : path_like, optional
        The file to write; `NAME.h5` in the current folder if there is none.
    url : str, optional
        The URL (http, https or file) of the folder that has `NAME.h5`. Without it the environment
        variable `KVSIM_TRACES_URL` counts, then the line in `kvsim/traces_url` of
        `$XDG_CONFIG_HOME` (`~/.config`). No server is built in.
    progress : bool or callable, optional
        None: a bar on terminals and in notebooks; or called with (bytes received, all bytes).

    Returns
    -------
    Trace
        The trace in the file.

    Raises
    ------
    UsageError
        For a name that is not listed or has no published file, no or a wrong URL, a file at
        `path` with other contents, or an answer 404.
    DataError
        If the server has a file of another size or digest.
    KvsimError
        If the server cannot be reached, or the file cannot be written.

    Examples
    --------
    >>> trace = kvsim.get_trace("tiny-retriever", url="https://example.org/traces")
    """
    fetch(entry_named(name), output_of(name, path), url, progress)
    return Trace(output_of(name, path))


def output_of(name: str, path: str | os.PathLike[str] | None) -> Path:
    """The file that a trace is written to."""
    return Path(f"{name}.h5" if path is None else path)


def fetch(entry: Entry, path: Path, url: str | None, progress: Progress) -> bool:
    """Fetches the file of the entry, unless it is there: then it returns False."""
    if entry.sha256 is None or entry.bytes is None:
        raise UsageError(
            f"{entry.name}: nobody has published its file; kvsim traces make {entry.name} makes it"
        )
    if exists(path):
        if is_file(path) and _is_listed(path, entry):
            return False
        raise UsageError(
            f"{path}: there is something else of that name; remove it first, or name another"
        )
    from .download import download  # whose libraries take long to import

    part = path.with_name(path.name + ".part")
    with reporter(progress, "B") as report:
        address = url_of(entry.name, url)
        watch = report or (lambda done, total: None)
        download(address, part, entry.bytes, entry.sha256, watch)
    try:
        part.replace(path)
    except OSError as error:
        raise KvsimError(f"{path}: cannot be written: {error.strerror}") from error
    return True


def _is_listed(path: Path, entry: Entry) -> bool:
    from .download import sha256_of

    if path.stat().st_size != entry.bytes:
        return False
    with path.open("rb") as file:
        return sha256_of(file) == entry.sha256
