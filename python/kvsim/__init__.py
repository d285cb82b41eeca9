"""Replays attention through KV-cache eviction policies: arrays or traces in, frames out.

>>> import kvsim
>>> trace = kvsim.Trace.from_arrays(query, key, value)
>>> frame = kvsim.sweep(trace, policies=["h2o", "tova"], budgets=["10%", 64])

It also records traces from transformers models, runs the policies inside such models, and reads the
result files of the program `kvsim`. What runs a model needs torch and transformers. It is imported
on first use, and `from kvsim import *` omits it, but for `second_reading`, which imports them when
it is called.
"""

from importlib import import_module

from .catalogue import catalogue, get_trace, make_trace
from .errors import DataError, KvsimError, KvsimWarning, UsageError, WorkerError
from .head_budgets import head_budgets
from .imports import import_arrays
from .kvpress import from_kvpress
from .labels import labels
from .policy import Policy, Rotation, Rules, Selector, SelectorStep, TokenKind
from .policy.c_function import StepStruct
from .policy.plugin import get_include, load_plugin
from .policy.registry import policies
from .policy.specs import specs
from .program import ProgramError, run
from .recipe import export_recipe
from .record import RecordError, RecordWarning
from .report.show import show
from .results import NoSuchTable, Results, ResultsError, load
from .results.comparison import ComparisonWarning, compare
from .results.export import export
from .results.meanings import about
from .second_reading import second_reading
from .trace import Trace, Unit
from .train import train
from .tune import Tuned, tune
from .verbs.analyze import analyze
from .verbs.check import check
from .verbs.convert import convert
from .verbs.curve import curve
from .verbs.fetch import fetch
from .verbs.merge import merge
from .verbs.options import Options
from .verbs.replay import Replay, replay
from .verbs.sweep import sweep
from .verbs.synth import synth

__version__ = "0.2.0"
__all__ = [
    "ComparisonWarning",
    "DataError",
    "KvsimError",
    "KvsimWarning",
    "NoSuchTable",
    "Options",
    "Policy",
    "ProgramError",
    "RecordError",
    "RecordWarning",
    "Replay",
    "Results",
    "ResultsError",
    "Rotation",
    "Rules",
    "Selector",
    "SelectorStep",
    "StepStruct",
    "TokenKind",
    "Trace",
    "Tuned",
    "Unit",
    "UsageError",
    "WorkerError",
    "about",
    "analyze",
    "catalogue",
    "check",
    "compare",
    "convert",
    "curve",
    "export",
    "export_recipe",
    "fetch",
    "from_kvpress",
    "get_include",
    "get_trace",
    "head_budgets",
    "import_arrays",
    "labels",
    "load",
    "load_plugin",
    "make_trace",
    "merge",
    "policies",
    "replay",
    "run",
    "second_reading",
    "show",
    "specs",
    "sweep",
    "synth",
    "train",
    "tune",
]


_OF_MODELS = {
    "calibrated_kl": "results.calibration",
    "closed_loop_steps": "closed_loop",
    "evaluate": "closed_loop",
    "evicting": "closed_loop",
    "kept_overlap_by_layer": "closed_loop",
    "layer_interaction": "closed_loop",
    "layer_weights": "results.calibration",
    "rank_correlations": "closed_loop",
    "recording": "record",
    "refined_budgets": "head_budgets.refined",
}


def __getattr__(name: str):
    if name in _OF_MODELS:
        try:
            return getattr(import_module(f".{_OF_MODELS[name]}", __name__), name)
        except ModuleNotFoundError as error:
            if error.name not in ("torch", "transformers"):
                raise
            needs = f"{error}; kvsim.{name} needs it: pip install 'kvsim[record]'"
            raise ModuleNotFoundError(needs, name=error.name) from error
    if name == "update_signature":
        from .policy.c_function import numba_signature

        return numba_signature()
    raise AttributeError(f"module 'kvsim' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_OF_MODELS, "update_signature"]
