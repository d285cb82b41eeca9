"""Models of lm-eval (the Language Model Evaluation Harness) whose caches evict.

In: what `kvsim.evicting` takes, as model_args of lm-eval. Out: lm-eval's own results, under a
policy. Read first: `model.py`. Importing this package registers the model type `kvsim`;
`python -m kvsim.lm_eval` is lm-eval's command with it. The package `lm_eval` is imported here by
its absolute name; this one is `kvsim.lm_eval`.
"""

try:
    from .model import EvictingLM
except ModuleNotFoundError as error:
    raise ImportError(
        f"kvsim.lm_eval needs lm-eval and what it runs models with: pip install 'lm_eval[hf]' "
        f"({error})"
    ) from error

__all__ = ["EvictingLM"]
