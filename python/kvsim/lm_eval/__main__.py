"""python -m kvsim.lm_eval: the command of lm-eval, which then knows the model type `kvsim`."""

import sys

from lm_eval.__main__ import cli_evaluate

from ..command import failed
from ..errors import KvsimError
from . import EvictingLM  # noqa: F401  importing it registers the model type


def main() -> int:
    """Runs lm-eval with the arguments of this process.

    Returns 0, 2 for model_args that kvsim refuses, 3 for a model or a text, 1 for other errors of
    kvsim. All other errors and statuses are lm-eval's.
    """
    try:
        cli_evaluate()
    except KvsimError as error:
        return failed(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
