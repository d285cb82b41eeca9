"""Runs the kvsim program."""

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

from ..errors import KvsimError


class ProgramError(KvsimError):
    """The program was not found, or it failed. A failed program's error is the message."""


def find_program() -> str:
    """Finds the program and returns its path.

    It takes the program that KVSIM_PROGRAM names; else build/kvsim in the current folder or a
    folder above it; else the one that was installed with this package; else `kvsim` on the PATH.
    Raises ProgramError if there is none.
    """
    named = os.environ.get("KVSIM_PROGRAM")
    if named:
        found = shutil.which(named)
        if found is None:
            raise ProgramError(f"KVSIM_PROGRAM: there is no program {named}")
        return found
    here = Path.cwd()
    for folder in (here, *here.parents):
        built = folder / "build" / "kvsim"
        if built.is_file():
            return str(built)
    users = sysconfig.get_preferred_scheme("user")  # of pip install --user
    installed = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", users)]
    for folder in (*installed, None):
        found = shutil.which("kvsim", path=folder)
        if found is not None:
            return found
    raise ProgramError(
        "the program kvsim is missing: install kvsim again (pip install WHEEL), or run make build "
        "in the source folder, or name it in KVSIM_PROGRAM"
    )


def run(*arguments: object) -> str:
    """Runs `kvsim ARGUMENTS` and returns what it prints.

    Parameters
    ----------
    *arguments : object
        The words of the command line; each is taken as its text.

    Returns
    -------
    str
        What the program prints on standard output.

    Raises
    ------
    ProgramError
        If the program is missing, cannot be run, or fails.

    Notes
    -----
    It runs the program that the variable KVSIM_PROGRAM names; else build/kvsim in the current
    folder or a folder above it; else the one that was installed with this package; else `kvsim` on
    the PATH.

    Examples
    --------
    >>> kvsim.run("sweep", "trace.h5", "--policies", "h2o", "--budgets", "20%", "-o", "r.sqlite")
    """
    return run_noting(*arguments)[0]


def run_noting(*arguments: object) -> tuple[str, list[str]]:
    """Runs the program as `run`. Returns what it prints and the lines of its standard error."""
    words = [find_program(), *map(str, arguments)]
    try:
        ended = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ProgramError(f"{words[0]} cannot be run: {error.strerror}") from error
    lines = ended.stderr.strip().splitlines()
    if ended.returncode != 0:
        raise ProgramError(lines[-1] if lines else f"kvsim ended with status {ended.returncode}")
    return ended.stdout, lines
