"""Times H2O written in Python, as numpy and as a C function, and the engine's own.

Prints a table and writes the measurements as JSON. It needs the package, its engine and numba.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import numba
import numpy as np

import kvsim

STEP_BY_STEP = "the engine's, step by step"
# What is timed, and the goals: at most so many times the engine's own, which there calls C++ where
# these call Python or C.
CASES = {
    STEP_BY_STEP: ("h2o", None),
    "numpy": ("numpy-h2o", 3.0),
    "C function of numba": ("cfunc-h2o", 1.3),
}


class NumpyH2O(kvsim.Policy):
    name = "numpy-h2o"

    def __init__(self, budget):
        self.rules = kvsim.Rules(protect_newest=int(np.floor(0.5 * budget + 0.5)))

    def update(self, step, scores):
        scores += step.attention


class FunctionH2O(NumpyH2O):
    name = "cfunc-h2o"

    @numba.cfunc(kvsim.update_signature)
    def update(step, scores, state):
        seen = numba.carray(step, 1)[0]
        attention = numba.carray(seen.attention, seen.num_tokens)
        total = numba.carray(scores, seen.num_tokens)
        for slot in range(seen.num_tokens):
            total[slot] += attention[slot]
        return 0


def heads(count, tokens, dim, seed=1):
    """Heads with a sink, a local band and some tokens that all queries read."""
    random = np.random.default_rng(seed)
    key = random.normal(size=(count, tokens, dim)).astype(np.float32)
    query = 0.5 * key + random.normal(size=(count, tokens, dim)).astype(np.float32)
    heavy = random.choice(tokens, tokens // 50, replace=False)
    common = random.normal(size=dim).astype(np.float32)
    query += 0.3 * common
    key[:, heavy] += 2 * common
    key[:, 0] += 3 * common
    value = random.normal(size=(count, tokens, dim)).astype(np.float32)
    return kvsim.Trace.from_arrays(query, key, value, num_layers=1)


def seconds(trace, policy, options):
    start = time.perf_counter()
    frame = kvsim.sweep(trace, policy, ["20%"], progress=False, **options)
    return time.perf_counter() - start, frame


def measure(trace, options, repeats):
    """Medians of rounds over all cases, so that what else the machine does disturbs all alike."""
    taken = {case: [] for case in CASES}
    rows = {}
    for policy, _ in CASES.values():
        seconds(trace, policy, options)
    for _ in range(repeats):
        for case, (policy, _) in CASES.items():
            spent, rows[case] = seconds(trace, policy, options)
            taken[case].append(spent)
    for frame in rows.values():
        if not (frame.evictions == rows[STEP_BY_STEP].evictions).all():
            raise SystemExit("bench: error: the policies did not evict alike")
    return {case: statistics.median(spent) for case, spent in taken.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    trace = heads(options.heads, options.tokens, options.head_dim)
    # Without the reference all policies are replayed step by step, and nothing else is timed.
    medians = measure(trace, {"threads": options.threads, "reference": "none"}, options.repeats)
    measured = []
    for case, (_, goal) in CASES.items():
        row = {
            "case": case,
            "ms_per_head": 1e3 * medians[case] / options.heads,
            "us_per_step": 1e6 * medians[case] / options.heads / options.tokens,
            "ratio": medians[case] / medians[STEP_BY_STEP],
            "goal": goal,
        }
        measured.append(row)
        met = goal is None or row["ratio"] <= goal
        verdict = "" if goal is None else f"at most {goal}x: {'met' if met else 'missed'}"
        times = f"{row['ms_per_head']:8.2f} ms per head{row['us_per_step']:8.2f} us per step"
        print(f"{case:<28}{times}{row['ratio']:7.2f}x  {verdict}")
    if options.json:
        shape = {key: value for key, value in vars(options).items() if key != "json"}
        report = {**shape, "kvsim": kvsim.__version__, "python": sys.version.split()[0]}
        options.json.write_text(json.dumps({**report, "cases": measured}, indent=1) + "\n")


if __name__ == "__main__":
    main()
