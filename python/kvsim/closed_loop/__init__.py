"""Policies inside a running model of transformers.

`evaluate` compares the predictions of a model that evicts with those of the full cache; `evicting`
lets a policy evict in a model while it reads or generates; `layer_interaction` and
`kept_overlap_by_layer` look into its layers. They need torch and transformers, so they are imported
on first use. `rank_correlations` reads what they found, and needs neither.
"""

from importlib import import_module

_MODULES = {
    "closed_loop_steps": "steps",
    "evaluate": "run",
    "evicting": "session",
    "kept_overlap_by_layer": "interaction",
    "layer_interaction": "interaction",
    "rank_correlations": "prediction",
}

__all__ = [*_MODULES]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return getattr(import_module(f".{_MODULES[name]}", __name__), name)
    raise AttributeError(f"module 'kvsim.closed_loop' has no attribute {name!r}")
