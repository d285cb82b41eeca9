"""Lets one call after another fail in a script: tests/faults/preload/failing_calls.c.

A test calls run(), its script each_end().
"""

import ctypes
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from nightly import sample_of

PRELOAD = Path(__file__).parents[1] / "faults" / "preload"
COMPILER = shutil.which("cc") or "gcc"


def run(script: str, folder: Path, strides: dict[str, int]) -> None:
    """Runs a script with the argument `files`. It prints how many ends it saw.

    Calls count for the files of `files`, a new folder below `folder`. `strides`: which calls fail,
    by kind, every so many-th of them; by night all.
    """
    library, files = folder / "failing_calls.so", folder / "files"
    files.mkdir()
    flags = ["-std=gnu11", "-shared", "-fPIC", "-fvisibility=hidden", "-o", library]
    subprocess.run([COMPILER, *flags, PRELOAD / "failing_calls.c"], check=True)
    environment = dict(
        os.environ,
        LD_PRELOAD=str(library),
        KVSIM_FAIL_UNDER=f"{files}/",
        KVSIM_FAIL_TALLY=str(folder / "tally"),
        PYTHONPATH=os.pathsep.join([*sys.path, str(Path(__file__).parent)]),
    )
    strides = sample_of(strides, dict.fromkeys(strides, 1))
    done = subprocess.run(
        [sys.executable, "-c", script, files, json.dumps(strides)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 2 * len(strides)


def each_end(work: Callable[[], object]) -> Iterator[tuple[str, int]]:
    """Which call fails, and the status of a process in which it did.

    That is 0 if `work` returned, 1 if it raised, negative for a signal, SIGALRM if it hung; 255 or
    a signal is what libraries may end with when a call fails. The last one of each kind is of a
    process in which no call failed any more.
    """
    calls = ctypes.CDLL(os.environ["LD_PRELOAD"])
    calls.kvsim_fail_calls.argtypes = [ctypes.c_char_p, ctypes.c_int64]
    tally = Path(os.environ["KVSIM_FAIL_TALLY"])
    for kind, stride in json.loads(sys.argv[2]).items():
        at, failed = 1, True
        while failed:
            child = os.fork()  # HDF5 may end a process in which a write failed
            if child == 0:
                signal.alarm(60)
                calls.kvsim_fail_calls(kind.encode(), at)
                try:
                    work()
                except BaseException:
                    os._exit(1)
                os._exit(0)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            failed = struct.unpack("<qq", tally.read_bytes())[1] > 0
            yield f"{kind} {at}", status
            at += stride
