"""Times the sweep of four policies and ten budgets in PyTorch on a GPU.

It runs the batched replay of pytorch_batched.py on synthetic heads of the shape that `device`
timed, as many heads at a time as the GPU's memory holds.
"""

import argparse
import json
import time
from pathlib import Path

import torch

from pytorch_baseline import grouped
from pytorch_batched import replay_shared

# GPU memory per token and dimension of a head, temporary tensors included.
BYTES = 150


def seconds_per_head(shape, budgets, at_once):
    heads = [torch.randn(at_once, *shape) for _ in range(3)]
    torch.cuda.synchronize()
    start = time.perf_counter()
    replay_shared(*heads, budgets)
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / at_once


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "device", type=Path, help="the JSON file that device wrote; the times are added to it"
    )
    options = parser.parse_args()
    report = json.loads(options.device.read_text())
    torch.set_grad_enabled(False)
    torch.set_default_device("cuda")
    torch.backends.cuda.matmul.allow_tf32 = False
    shape = (report["tokens"], report["head_dim"])
    for case in report["cases"]:
        budgets = grouped(case["configurations"])
        if not budgets:
            continue
        few = [torch.randn(1, 128, shape[1]) for _ in range(3)]
        replay_shared(*few, budgets)  # the first calls are slower
        torch.cuda.empty_cache()
        at_once = max(1, int(torch.cuda.mem_get_info()[0] / (BYTES * report["tokens"] * shape[1])))
        at_once = min(at_once, report["heads"])
        case["pytorch_ms_per_head"] = 1e3 * seconds_per_head(shape, budgets, at_once)
        case["pytorch_heads_at_once"] = at_once
        print(
            f"PyTorch {case['title']:<26}{case['pytorch_ms_per_head']:>10.3f} ms per head, "
            f"{at_once} at once"
        )
    report["torch"] = torch.__version__
    options.device.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
