"""The program `kvsim`, run from Python: words in, what it prints out.

`run.py` finds the program and starts it. What can be done in process is in the room `verbs`.
"""

from .run import ProgramError, find_program, run, run_noting

__all__ = ["ProgramError", "find_program", "run", "run_noting"]
