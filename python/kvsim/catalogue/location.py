"""From where files are fetched: no host is built in, so the user names one."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote, urlsplit

from ..errors import UsageError
from ..files.paths import is_file

VARIABLE = "KVSIM_TRACES_URL"
SCHEMES = ("http", "https", "file")


def settings_file() -> Path:
    """The file whose only line is the URL: kvsim/traces_url in the user's configuration."""
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "kvsim" / "traces_url"


def base_url(url: str | None) -> str:
    """The URL of the folder of files: `url`, else the environment's, else the file's.

    Raises UsageError if none is named, or if it is no URL that can be read.
    """
    found, source = _first_named(url)
    parts = urlsplit(found)
    has_place = parts.netloc or (parts.scheme == "file" and parts.path)
    if parts.scheme not in SCHEMES or not has_place or parts.query or parts.fragment:
        raise UsageError(
            f"{source}: expected the URL of a folder, as in https://host/traces, found '{found}'"
        )
    return found.rstrip("/")


def url_of(name: str, url: str | None) -> str:
    """The URL of the file of a trace."""
    return f"{base_url(url)}/{quote(name)}.h5"


def _first_named(url: str | None) -> tuple[str, str]:
    if url is not None:
        return url, "the URL of the server"
    if os.environ.get(VARIABLE):
        return os.environ[VARIABLE], VARIABLE
    file = settings_file()
    if not is_file(file):
        raise UsageError(
            f"no server is named; name its URL (--url, or the argument url), or set {VARIABLE}, or "
            f"write the URL to {file}"
        )
    try:
        return file.read_text("utf-8").strip(), str(file)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: expected one line, a URL; it cannot be read: {error}") from error
