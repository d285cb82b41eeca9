"""python -m kvsim: runs the program kvsim, as where the PATH lacks the folder of its script."""

import os
import sys

from .command import STATUS_OTHER, fail
from .program import ProgramError, find_program


def main() -> int:
    """Runs the program in place of this process. Returns 1 where there is none."""
    try:
        program = find_program()
        os.execv(program, [program, *sys.argv[1:]])
    except ProgramError as error:
        return fail(str(error), STATUS_OTHER)
    except OSError as error:
        return fail(f"{program}: cannot be run: {error.strerror}", STATUS_OTHER)


if __name__ == "__main__":
    sys.exit(main())
