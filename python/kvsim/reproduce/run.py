"""Loads the model and the texts of a command, asks a paper's module, and prints."""

import argparse
import sys

from .. import _engine
from ..model.loading import device_named, load_config, load_model, load_tokenizer, quieten
from . import h2o, scissorhands, subgen
from .data import read_groups
from .experiment import Chosen, Experiment, Generation
from .table import printed

_MODULES = {"h2o": h2o, "scissorhands": scissorhands, "subgen": subgen}


def run(options: argparse.Namespace) -> None:
    """Executes the command line. Raises UsageError for wrong options, other errors for the rest."""
    quieten()
    device = device_named(options.device)
    config = load_config(options.model)
    tokenizer = load_tokenizer(options.model)
    room = getattr(config.get_text_config(), "max_position_embeddings", None) or options.tokens
    groups = read_groups(
        options.texts, options.text, options.model, options.count, tokenizer,
        min(options.tokens, room),
    )  # fmt: skip
    model = load_model(options.model, options.model_dtype, device)
    experiment = Experiment(
        model,
        tokenizer,
        groups,
        options.budgets,
        Chosen(options.loop, _protocol(options), options.seed, options.output),
        _generation(options),
        getattr(options, "lengths", None),
    )
    findings = list(dict.fromkeys(_MODULES[options.paper].findings(experiment)))
    sys.stdout.write(printed(findings, options.format))


def _protocol(options: argparse.Namespace) -> dict[str, str]:
    """Those options of the protocol that the user gave."""
    options_by_name = {name: vars(options).get(name) for name in _engine.Protocol().evictions}
    return {name: value for name, value in options_by_name.items() if value is not None}


def _generation(options: argparse.Namespace) -> Generation:
    if options.paper != "h2o":
        return Generation()
    return Generation(options.prompt_tokens, options.new_tokens, options.temperature, options.order)
