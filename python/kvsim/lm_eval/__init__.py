"""Models of lm-eval (the Language Model Evaluation Harness) whose caches evict.

In: what `kvsim.evicting` takes, as model_args of lm-eval. Out: lm-eval's own results, under a
policy. Read first: `model.py`. Importing this package registers the model type `kvsim`;
`python -m kvsim.lm_eval` is lm-eval's command with it. The package `lm_eval` is imported here by
its absolute name; this one is `kvsim.lm_eval`.
"""

import sys

from ..command import STATUS_OTHER, fail

try:
    from .model import EvictingLM
except ModuleNotFoundError as error:
    lacking = "kvsim.lm_eval needs lm-eval and what it runs models with: pip install "
    lacking += f"'lm_eval[hf]' ({error})"
    if sys.argv[0] == "-m":  # python -m imports the package before its command
        sys.exit(fail(lacking, STATUS_OTHER))
    raise ImportError(lacking) from error

__all__ = ["EvictingLM"]
