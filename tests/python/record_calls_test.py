"""Whichever call for a file or for memory fails while a trace is recorded, no trace is wrong."""

from failing_calls import run

SCRIPT = """
import signal, sys
from pathlib import Path
import torch
from failing_calls import each_end
from kvsim.record import recording
from record_zoo import build, tokens

folder = Path(sys.argv[1])
model = build("llama")

def record(path):
    with recording(model, path), torch.no_grad():
        model(tokens(8))

record(folder / "expected.h5")
expected = (folder / "expected.h5").read_bytes()
found = folder / "t.h5"
ends = 0
for at, status in each_end(lambda: record(found)):
    left = {path.name for path in folder.iterdir()} - {"expected.h5", "t.h5"}
    assert status != -signal.SIGALRM, at
    has_died = status < 0 or status == 255  # the next one removes what this one left
    assert has_died or not left, (at, status, left)
    assert status != 0 or found.exists(), at
    assert not found.exists() or found.read_bytes() == expected, (at, status)
    found.unlink(missing_ok=True)
    ends += 1
print(ends)
"""


def test_whichever_call_fails_while_a_trace_is_recorded_no_trace_is_wrong(tmp_path):
    run(SCRIPT, tmp_path, {"write": 3, "sync": 1, "rename": 1, "open": 2, "memory": 3001})
