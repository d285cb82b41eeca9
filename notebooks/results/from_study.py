"""Writes submissions/smollm2-135m-tables.sqlite from the tables of the study: python from_study.py

The result file of the study's imposed loop, and that of its adaptive loop at 20%, are not kept, but
their numbers are, to five digits, in ../study/tables/loops.csv. What the tables lack is looked up:
texts and their tokens in the submission that has the other rows of the adaptive loop, and bytes
follow from the budget, since every policy there fills it. All else stays NULL.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pandas as pd
from results_table import codes, submission

from kvsim import _engine

HERE = Path(__file__).resolve().parent
LOOPS = HERE.parent / "study/tables/loops.csv"
MEASURED = HERE / "submissions/smollm2-135m.sqlite"
OUTPUT = HERE / "submissions/smollm2-135m-tables.sqlite"
ABOUT = {
    "name": OUTPUT.stem,
    "submitted_by": "the kvsim project",
    "submitted": "2026-11-28",
    "texts": "notebooks/study/texts.jsonl",
    "note": (
        "The study of record: both loops at 20%, and the imposed loop with oracles. Numbers have "
        "five digits."
    ),
    "exception": (
        "Converted from notebooks/study/tables/loops.csv, as the result file was not kept: "
        "measured in November 2026 by revisions up to 0.1.0+g63a31bd, from two "
        "recordings of the texts; who wrote which row, and with which code of a policy, is not "
        "known."
    ),
}
FROM_TABLE = [
    "model_id", "sequence", "policy", "budget", "mode", "loop", "nll_full", "delta_nll", "kl_mean",
    "top1_agreement", "answers", "answers_right_full", "answers_right", "kept_overlap",
]  # fmt: skip
OF_TEXT = ["text_id", "model", "steps", "prompt_length", "spans_id", "device"]
# 30 layers, 3 KV heads, a key and a value of 64 numbers in float32.
BYTES_PER_TOKEN = 30 * 3 * 2 * 64 * 4


def rows() -> pd.DataFrame:
    """Rows of the table closed_loop: what the other submission has not."""
    loops = pd.read_csv(LOOPS)
    loops = loops[(loops["loop"] == "imposed") | (loops["point"] == "20%")]
    texts = submission.read(MEASURED).measured["closed_loop"].groupby("sequence")[OF_TEXT].first()
    found = loops[FROM_TABLE].assign(
        seed=0, trace_id=loops["recording"], budget_request=loops["point"]
    )
    found = found.join(texts, on="sequence")
    names = found["policy"].str.partition(":")[0]
    # `topk` keeps all tokens and attends to some; a layer of `spatten` may hold less than allowed.
    held = found["budget"].where(names != "topk", found["steps"])
    return found.assign(
        peak_tokens=held, cache_bytes=(held * BYTES_PER_TOKEN).where(names != "spatten")
    )


def main() -> None:
    frame = rows()
    whole = ["answers", "answers_right_full", "answers_right", "peak_tokens", "cache_bytes"]
    frame[whole] = frame[whole].astype("Int64")
    records = frame.astype(object).where(frame.notna(), None).to_dict("records")
    policies = sorted(set(frame["policy"]))
    of_policies = [(name, "", codes.UNKNOWN, int(codes.is_oracle(name))) for name in policies]
    with tempfile.TemporaryDirectory(dir=OUTPUT.parent) as folder:
        aside = Path(folder, OUTPUT.name)
        file = _engine.ClosedLoopFile(str(aside))
        file.add(records)
        file.close()
        submission.describe(aside, ABOUT, of_policies)
        aside.replace(OUTPUT)


if __name__ == "__main__":
    main()
