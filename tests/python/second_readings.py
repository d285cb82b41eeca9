"""Two texts of a small model, and the scores that a second reading gives them."""

import h5py
import numpy as np
import torch

import kvsim
from record_zoo import letters, tokens

LENGTH, PROMPT = 30, 26
LAYERS, HEADS = 3, 2


def two_texts(model, path):
    """Records texts `one` and `two` of LENGTH tokens; returns the path."""
    names = ["one", "two"]
    with kvsim.recording(model, path, names=names, prompt_length=PROMPT), torch.no_grad():
        for seed in range(len(names)):
            model(tokens(LENGTH, seed))
    return path


def read_again(model, trace, **options):
    """The file's scores by sequence, [layers, KV heads, tokens]."""
    kvsim.second_reading(model, trace, "s.h5", tokenizer=letters(), progress=False, **options)
    return scores_in("s.h5")


def scores_in(path):
    with h5py.File(path) as file:
        return {
            name: np.array(
                [
                    [heads[f"kv_heads/{head}/scores"][()] for head in range(len(heads["kv_heads"]))]
                    for heads in (group["layers"][str(layer)] for layer in range(LAYERS))
                ]
            )
            for name, group in file["sequences"].items()
        }
