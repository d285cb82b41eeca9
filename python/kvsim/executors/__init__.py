"""Sweeps whose units other processes replay: any executor with `submit`.

In: an executor, and a sweep that the engine has planned in parts. Out: rows, which the engine takes
in as parts come back, and the units that were given up. Read first: `run.py`, which hands out
parts; `job.py` is what is sent, `worker.py` what runs there, `attempts.py` what happens after a
death, `pool.py` starts processes of our own.
"""

from .run import run_parts

__all__ = ["run_parts"]
