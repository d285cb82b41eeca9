"""What a sweep over a recording of a small real model costs, by policy and by part.

    python tests/bench/real_sweep.py                       # a synthetic trace of that shape
    python tests/bench/real_sweep.py --trace recorded.h5   # a recording, all of it
    python tests/bench/real_sweep.py --against OTHER       # another program, in turns
    python tests/bench/real_sweep.py --parts               # also by part, with perf

The shape is that of SmolLM2-135M: 1,090 tokens, 9 query and 3 KV heads, head dimension 64, output
projections and four samples of gradients. CPU time of one thread; the lowest of the rounds.
"""

import argparse
import re
import resource
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

# Those of notebooks/study, at its middle budgets, and lru.
POLICIES = [
    *["h2o", "snapkv", "vatp", "kcenter", "random+protect", "sink", "lookback", "valuediff"],
    *["scissorhands", "tova", "keydiff", "window", "optimal", "lookahead", "lru"],
]
BUDGETS = "10%,20%"
SHAPE = "--tokens 1090 --layers 3 --query-heads 9 --kv-heads 3 --head-dim 64 --hidden 576"

# The first that a symbol matches counts. The panels multiply queries and keys, and projections:
# what a sweep of `full` has of them is the former.
PANELS = "multiply_panel"
PARTS = {
    "reading": r"H5|deflate|Packed|HeadDataset|convert<|XXH|read_",
    "records": r"sqlite|SQLite|ResultStore",
    "gradients": r"ScoreGradients|multiply_by_column",
    "projected errors": rf"LayerErrors|KeyPanels|{PANELS}",
    "exact attention": r"CpuPass|exponentials|weigh_|mark_|arrange_by_token|summarise_weights",
    "outputs of caches": r"RetainedOutputs|TreeSums|add_all|sum_of_terms|add_squares|tree|common"
    r"|output_difference|weighted_values|accurac|add_in_double|kvsim::add_values",
    "weights and recall": r"MeasuredAttention|CachedAttention|StepAttention|ScoreReplay|gather_rows"
    r"|sum_rows|PolicyReplay|PolicySteps|Cache::|add_scaled_avx512.*float|group_mean",
    "metrics": r"Metrics|UnitRecord|percentile|set_error",
    "memory": r"malloc|free|memset|memmove|memcpy|page_fault|operator new|operator delete",
}
REST = "policies and plans"


def sweep_command(program: str, trace: Path, policies: list[str], results: Path) -> list[str]:
    results.unlink(missing_ok=True)
    command = [program, "sweep", str(trace), "--policies", ";".join(policies), "-q"]
    return [*command, "--budgets", BUDGETS, "--threads", "1", "-o", str(results)]


def cpu_seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def seconds_by_part(program: str, trace: Path, policies: list[str], folder: Path) -> dict:
    """The CPU seconds of each part, from samples of perf."""
    samples = folder / "samples"
    command = sweep_command(program, trace, policies, folder / "results.sqlite")
    perf = ["perf", "record", "-q", "-F", "997", "-o", str(samples), "--", *command]
    seconds = cpu_seconds(perf)
    report = ["perf", "report", "-i", str(samples), "--stdio", "--no-children", "-w", "8,200"]
    lines = subprocess.run(
        [*report, "--sort", "sym"], check=True, capture_output=True, text=True
    ).stdout
    found = dict.fromkeys([*PARTS, PANELS, REST], 0.0)
    for percent, symbol in re.findall(r"^ *([\d.]+)% +\[.\] (.*)$", lines, re.MULTILINE):
        part = next((name for name, known in PARTS.items() if re.search(known, symbol)), REST)
        found[part] += float(percent) / 100 * seconds
        if PANELS in symbol:
            found[PANELS] += float(percent) / 100 * seconds
    return found


def print_parts(program: str, trace: Path, folder: Path) -> None:
    everything = seconds_by_part(program, trace, POLICIES, folder)
    queries_and_keys = seconds_by_part(program, trace, ["full"], folder)[PANELS]
    everything["projected errors"] -= queries_and_keys
    everything["exact attention"] += queries_and_keys
    print("\n| part | CPU s |\n| --- | --- |")
    for part in [*PARTS, REST]:
        print(f"| {part} | {everything[part]:.2f} |")


def print_policies(programs: list[str], trace: Path, rounds: int, folder: Path) -> None:
    results = folder / "results.sqlite"
    lowest: dict[tuple[str, str], float] = {}
    for _ in range(rounds):
        for name in ["full", *POLICIES, "all"]:
            for program in programs:
                policies = POLICIES if name == "all" else [name]
                seconds = cpu_seconds(sweep_command(program, trace, policies, results))
                lowest[name, program] = min(lowest.get((name, program), seconds), seconds)
    replays = sqlite3.connect(results).execute("select count(*) from replay").fetchone()[0]
    each = replays / len(POLICIES)
    head = "".join(f" {program} |" for program in programs)
    print(f"\n{replays} replays\n\n| ms a replay, `full` left out |{head}")
    print("| --- |" + " --- |" * len(programs))
    for name in POLICIES:
        of = [1e3 * (lowest[name, p] - lowest["full", p]) / each for p in programs]
        print(f"| `{name}` |" + "".join(f" {ms:.1f} |" for ms in of))
    for label, name in [("CPU s, `full`", "full"), ("CPU s, all together", "all")]:
        print(f"| {label} |" + "".join(f" {lowest[name, p]:.2f} |" for p in programs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/kvsim")
    parser.add_argument("--against", help="another program, which runs in turns with this one")
    parser.add_argument("--trace", type=Path, help="in place of a synthetic one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", action="store_true", help="also by part; needs perf")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trace = options.trace
        if trace is None:
            trace = folder / "trace.h5"
            synth = [options.program, "synth", "-q", "--no-output", "-o", str(trace)]
            subprocess.run([*synth, "--gradient-samples", "4", *SHAPE.split()], check=True)
        programs = [program for program in (options.against, options.program) if program]
        print_policies(programs, trace, options.rounds, folder)
        if options.parts:
            for program in programs:
                print_parts(program, trace, folder)


if __name__ == "__main__":
    sys.exit(main())
