"""The closed loop: policies inside a running model of transformers.

`evicting` needs torch and transformers. It is imported on first use.
"""


def __getattr__(name: str) -> object:
    if name == "evicting":
        from .session import evicting

        return evicting
    raise AttributeError(f"module 'kvsim.closed_loop' has no attribute {name!r}")
