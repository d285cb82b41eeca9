"""What installed packages declare as entry points: names, without their code.

The metadata of packages is read when a name is not known or a list is made.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from ..errors import UsageError
from ..errors.terminal import printable

if TYPE_CHECKING:  # loaded on use: it takes as long as much of the package
    from importlib import metadata

POLICIES, SELECTORS = "kvsim.policies", "kvsim.selectors"
KINDS = {POLICIES: "policy", SELECTORS: "selector"}
SECONDS_KEPT = 5  # as long metadata and failures stand: a result file asks once per row


class Package(NamedTuple):
    """The package of a policy or selector."""

    name: str
    version: str
    module: str = ""  # the digest of the source of the class's module

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class Declared(NamedTuple):
    """One entry point."""

    group: str
    name: str
    value: str
    package: Package
    entry: metadata.EntryPoint

    def error(self, found: str, fix: str) -> UsageError:
        """An error that names the package."""
        return UsageError(f"{KINDS[self.group]} '{self.name}' of {self.package}: {found}; {fix}")


def declared(group: str) -> dict[str, list[Declared]]:
    """What installed packages declare, by name; nothing if KVSIM_NO_PLUGINS is set, but for 0."""
    if os.environ.get("KVSIM_NO_PLUGINS", "0") not in ("", "0"):
        return {}
    return _read(group, time.monotonic() // SECONDS_KEPT)


def package_of(cls: type, group: str) -> Package | None:
    """The package that declares a class, which its attribute keeps; None: none does."""
    if "_kvsim_package" not in vars(cls):
        cls._kvsim_package = _package_of(cls, group)
    return cls._kvsim_package


def set_package(cls: type, package: Package) -> None:
    """Keeps the package that declares a class, also where another one's module has its code."""
    cls._kvsim_package = package._replace(module=_digest_of(cls.__module__))


def code_with_package(code: str, package: Package | None) -> str:
    """The digest of a class from that of its own code, its package and its module."""
    if package is None:
        return code
    return hashlib.sha256(" ".join([code, *package]).encode()).hexdigest()


@functools.lru_cache(maxsize=4)
def _read(group: str, moment: float) -> dict[str, list[Declared]]:
    """`moment`: it is read again when that changes."""
    found: dict[str, list[Declared]] = {}
    for entry in _entries(group):
        # A folder of metadata without a file METADATA has no name, and raises in some versions.
        package = Package("a package without a name", "")
        with contextlib.suppress(Exception):
            package = Package(_one_line(entry.dist.metadata["Name"]), _one_line(entry.dist.version))
        found.setdefault(entry.name, []).append(
            Declared(group, entry.name, entry.value, package, entry)
        )
    return found


def _entries(group: str) -> list[metadata.EntryPoint]:
    from importlib import metadata

    try:
        return list(metadata.entry_points(group=group))
    except Exception:  # a file that is damaged: the other packages count
        found = {}
        for package in metadata.distributions():
            with contextlib.suppress(Exception):  # the first of a name hides later ones
                found.setdefault(package.metadata["Name"], package.entry_points.select(group=group))
        return [entry for entries in found.values() for entry in entries]


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))


def _package_of(cls: type, group: str) -> Package | None:
    top = cls.__module__.partition(".")[0]
    if top in ("__main__", "kvsim"):
        return None
    for each in _read(group, time.monotonic() // SECONDS_KEPT).get(cls.name, []):
        if each.value.partition(":")[0].partition(".")[0].strip() == top:
            return each.package._replace(module=_digest_of(cls.__module__))
    return None


def _digest_of(module: str) -> str:
    """That of a module's file; of one without a file, of nothing."""
    try:
        specification = sys.modules[module].__spec__
        source = specification.loader.get_data(specification.origin)
    except (AttributeError, KeyError, OSError, TypeError):
        return ""
    return hashlib.sha256(source).hexdigest()
