"""Which presses of kvpress are no policies, and what to take in their place."""

from __future__ import annotations

import importlib
from typing import Any

IN_MODEL = "in_model=True runs it in kvsim.evaluate"

_SECOND_PASS = "it runs the model over the text again, once the prompt is in the cache"
_WHILE_GENERATING = (
    "it cuts while the model writes: take the press in it, with its target_size as the budget and "
    "its compression_interval as the eviction_interval"
)

# By the name of the class, which stands for those below it: in no way a policy.
_NEVER = {
    "CAMPress": "it merges the values of what leaves into what stays, by chance",
    "CompressionRatioDecodingPress": "it cuts while the model writes, to a size that grows with "
    "the text",
    "DecodingPress": _WHILE_GENERATING,
    "FinchPress": "it needs the length of the question that ends the prompt: set its window_size",
    "KVComposePress": _SECOND_PASS,
    "KVgradPress": "it needs gradients of a second pass over the text",
    "RestoreKVPress": _SECOND_PASS,  # below KVzipPress, and another method
    "KVzipPress": f"{_SECOND_PASS}: take kvzip, with the scores of kvsim.second_reading",
    "MergingPress": "it merges the values of what leaves into what stays",
    "ThinKPress": "it drops dimensions of keys, and no tokens",
}
# Those that a model runs, though no trace has what they need.
_NOT_OF_A_TRACE = {
    "AdaKVPress": "it shares a budget over the heads of a layer: take the press in it, as "
    "POLICY@adaptive",
    "ComposedPress": "it runs presses one after the other, each with a ratio of its own",
    "CriticalAdaKVPress": "it shares a budget over the heads of a layer, by weights of the model",
    "DMSPress": "it drops what scores below a threshold, at any budget",
    "DuoAttentionPress": "it cuts some heads alone, at any budget",
    "FastKVzipPress": "it needs hidden states, and networks that kvpress loads for the model",
    "LUKVPress": "it shares a budget over all heads, by a file",
    "PerLayerCompressionPress": "it has a ratio for each layer",
    "PyramidKVPress": "it shares a budget over layers: take SnapKVPress, as POLICY@pyramid",
    "SimLayerKVPress": "it cuts some layers alone, at any budget",
}
# Likewise, also where another press scores by them.
_LOADED = {
    "KVzapPress": "it needs hidden states, and a network that kvpress loads for the model",
    "QFilterPress": "it needs filters that kvpress loads for the model",
}
# What a ratio does not change; of ComposedPress it is set to be read.
_WITHOUT_BUDGET = (
    "ComposedPress DMSPress DuoAttentionPress PerLayerCompressionPress SimLayerKVPress"
).split()


def refusal_of(press: Any, in_model: bool) -> str | None:
    """Why a press is no policy, of a trace or in a running model; None: it may be one."""
    presses = importlib.import_module("kvpress")
    if not isinstance(press, presses.BasePress):
        return "expected a press of kvpress, an object of a class below kvpress.BasePress"
    if _is(press, ["FinchPress"]) and press.window_size is not None:
        return None
    for name, reason in _NEVER.items():
        if _is(press, [name]):
            return reason
    if in_model:
        return None
    for name, reason in (_NOT_OF_A_TRACE | _LOADED).items():
        if _is(press, [name]):
            return f"{reason}; {IN_MODEL}"
    inner = getattr(press, "press", None)
    for name, reason in _LOADED.items():
        if _is(inner, [name]):
            return f"of its {name}: {reason}; {IN_MODEL}"
    return None


def takes_budget(press: Any) -> bool:
    """Whether a budget decides how much a press keeps."""
    return not _is(press, _WITHOUT_BUDGET)


def _is(press: Any, names: list[str]) -> bool:
    return any(cls.__name__ in names for cls in type(press).__mro__)
