"""Rows of the table `task_answer`, as a harness writes them, for tests of the report."""

import re
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from kvsim import _engine

TOVA = "tova:scope=head,score=cached"
# What each policy keeps of the answers: all, three quarters, half, a quarter.
RIGHT = {"full": 4, "h2o": 3, "tova": 2, "window": 1}


@cache
def table():
    """How the engine makes the table, where there is none."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "r.sqlite"
        _engine.ClosedLoopFile(str(path), answers=True).close()
        with closing(sqlite3.connect(path)) as connection:
            ((made,),) = connection.execute(
                "SELECT sql FROM sqlite_master WHERE name = 'task_answer'"
            )
    return made.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", 1)


def answer(file, policy="window", right=None, **values):
    """A row of `file`, a ResultFile: of four answers, by default, as many right as RIGHT says."""
    file.connection.execute(table())
    name = re.split("[:+@]", policy)[0]
    row = {
        "model_id": "b" * 64, "sequence": "one", "turn": 1, "policy": policy, "budget": 200,
        "mode": "prefill:interval=never", "question": "unseen", "most_tokens": 0, "seed": 0,
        "text_id": "c" * 64,
        "model": "tiny", "budget_request": "20%", "task": "niah-single", "length": 1000,
        "in_view": 0, "answers": 4, "answers_right": RIGHT.get(name, 2) if right is None else right,
        "nll": 0.5, "peak_tokens": 200, "cache_bytes": 4096, "device": "cpu",
        "kvsim_version": "0.1.0", "policy_code": "0123456789abcdef",
        "run_id": "20260101T000000Z-00000000",
    }  # fmt: skip
    if name == "full":
        row |= {"budget": row["length"], "budget_request": "100%", "peak_tokens": row["length"]}
    file.add("task_answer", **{**row, **values})


def needles(file, policies, lengths=(512, 1024), depths=(0.0, 0.5, 1.0), texts=1, **values):
    """A needle at each depth in contexts of each length: deep ones are lost in long contexts."""
    for length in lengths:
        for depth in depths:
            for text in range(texts):
                for policy in policies:
                    lost = 1 if depth < 1 and length > min(lengths) and policy != "full" else 0
                    right = max(0, RIGHT[re.split("[:+@]", policy)[0]] - lost)
                    key = {"sequence": f"niah {length} {depth} {text}", "depth": depth}
                    key |= {"length": length - 3, "length_request": length}
                    answer(file, policy, right, **key | values)
    return file
