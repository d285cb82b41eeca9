"""Whose code a policy of a submission is: that of its version of kvsim, or somebody's own."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from kvsim import _engine
from kvsim.errors import UsageError

ROOT = Path(__file__).resolve().parents[3]
BUILT_IN, OWN, NOT_COMPARED, UNKNOWN = "built-in", "own code", "not compared", "unknown"
VERSION = re.compile(r"\d+\.\d+\.\d+(?:\+g([0-9a-f]{7,40}))?(\.dirty)?")
RESULTS_VERSION = "results version"
_SCRIPT = "policies/registry/source_digests.cmake"


def whose(policy: str, policy_code: str, version: str | None) -> str:
    """BUILT_IN or OWN; NOT_COMPARED where neither this package nor the sources here are of that
    version, or for a policy whose code is not that of one file each; UNKNOWN without a code."""
    if not policy_code:
        return UNKNOWN
    known = _registered(policy)
    if known is None:
        return OWN
    if policy_code == known["policy_code"]:
        return BUILT_IN
    if version == _engine.version():
        return OWN
    revision = VERSION.fullmatch(version or "")
    digests = of_revision(revision[1]) if revision and revision[1] and not revision[2] else None
    expected = None if digests is None else code_of(policy, digests)
    if expected is None:
        return NOT_COMPARED
    return BUILT_IN if policy_code == expected else OWN


def code_of(policy: str, digests: Mapping[str, str]) -> str | None:
    """As policy_code() of sim/results/policy_code.cpp; None if its code is in other files too."""
    parts = [part.partition(":")[0].replace("-", "_") for part in policy.split("+")]
    files = [digests.get(f"policies/{part}.cpp") for part in parts]
    if "@" in policy or None in files:  # an allocation, an oracle, or what had another name then
        return None
    text = f"{digests[RESULTS_VERSION]} {' '.join(files)}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_oracle(policy: str) -> bool:
    known = _registered(policy)
    return known is not None and bool(known["is_oracle"])


@cache
def of_revision(revision: str) -> dict[str, str] | None:
    """The digests of source files at a revision of this repository, and its RESULTS_VERSION.

    None where git does not have the revision, or CMake is missing.
    """
    if None in (shutil.which("git"), shutil.which("cmake")):
        return None
    folders = ["policies", "oracle", "sim/base", "sim/sweep", "sim/results/version.h"]
    git = ["git", "-C", str(ROOT), "archive", revision, *folders]
    packed = subprocess.run(git, capture_output=True)
    if packed.returncode != 0:
        return None
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
        return of_sources(Path(folder))


def of_sources(root: Path) -> dict[str, str]:
    """The same of sources in a folder."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "digests.cpp")
        command = [
            "cmake",
            "-D",
            f"ROOT={root}",
            "-D",
            f"OUTPUT={output}",
            "-P",
            str(root / _SCRIPT),
        ]
        subprocess.run(command, check=True, capture_output=True)
        found = dict(re.findall(r'\{"([^"]+)", "([0-9a-f]{64})"\}', output.read_text()))
    header = (root / "sim/results/version.h").read_text()
    return found | {RESULTS_VERSION: re.search(r"kResultsVersion = (\d+);", header)[1]}


def _registered(policy: str) -> dict | None:
    try:
        (found,) = _engine.specs(policy, "uniform")
    except UsageError:
        return None
    return found
