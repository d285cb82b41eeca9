"""The files of a search in its folder: the recipe, the ranked frame, the figure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from ..command.csv_text import csv_text
from ..errors import KvsimError
from ..files.partial import written_whole
from ..recipe import write_recipe
from .search import RECIPE
from .stages import Stages
from .tuned import Tuned

RANKED, FIGURE = "ranked.csv", "loss.png"


def kept(
    tuned: Tuned, stages: Stages, folder: Path, name: str | None, protocol: Mapping[str, Any]
) -> Tuned:
    """Writes the recipe, the frame and the figure into the folder, what matters most first.

    Raises KvsimError for a file that cannot be written.
    """
    held = tuned.ranked[tuned.ranked["held_out_loss"].notna()]
    model = stages.model
    fields = {
        "name": name, "policy": tuned.policy, "budget": stages.budget,
        **{key: str(protocol[key]) for key in ("mode", "eviction_interval", "page")},
        "page_score": None if protocol["page_score"] == "mean" else protocol["page_score"],
        "model": "; ".join(dict.fromkeys(trace.model for trace in stages.loop.traces)),
        "model_id": model and model.model_id,
        "objective": tuned.loss if model is None else f"{tuned.objective}, then {tuned.loss}",
        "searched_on": [text.text_id for text in stages.of_search],
        "held_out": [
            {"policy": row.policy, "loss": row.held_out_loss, "low": row.low, "high": row.high}
            for row in held.itertuples()
        ],
        "kvsim_version": metadata.version("kvsim"),
    }  # fmt: skip
    recipe = write_recipe(folder / RECIPE, fields)
    with written_whole(folder / RANKED) as partial:
        try:
            partial.write_text(csv_text(tuned.ranked), "utf-8")
        except OSError as error:
            raise KvsimError(f"{folder / RANKED}: cannot be written: {error.strerror}") from error
    tuned.figure(folder / FIGURE)
    return dataclasses.replace(tuned, recipe=recipe)
