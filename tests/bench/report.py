"""One page of what was measured: rates, the PyTorch baseline, and ratios against the goals."""

AT_LEAST, AT_MOST = "at least", "at most"
FASTEST = "fastest"  # of all variants of the PyTorch baseline

# A case, what it is compared with, and the goal, if any. A ratio to PyTorch says how many times
# faster kvsim is; a ratio to another case says how many times longer the case takes.
GOALS = [
    ("h2o", "idiomatic", AT_LEAST, 22),
    ("h2o", FASTEST, AT_LEAST, 13),
    ("h2o", "exact", AT_MOST, 1.15),
    ("h2o_trace", "h2o", AT_MOST, 1.3),
    ("h2o_budgets", FASTEST, AT_LEAST, 35),
    ("policies_budgets", FASTEST, AT_LEAST, 40),
    ("policies_budgets", "h2o", AT_MOST, 2.8),
    ("curve", "exact", AT_MOST, 1.3),
    ("curve_errors_64", "exact", AT_MOST, 2),
    ("curve_errors", "exact", AT_MOST, 4),
    ("h2o", "masked", AT_LEAST, None),
    ("h2o_budgets", "masked", AT_LEAST, None),
    ("policies_budgets", "masked", AT_LEAST, None),
]

# The conditions of the goals.
GOAL_SHAPE = {"tokens": 2048, "head_dim": 128, "heads": 32, "threads": 2}

# Use of the cores by others above which figures are worth nothing.
BUSY = 0.05

# Sums over steps and heads in single precision, and near ties that it decides otherwise.
AGREEMENT = 1e-5

# Below this share of Eigen's rate, PyTorch's BLAS does not use what the processor has.
SLOW_BLAS = 0.8


def table(rows):
    """Rows of text with the columns aligned: the first to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        others = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        cells = [row[0].ljust(widths[0]), *others]
        lines.append("  ".join(cells).rstrip())
    return lines


def best_counter(benchmarks, prefix, counter):
    values = [row[counter] for row in benchmarks if row["name"].startswith(prefix)]
    return max(values) if values else float("nan")


def peaks(report):
    """GFLOP/s of all threads together, and GB/s."""
    machine = report["machine"]
    eigen = 1e-9 * best_counter(machine, "gemm_square", "FLOP/s")
    torch = report.get("pytorch", {}).get("gemm_gflop_per_s", 0)
    return {
        "eigen": eigen,
        "torch": torch,
        "gemm": max(eigen, torch),
        "fma": 1e-9 * best_counter(machine, "fma_registers", "FLOP/s"),
        "read": 1e-9 * best_counter(machine, "read_memory", "bytes_per_second"),
    }


def condition_lines(report, peak):
    conditions, sweeps = report["conditions"], report["sweeps"]
    lines = [
        f"kvsim {sweeps['kvsim_version']} ({conditions['revision']}), {conditions['date']}: "
        f"{sweeps['tokens']} tokens, {sweeps['heads']} heads of {sweeps['head_dim']}",
        f"{conditions['cpu']}, {conditions['threads']} threads on {conditions['cores']} cores, "
        f"{sweeps['compiler']}, {sweeps['flags'].strip()}",
        f"Peaks: GEMM {peak['gemm']:.0f} GFLOP/s (Eigen {peak['eigen']:.0f}, "
        f"PyTorch {peak['torch']:.0f}), FMA {peak['fma']:.0f} GFLOP/s, "
        f"reading {peak['read']:.1f} GB/s",
    ]
    if conditions["busy_before"] > BUSY:
        lines.append(
            f"Others used {conditions['busy_before']:.0%} of the cores just before: "
            "do not cite these figures."
        )
    differs = [f"{name} = {goal}" for name, goal in GOAL_SHAPE.items() if sweeps[name] != goal]
    if differs:
        lines.append(f"The goals are for {', '.join(differs)}.")
    return lines


def kernel_lines(report, peak):
    per_thread = peak["gemm"] / report["conditions"]["threads"]
    rows = [["kernel, one thread", "ms", "GFLOP/s", "of peak"]]
    for row in report["kernels"]:
        rate = 1e-9 * row["FLOP/s"] if "FLOP/s" in row else None
        rows.append(
            [
                row["name"],
                f"{row['real_time']:.2f}",
                f"{rate:.1f}" if rate else "",
                f"{rate / per_thread:.0%}" if rate else "",
            ]
        )
    return table(rows)


def sweep_lines(report, peak):
    rows = [
        [
            "sweep",
            "ms per head",
            "CPU ms per head",
            "M tokens x heads x configurations/s",
            "GFLOP/s",
            "of peak",
            "MB read",
        ]
    ]
    for case in report["sweeps"]["cases"]:
        rows.append(
            [
                case["title"],
                f"{case['ms_per_head']:.2f}",
                f"{case['cpu_ms_per_head']:.2f}",
                f"{1e-6 * case['tokens_heads_configurations_per_s']:.3f}",
                f"{case['gflop_per_s']:.1f}",
                f"{case['gflop_per_s'] / peak['gemm']:.0%}",
                f"{1e-6 * case['trace_bytes_read']:.0f}",
            ]
        )
    return table(rows)


def pytorch_lines(report, peak):
    pytorch = report["pytorch"]
    lines = [f"PyTorch {pytorch['torch']}, {pytorch['cpu_capability']}"]
    lines += ["  " + line for line in pytorch["build"]]
    widest = report["conditions"]["widest_vectors"]
    if widest and widest not in pytorch["cpu_capability"]:
        lines.append(f"PyTorch does not use the processor's {widest}: this is no fair baseline.")
    if peak["torch"] < SLOW_BLAS * peak["eigen"]:
        lines.append("PyTorch's GEMM is slower than Eigen's: this is no fair baseline.")
    rows = [
        [
            "PyTorch",
            "processes x threads",
            "heads",
            "ms per head",
            "loss differs by",
            "error differs by",
        ]
    ]
    titles = {case["id"]: case["title"] for case in report["sweeps"]["cases"]}
    for run in pytorch["runs"]:
        rows.append(
            [
                f"{titles[run['case']]}, {run['variant']}",
                f"{run['processes']} x {run['threads_each']}",
                str(run["heads"]),
                f"{run['ms_per_head']:.2f}",
                f"{run['attention_loss_difference']:.0e}",
                f"{run['output_error_difference']:.0e}",
            ]
        )
    lines += table(rows)
    worst = max(
        max(run["attention_loss_difference"], run["output_error_difference"])
        for run in pytorch["runs"]
    )
    if not worst <= AGREEMENT:
        lines.append(f"PyTorch and kvsim DISAGREE by {worst:.0e}: they did not do the same work.")
    if any(run["heads"] < report["sweeps"]["heads"] for run in pytorch["runs"]):
        lines.append("Runs on fewer heads are scaled: their time is linear in heads.")
    return lines


def ratio(report, case, other):
    """None if one of the two was not measured."""
    own = {row["id"]: row["ms_per_head"] for row in report["sweeps"]["cases"]}
    if case not in own:
        return None
    if other in own:
        return own[case] / own[other]
    times = [
        run["ms_per_head"]
        for run in report.get("pytorch", {}).get("runs", [])
        if run["case"] == case and (run["variant"] == other or other == FASTEST)
    ]
    return min(times) / own[case] if times else None


def verdict(measured, sense, goal):
    if measured is None:
        return "not measured"
    if goal is None:
        return ""
    return "met" if (measured >= goal if sense == AT_LEAST else measured <= goal) else "missed"


def goal_lines(report):
    titles = {case["id"]: case["title"] for case in report["sweeps"]["cases"]}
    rows = [["ratio", "measured", "goal", ""]]
    for case, other, sense, goal in GOALS:
        measured = ratio(report, case, other)
        versus = f"time of {titles[other]}" if other in titles else f"speed of {other} PyTorch"
        rows.append(
            [
                f"{titles[case]}: {versus}",
                f"{measured:.2f}x" if measured else "-",
                f"{sense} {goal}x" if goal else "",
                verdict(measured, sense, goal),
            ]
        )
    return table(rows)


def cost_lines(report):
    """The slowest policies, oracles and analyses first."""
    measured = report["costs"]
    lines = [
        f"CPU time at {measured['tokens']} tokens and a budget of {measured['budget']}, one head; "
        f"a pass is the exact attention, {1e3 * measured['exact_seconds']:.1f} ms"
    ]
    rows = [["policy, oracle or analysis", "ms", "passes"]]
    for cost in measured["costs"]:
        name = f"{cost['kind']} {cost['name']}"
        rows.append([name, f"{1e3 * cost['cpu_seconds']:.1f}", f"{cost['passes']:.2f}"])
    lines += table(rows)
    lines += [
        f"Not run: {entry['kind']} {entry['name']}, which {entry['reason']}"
        for entry in measured["not_run"]
    ]
    return lines


def python_lines(report):
    measured = report["python_policies"]
    rows = [[f"H2O at 20%, {measured['threads']} thread", "ms per head", "us per step", "", "goal"]]
    for case in measured["cases"]:
        goal = case["goal"]
        rows.append(
            [
                case["case"],
                f"{case['ms_per_head']:.2f}",
                f"{case['us_per_step']:.2f}",
                f"{case['ratio']:.2f}x",
                f"{AT_MOST} {goal}x, {verdict(case['ratio'], AT_MOST, goal)}" if goal else "",
            ]
        )
    return table(rows)


def device_floor(device, case):
    """The least ms per head that the plain computation can take on this device.

    It is the larger of two times: all operations at the device's fp32 GEMM rate, and reading
    queries, keys and values at its copy rate.
    """
    ceilings = device["ceilings"]
    flops = 1e6 * case["gflop_per_s"] * case["ms_per_head"]
    read = 12 * device["tokens"] * device["head_dim"]
    return max(
        flops / (1e6 * ceilings["fp32_gflop_per_s"]), read / (1e6 * ceilings["copy_gb_per_s"])
    )


def device_lines(report):
    device = report["device"]
    ceilings = device["ceilings"]
    lines = [
        f"{ceilings['device']}: {device['tokens']} tokens, {device['heads']} heads of "
        f"{device['head_dim']}, {device['threads']} threads",
        f"Peaks: GEMM {ceilings['fp32_gflop_per_s']:.0f} GFLOP/s in fp32, "
        f"{ceilings['fp64_gflop_per_s']:.0f} in fp64, copies {ceilings['copy_gb_per_s']:.0f} GB/s, "
        f"uploads {ceilings['upload_gb_per_s']:.0f} GB/s",
    ]
    exact = next(case for case in device["cases"] if case["id"] == "exact")
    rows = [
        [
            "on the GPU",
            "ms per head",
            "floor",
            "of fp32 peak",
            "to exact",
            "PyTorch ms",
            "to PyTorch",
        ]
    ]
    for case in device["cases"]:
        pytorch = case.get("pytorch_ms_per_head")
        rows.append(
            [
                case["title"],
                f"{case['ms_per_head']:.3f}",
                f"{device_floor(device, case):.3f}",
                f"{case['gflop_per_s'] / ceilings['fp32_gflop_per_s']:.0%}",
                f"{case['ms_per_head'] / exact['ms_per_head']:.2f}x",
                f"{pytorch:.3f}" if pytorch else "-",
                f"{pytorch / case['ms_per_head']:.1f}x" if pytorch else "-",
            ]
        )
    return lines + table(rows)


def page(report):
    peak = peaks(report)
    parts = [condition_lines(report, peak), kernel_lines(report, peak), sweep_lines(report, peak)]
    parts.append(cost_lines(report))
    if "python_policies" in report:
        parts.append(python_lines(report))
    if "pytorch" in report:
        parts.append(pytorch_lines(report, peak))
    else:
        parts.append(["No PyTorch: KVSIM_PYTHON, build/venv and python3 have no torch."])
    parts.append(goal_lines(report))
    if "device" in report:
        parts.append(device_lines(report))
    return "\n\n".join("\n".join(part) for part in parts)
