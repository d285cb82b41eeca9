"""The page that gpu/check ends with: what ran, how well it agrees with the CPU, how fast it was.

    python3 gpu/check_page.py compare FOLDER  # whether the rows of the devices agree
    python3 gpu/check_page.py write FOLDER    # FOLDER/page.md, of what gpu/check left there

FOLDER holds about.tsv (a fact's name and the fact), steps.tsv (a step, `ok`, `failed` or why it was
left out, its seconds), the two result files and device.json of tests/bench/device; what is missing
was not measured.
"""

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

BLOCK_STEPS = 64  # kSteps in gpu/kernels/batch.h
LARGEST_DIFFERENCE = 1e-4  # relative, of each measured column
ROUNDED = {"token_accesses", "token_misses", "ties"}  # counts of what rounding may decide
KEY = ["trace_id", "sequence", "layer", "kv_head", "policy", "budget", "mode", "seed"]


def read_rows(path):
    """The rows of `replay` by the columns that name a replay."""
    with closing(sqlite3.connect(path)) as database:
        database.row_factory = sqlite3.Row
        rows = database.execute("SELECT * FROM replay").fetchall()
    return {tuple(row[column] for column in KEY): dict(row) for row in rows}


def replay_of(key):
    """A replay's name without what all replays of a run have in common."""
    named = dict(zip(KEY, key))
    place = f"{named['sequence']}, layer {named['layer']}, head {named['kv_head']}"
    return f"`{named['policy'].partition(':')[0]}` at {named['budget']}, {place}"


def compare(cpu, cuda):
    """What differs between the rows of two devices, as read_rows() gives them.

    Returns a dict: `rows` and `on_cuda` count rows; `worst` has the largest relative difference of
    each measured column with its row; `counts` are integers that differ, as texts, which those in
    ROUNDED may; `agrees`.
    """
    if cpu.keys() != cuda.keys():
        missing = cpu.keys() ^ cuda.keys()
        return {
            "agrees": False,
            "counts": [f"only on one device: {replay_of(key)}" for key in sorted(missing, key=str)],
        }
    on_cuda, worst, counts, is_whole = 0, {}, [], True
    for key, row in cuda.items():
        if row["device"] != "cuda":
            continue  # the CPU's own
        on_cuda += 1
        for column, mine in row.items():
            theirs = cpu[key][column]
            if isinstance(mine, float) and isinstance(theirs, float):
                difference = abs(mine - theirs) / max(abs(theirs), 1e-6)
                if difference >= worst.get(column, (0, ""))[0]:
                    worst[column] = (difference, key)
            elif not isinstance(mine, str) and mine != theirs:
                counts.append(f"{column} {mine} for {theirs}: {replay_of(key)}")
                is_whole = is_whole and column in ROUNDED and None not in (mine, theirs)
    is_close = all(difference <= LARGEST_DIFFERENCE for difference, _ in worst.values())
    agrees = on_cuda > 0 and is_whole and is_close
    return {
        "rows": len(cuda),
        "on_cuda": on_cuda,
        "worst": worst,
        "counts": counts,
        "agrees": agrees,
    }


def table(head, rows):
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines]


def accuracy_lines(found):
    """The comparison as Markdown."""
    lines = []
    if "worst" in found:
        lines.append(f"{found['on_cuda']} of {found['rows']} rows were replayed on the GPU.")
        rows = [
            [f"`{column}`", f"{difference:.1e}", f"{replay_of(key)}"]
            for column, (difference, key) in found["worst"].items()
        ]
        lines += ["", *table(["column", "largest relative difference", "where"], rows)]
    if found["counts"]:
        some = found["counts"][:20]
        lines += [
            "",
            f"Counts that differ: {len(found['counts'])}",
            *(f"- {text}" for text in some),
        ]
    else:
        lines += ["", "All counts are equal."]
    agrees = f"to {LARGEST_DIFFERENCE:g} relative in every measured column"
    return [
        *lines,
        "",
        f"**{'The devices agree' if found['agrees'] else 'The devices do not agree'} {agrees}.**",
    ]


def product_flops(report):
    """Operations of queries times keys, or of attention times values, of one head in blocks."""
    tokens, width = report["tokens"], 0
    for first in range(0, tokens, BLOCK_STEPS):
        steps = min(BLOCK_STEPS, tokens - first)
        width += steps * (first + steps)
    return 2 * report["head_dim"] * width


def goals(report):
    """[what, measured, goal, whether it was met] of device.json."""
    cases = {case["id"]: case for case in report["cases"]}
    exact, one, forty = cases["exact"], cases["h2o"], cases["policies_budgets"]
    ceilings = report["ceilings"]
    flops = product_flops(report) * exact["kernel_heads"]
    kernels = exact["kernel_seconds"]

    def of_peak(kernel, ceiling, goal):
        share = 1e-9 * flops / kernels[kernel] / ceilings[ceiling]
        name = {"fp32_gflop_per_s": "fp32 GEMM", "fp64_gflop_per_s": "DGEMM"}[ceiling]
        return [f"`{kernel}`", f"{share:.0%} of {name}", f"{goal:.0%}", share >= goal]

    step = 1e6 * one["kernel_seconds"]["replay_steps"] / report["tokens"]
    ratio = forty["ms_per_head"] / one["ms_per_head"]
    rows = [
        of_peak("multiply_keys", "fp32_gflop_per_s", 0.75),
        of_peak("sum_values", "fp64_gflop_per_s", 0.5),
        [
            f"`replay_steps`, replays at once: {one['kernel_heads']}",
            f"{step:.2f} µs a step",
            "2 µs",
            step <= 2,
        ],
        ["forty configurations", f"{ratio:.2f} times one", "3 times", ratio <= 3],
    ]
    if "pytorch_ms_per_head" in forty:
        times = forty["pytorch_ms_per_head"] / forty["ms_per_head"]
        rows.append(["whole sweep", f"{times:.1f} times PyTorch", "30 times", times >= 30])
    else:
        rows.append(["whole sweep", "PyTorch was not measured", "30 times", None])
    return [[*row[:3], {True: "met", False: "missed", None: ""}[row[3]]] for row in rows]


def speed_lines(report):
    """The times as Markdown."""
    ceilings = report["ceilings"]
    lines = [
        f"{report['heads']} heads of {report['tokens']} tokens, {report['head_dim']} elements "
        f"each, {report['threads']} threads. Measured peaks: "
        f"{ceilings['fp32_gflop_per_s']:.0f} GFLOP/s in fp32, "
        f"{ceilings['fp64_gflop_per_s']:.0f} in fp64, copies {ceilings['copy_gb_per_s']:.0f} "
        f"GB/s, uploads {ceilings['upload_gb_per_s']:.0f} GB/s.",
        "",
        *table(["what", "measured", "goal", ""], goals(report)),
        "",
    ]
    kernels = sorted({name for case in report["cases"] for name in case["kernel_seconds"]})
    rows = [["whole", *(f"{case['ms_per_head']:.3f}" for case in report["cases"])]]
    for kernel in kernels:
        spent = [
            f"{1e3 * case['kernel_seconds'][kernel] / case['kernel_heads']:.3f}"
            if kernel in case["kernel_seconds"]
            else "-"
            for case in report["cases"]
        ]
        rows.append([f"`{kernel}`", *spent])
    head = ["ms per head", *(case["title"] for case in report["cases"])]
    return [*lines, *table(head, rows)]


def page_lines(folder):
    """The page, of what is in the folder."""
    about, steps = (
        [line.split("\t") for line in (folder / name).read_text().splitlines()]
        for name in ("about.tsv", "steps.tsv")
    )
    failed = [name for name, verdict, _ in steps if verdict == "failed"]
    lines = ["# kvsim on a GPU", ""]
    lines += [f"- {name}: {value}" for name, value in about]
    lines += ["", f"**{'Failed: ' + ', '.join(failed) if failed else 'All steps passed'}.**", ""]
    lines += table(["step", "", "seconds"], steps)
    lines += ["", "## Agreement with the CPU", ""]
    if all((folder / f"{device}.sqlite").exists() for device in ("cpu", "cuda")):
        lines += accuracy_lines(compare(*read_both(folder)))
    else:
        lines.append("Not measured.")
    lines += ["", "## Speed", ""]
    if (folder / "device.json").exists():
        lines += speed_lines(json.loads((folder / "device.json").read_text()))
    else:
        lines.append("Not measured.")
    return lines


def read_both(folder):
    """The rows of the CPU and of the GPU."""
    return read_rows(folder / "cpu.sqlite"), read_rows(folder / "cuda.sqlite")


def main(verb, folder):
    """Returns the exit status."""
    folder = Path(folder)
    if verb == "compare":
        found = compare(*read_both(folder))
        print("\n".join(accuracy_lines(found)))
        return 0 if found["agrees"] else 1
    (folder / "page.md").write_text("\n".join(page_lines(folder)) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
