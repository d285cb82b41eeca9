"""The commands of sim/sweep/cluster.md: the page and what works are one."""

import os
import re
import subprocess
from pathlib import Path

import pytest

import kvsim
from conftest import HERE, PROGRAM, needs_program

PAGE = (HERE.parents[1] / "sim" / "sweep" / "cluster.md").read_text()
SHARDS = 16


def block_with(text):
    """The commands on the page that have it."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    (found,) = [block for block in blocks if text in block]
    return found


@pytest.fixture
def folder(tmp_path):
    """Where a job runs: a trace, the script of the page, and the program on the PATH."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "kvsim").symlink_to(Path(PROGRAM).resolve())
    kvsim.synth(tmp_path / "trace.h5", tokens=48, layers=3, query_heads=8, kv_heads=8, head_dim=8)
    (tmp_path / "sweep.sh").write_text(block_with("#SBATCH"))
    return tmp_path


def shell(folder, command, **variables):
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env={**os.environ, "PATH": path, **variables},
        capture_output=True, text=True,
    )  # fmt: skip


def submit(folder, indices):
    """What sbatch does with the script: runs it once per index of the array."""
    for index in indices:
        done = shell(
            folder, "bash sweep.sh", SLURM_ARRAY_TASK_ID=str(index), SLURM_CPUS_PER_TASK="1",
            SLURM_ARRAY_TASK_COUNT=str(len(indices)),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


@needs_program
def test_the_script_and_a_merge_make_what_one_machine_makes(folder):
    script = (folder / "sweep.sh").read_text()
    assert script.startswith("#!/bin/bash\n")
    assert f"#SBATCH --array=1-{SHARDS}\n" in script and f"\nshards={SHARDS} " in script
    merge = next(line for line in block_with("kvsim merge").splitlines() if "merge" in line)
    (again,) = re.findall(r"sbatch --array=([0-9,]+) sweep.sh", PAGE)
    missing = [int(index) for index in again.split(",")]

    submit(folder, [index for index in range(1, SHARDS + 1) if index not in missing])
    early = shell(folder, merge)
    assert early.returncode == 3
    assert f"missing shards {', '.join(map(str, missing))} of {SHARDS}" in early.stderr
    submit(folder, missing)
    late = shell(folder, merge)
    assert (late.returncode, late.stderr) == (0, "")

    sweep = re.search(r"kvsim sweep .*?--quiet", script, re.DOTALL)[0]
    assert shell(folder, f"{sweep} -o one.sqlite").returncode == 0
    export = "--table replay --format csv --without run_id,trace"
    one, all_of_them = (
        shell(folder, f"kvsim export {name}.sqlite {export}").stdout for name in ("one", "all")
    )
    assert one == all_of_them and one.count("\n") == 1 + 3 * 2 * 24


def test_the_process_of_a_job_is_kvsim_and_gets_the_signal_of_its_end(folder):
    assert "#SBATCH --signal=B:TERM@" in (folder / "sweep.sh").read_text()
    program = folder / "bin" / "kvsim"
    program.unlink()
    program.write_text("#!/bin/bash\necho $$ > process\n")
    program.chmod(0o755)
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    slurm = {"SLURM_ARRAY_TASK_ID": "1", "SLURM_CPUS_PER_TASK": "1"}
    job = subprocess.Popen(
        ["bash", "sweep.sh"], cwd=folder, env={**os.environ, "PATH": path, **slurm}
    )
    assert job.wait(timeout=120) == 0
    assert int((folder / "process").read_text()) == job.pid
