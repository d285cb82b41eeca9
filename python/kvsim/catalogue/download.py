"""Brings a file from a URL, in several attempts if need be, and checks its size and digest."""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from ..errors import DataError, KvsimError, UsageError

BLOCK = 1 << 16  # bytes that are read at once
ATTEMPTS = 6  # in succession without PROGRESS
PROGRESS = 1 << 20  # bytes after which attempts are counted anew
TIMEOUT = 60  # seconds without a byte
PASSING = (429, 500, 502, 503, 504)  # statuses that another attempt may not meet

pause = time.sleep

Report = Callable[[int, int], object]


class _Dropped(Exception):
    """The connection or the server failed in a way that may pass."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows to http and https alone, and not from https to http."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        old, new = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if new != old and (old, new) != ("http", "https"):
            raise KvsimError(f"{req.full_url}: redirects to {newurl}, which is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)

    def http_error_302(self, req, fp, code, msg, headers):
        # The base class refuses other schemes with a message of its own, before it asks above.
        place = headers.get("location") or headers.get("uri") or ""
        if urlsplit(place).scheme not in ("", "http", "https"):
            raise KvsimError(f"{req.full_url}: redirects to {place}, which is not followed")
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def download(url: str, part: Path, size: int, sha256: str, report: Report) -> None:
    """Completes `part` from `url`; it then has this size and digest.

    What it holds already is kept if the server sends the rest of the same file, which the name of
    the version in `PART.etag` tells. Raises UsageError where there is no such file or another
    process fetches it, DataError for another size or digest, and then removes `part`; else
    KvsimError, which keeps it.
    """
    with _opened(part) as file:
        try:
            _fetch(url, file, part, size, sha256, report)
        except DataError:
            part.unlink(missing_ok=True)
            raise
        finally:
            if not part.exists() or part.stat().st_size == size:
                _etag_file(part).unlink(missing_ok=True)


@contextmanager
def _opened(part: Path) -> Iterator[BinaryIO]:
    try:
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise KvsimError(f"{part}: cannot be written: {error.strerror}") from error
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(f"{part}: another process fetches it; wait for that one") from error
        yield file


def _fetch(url: str, file: BinaryIO, part: Path, size: int, sha256: str, report: Report) -> None:
    resumed = file.seek(0, os.SEEK_END) > 0
    _receive_all(url, file, part, size, report)
    found = sha256_of(file)
    if found != sha256 and resumed:  # the beginning may have been of another file
        file.truncate(0)
        _receive_all(url, file, part, size, report)
        found = sha256_of(file)
    if found != sha256:
        raise DataError(
            f"{url}: expected a file of SHA-256 {sha256}, found {found}; it is not the listed one"
        )
    os.fsync(file.fileno())


def _receive_all(url: str, file: BinaryIO, part: Path, size: int, report: Report) -> None:
    attempt, begun = 0, file.seek(0, os.SEEK_END)
    if begun > size:
        begun = file.truncate(0)
    while file.seek(0, os.SEEK_END) < size or size == 0:
        try:
            _receive(url, file, part, size, report)
            return
        except _Dropped as dropped:
            here = file.seek(0, os.SEEK_END)
            attempt, begun = (0, here) if here - begun >= PROGRESS else (attempt + 1, begun)
            if attempt >= ATTEMPTS:
                raise KvsimError(
                    f"{url}: {dropped}, {ATTEMPTS} times; {here} of {size} bytes are kept, the "
                    "same command goes on from there"
                ) from dropped
            pause(2 ** max(attempt - 1, 0))


def _receive(url: str, file: BinaryIO, part: Path, size: int, report: Report) -> None:
    """One request for what is missing. Raises _Dropped where another one may succeed."""
    here = file.seek(0, os.SEEK_END)
    etag = _etag_file(part)
    request = urllib.request.Request(url, headers={"User-Agent": "kvsim"})
    if here > 0 and url.startswith("http"):
        request.add_header("Range", f"bytes={here}-")
        if etag.exists():
            request.add_header("If-Range", etag.read_text("ascii"))
    with _answer(request, file) as answer:
        if answer.status != 206 or not _continues(answer, here):
            here = file.seek(file.truncate(0))
        _require_size(url, answer, here, size)
        version = answer.headers.get("ETag", "")
        if version.startswith('"') and version.isascii():  # a weak one may be of other bytes
            etag.write_text(version, "ascii")
        else:
            etag.unlink(missing_ok=True)
        report(here, size)
        while block := _read(answer):
            here += len(block)
            if here > size:
                raise DataError(f"{url}: expected {size} bytes, found more; not the listed file")
            _write(file, block, part)
            report(here, size)
    if here < size:
        raise _Dropped("the connection was closed early")


def _answer(request: urllib.request.Request, file: BinaryIO):
    opener = urllib.request.build_opener(_Redirects)
    url = request.full_url
    try:
        return opener.open(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        said = f"the server answers {error.code} {error.reason}"
        if error.code == 416:  # it has a shorter file than the part: begin again
            file.truncate(0)
            raise _Dropped(said) from error
        if error.code in PASSING:
            raise _Dropped(said) from error
        if error.code in (404, 410):
            raise UsageError(f"{url}: {said}; is it the right URL?") from error
        raise KvsimError(f"{url}: {said}") from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, FileNotFoundError) or url.startswith("file:"):
            raise UsageError(f"{url}: there is no such file; is it the right URL?") from error
        raise _Dropped(f"no connection ({error.reason})") from error
    except (OSError, http.client.HTTPException) as error:
        raise _Dropped(f"no connection ({error or type(error).__name__})") from error


def _read(answer) -> bytes:
    try:
        return answer.read1(BLOCK) if hasattr(answer, "read1") else answer.read(BLOCK)
    except (OSError, http.client.HTTPException) as error:
        raise _Dropped(f"the connection broke ({error or type(error).__name__})") from error


def _write(file: BinaryIO, block: bytes, part: Path) -> None:
    try:
        while block:
            block = block[file.write(block) :]
    except OSError as error:
        raise KvsimError(f"{part}: cannot be written: {error.strerror}") from error


def _continues(answer, here: int) -> bool:
    return (answer.headers.get("Content-Range") or "").startswith(f"bytes {here}-")


def _require_size(url: str, answer, here: int, size: int) -> None:
    said = answer.headers.get("Content-Length")
    if said is not None and said.isdigit() and here + int(said) != size:
        found = here + int(said)
        raise DataError(f"{url}: expected {size} bytes, found {found}; not the listed file")


def _etag_file(part: Path) -> Path:
    return part.with_name(part.name + ".etag")


def sha256_of(file: BinaryIO) -> str:
    """Of all bytes of an open file, in hexadecimal digits."""
    file.seek(0)
    digest = hashlib.sha256()
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()
