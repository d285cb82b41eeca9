"""The papers' own experiments in small: `python -m kvsim.reproduce PAPER MODEL`."""
