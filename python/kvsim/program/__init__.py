"""The program `kvsim`, run from Python.

In: the words of its command line. Out: what it prints; what it prints on standard error is raised
if it fails. Read first: `run.py`, which also finds the program. What can be done in process is in
the room `verbs`.
"""

from .run import ProgramError, find_program, run, run_noting

__all__ = ["ProgramError", "find_program", "run", "run_noting"]
