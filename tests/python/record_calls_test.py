"""Whichever call for a file or for memory fails, no trace, no scores and no budgets are wrong."""

from failing_calls import run

SCRIPT = """
import signal, sys
from pathlib import Path
import torch
import kvsim
from failing_calls import each_end
from record_zoo import build, letters, tokens

folder, elsewhere = Path(sys.argv[1]), Path(sys.argv[1]).parent
model = build("llama")

def record(path, **options):
    with kvsim.recording(model, path, **options), torch.no_grad():
        model(tokens(8))

def record_unpacked(path):
    record(path, compression="none", layers=[0])

def read_again(scores, budgets):
    kvsim.second_reading(
        model, trace, scores, tokenizer=letters(), reads="text", budgets=budgets, progress=False
    )

def ends_of(work, names):
    # `work` writes files of these names, one after the other.
    work(*(elsewhere / name for name in names))
    expected = {name: (elsewhere / name).read_bytes() for name in names}
    ends = 0
    for at, status in each_end(lambda: work(*(folder / name for name in names))):
        left = {path.name for path in folder.iterdir()}
        there = [name for name in names if name in left]
        assert status != -signal.SIGALRM, at
        has_died = status < 0 or status == 255  # the next one removes what this one left
        assert has_died or left == {*there}, (at, status, left)
        assert there == names if status == 0 else there == names[: len(there)], (at, there)
        for name in there:
            assert (folder / name).read_bytes() == expected[name], (at, status)
            (folder / name).unlink()
        ends += 1
    return ends

ends = ends_of(record, ["t.h5"]) + ends_of(record_unpacked, ["n.h5"])
trace = kvsim.Trace(elsewhere / "t.h5")
print(ends + ends_of(read_again, ["s.h5", "b.npy"]))
"""


def test_whichever_call_fails_while_a_trace_or_scores_are_written_no_file_is_wrong(tmp_path):
    run(SCRIPT, tmp_path, {"write": 23, "sync": 1, "rename": 1, "open": 11, "memory": 9001})
