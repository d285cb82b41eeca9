"""Whichever call for a file fails while a trace is recorded, no trace is wrong."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PRELOAD = Path(__file__).parents[1] / "faults" / "preload"
COMPILER = shutil.which("cc") or "gcc"
SCRIPT = """
import ctypes, os, struct, sys
from pathlib import Path
import torch
from kvsim.record import recording
from record_zoo import build, tokens

calls = ctypes.CDLL(os.environ["LD_PRELOAD"])
calls.kvsim_fail_calls.argtypes = [ctypes.c_char_p, ctypes.c_int64]
folder, kind = Path(sys.argv[1]), sys.argv[2]
model = build("llama")

def record(path):
    with recording(model, path), torch.no_grad():
        model(tokens(8))

def end_of_recording(at):
    child = os.fork()  # HDF5 may end a process in which a write failed
    if child == 0:
        calls.kvsim_fail_calls(kind.encode(), at)
        try:
            record(found)
            os._exit(0)
        except Exception:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

record(folder / "expected.h5")
expected = (folder / "expected.h5").read_bytes()
found = folder / "t.h5"
for at in range(1, 100_000):
    found.unlink(missing_ok=True)
    status = end_of_recording(at)
    failed = struct.unpack("<qq", (folder / "tally").read_bytes())[1]
    left = {path.name for path in folder.iterdir()} - {"expected.h5", "t.h5", "tally"}
    assert status < 0 or not left, (at, status, left)  # the next one removes what this one left
    assert status != 0 or found.exists(), at
    assert not found.exists() or found.read_bytes() == expected, (at, status)
    if not failed:
        break
print(at)
"""


@pytest.mark.parametrize("kind", ["write", "sync", "rename", "open"])
def test_whichever_call_fails_while_a_trace_is_recorded_no_trace_is_wrong(tmp_path, kind):
    library, folder = tmp_path / "failing_calls.so", tmp_path / "files"
    folder.mkdir()
    flags = ["-std=gnu11", "-shared", "-fPIC", "-fvisibility=hidden", "-o", library]
    subprocess.run([COMPILER, *flags, PRELOAD / "failing_calls.c"], check=True)
    environment = dict(
        os.environ,
        LD_PRELOAD=str(library),
        KVSIM_FAIL_UNDER=f"{folder}/",
        KVSIM_FAIL_TALLY=str(folder / "tally"),
        PYTHONPATH=os.pathsep.join([*sys.path, str(Path(__file__).parent)]),
    )
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, folder, kind],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 1
