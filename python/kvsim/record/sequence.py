"""One sequence of a trace while it is recorded."""

import math
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from ..errors import RecordError, RecordWarning, UsageError
from ..model.member import Member
from ..model.rope import Ropes
from ..model.selection import padded, selected_tokens
from ..model.tokens import token_texts
from ..trace.spans import Span
from .copies import Copies
from .on_device import DeviceErrors
from .spool import FORMS, Spool, SpooledLists, SpooledRows
from .trace_file import Attribute, TraceFile

ROWS_AT_ONCE = 4096  # copied from the model at a time, to bound the memory of a long prompt


@dataclass
class Seen:
    """What one forward pass over a whole text showed in addition to attention."""

    rows: dict[tuple[int, str], np.ndarray]  # by layer and dataset, as they are stored
    gradients: dict[int, torch.Tensor]  # by layer


class Sequence(Member):
    """The tokens and the vectors of each layer, which a spool holds until the sequence ends."""

    def __init__(
        self,
        name: str,
        source: str,
        spool: Spool,
        known_prompt: int | None = None,
        spans: tuple[Span, ...] = (),
        copies: Copies | None = None,
    ) -> None:
        super().__init__()
        self.name = name
        self.source = source
        self.prompt_length = known_prompt or 0
        self.known_prompt = known_prompt  # None: the caller has not given it
        self.spans = spans
        self.ids: list[int] | None = []  # None: unknown
        self.spooled: dict[int, dict[str, SpooledRows]] = {}  # by layer and dataset
        self.seen: Seen | None = None  # of a text that was read whole
        self.errors = DeviceErrors()
        self.ropes: Ropes = {}
        self._selected: dict[int, SpooledLists] = {}  # by layer, of each token: see select()
        self._spool = spool
        self._copies = copies or Copies()
        self._lanes: dict[tuple[int, str], int] = {}  # by layer and dataset

    @property
    def layers(self) -> list[int]:
        return sorted(self.spooled)

    @property
    def layers_with_cache(self) -> list[int]:
        """Those with keys and values of their own."""
        return [layer for layer in self.layers if "key" in self.spooled[layer]]

    def feed(
        self, ids: torch.Tensor | None, real: torch.Tensor, in_prompt: bool | None, ends: set[int]
    ) -> None:
        before = self.num_tokens
        super().feed(ids, real, in_prompt, ends)
        # The prompt ends at the first generated token; later turns of a chat are not part of it.
        if in_prompt and self.known_prompt is None and self.prompt_length == before:
            self.prompt_length = self.num_tokens
        if ids is None:
            self.ids = None
        elif self.ids is not None:
            self.ids += ids[self.new_rows].tolist()

    def append(self, layer: int, vectors: dict[str, torch.Tensor]) -> None:
        """Adds the step's new rows of a layer's vectors, each [heads, new, dim].

        They are there, and their errors raised, after `drain` of the copies.
        """
        spooled = self.spooled.setdefault(layer, {})
        for name, tensor in vectors.items():
            form = str(tensor.dtype).removeprefix("torch.")
            if form not in FORMS:
                tensor, form = tensor.float(), "float32"
            if name not in spooled:
                # Large and small datasets of a layer follow each other: a lane gets some of each.
                number = len(self._lanes) + len(self.spooled)
                self._lanes[layer, name] = self._copies.lane_for(tensor.device, number)
                heads, _, dim = tensor.shape
                itemsize = vectors[name].dtype.itemsize
                spool = self._spool.lane(self._lanes[layer, name])
                spooled[name] = SpooledRows(spool, heads, dim, itemsize, form)
            if form != spooled[name].form:
                raise RecordError(
                    f"sequence {self.name}, layer {layer}, {name}: expected {spooled[name].form} "
                    f"as before in this text, found {form}; let the model compute in one type"
                )
            lane = self._lanes[layer, name]
            keep = partial(self._keep, spooled[name], f"layer {layer}, {name}")
            for rows in self.new_rows.split(ROWS_AT_ONCE):
                self._copies.take(taken(tensor, rows).detach(), keep, lane)

    def _keep(self, rows: SpooledRows, place: str, numbers: torch.Tensor) -> None:
        bits = numbers.view(torch.uint16) if rows.form == "bfloat16" else numbers
        rows.append(bits.numpy())
        if not math.isfinite(rows.largest):
            raise RecordError(
                f"sequence {self.name}, {place}: the model computed a number that is not finite"
            )

    def select(self, layer: int, selected: torch.Tensor | None, real: torch.Tensor) -> None:
        """Adds what a layer selects at the step's new tokens.

        `selected` is boolean [new, columns], `real` [columns] false for padding. None: all tokens,
        as those did that came before the first selection.
        """
        if layer not in self._selected:
            self._selected[layer] = SpooledLists(self._spool)
        rows = self._selected[layer]
        chosen = [] if selected is None else selected_tokens(selected, real, self.new_rows)
        seeing_all = range(len(rows), self.num_tokens - len(chosen))
        rows.extend([np.arange(token + 1, dtype=np.int32) for token in seeing_all] + chosen)

    def selected_by(self, layer: int) -> np.ndarray | None:
        """What each token of a layer selects, int32 [n, K], -1 behind; None: it sees all."""
        rows = self._selected.get(layer)
        return None if rows is None else padded(rows.read())

    def write_selected(self, file: TraceFile) -> None:
        """Writes what each layer selects, and forgets it."""
        for layer in self._selected:
            file.write_list(
                f"sequences/{self.name}/layers/{layer}/selected", self.selected_by(layer)
            )
        self._selected = {}

    def describe(self, file: TraceFile) -> None:
        """Writes its attributes."""
        attributes: dict[str, Attribute] = {
            "num_tokens": self.num_tokens,
            "prompt_length": self.prompt_length,
        }
        if self.source:
            attributes["source"] = self.source
        file.write_attributes(f"/sequences/{self.name}", attributes)

    def write_text(self, file: TraceFile, tokenizer: Any) -> None:
        """Writes its spans and tokens, with their texts if there is a tokenizer."""
        path = f"/sequences/{self.name}"
        if self.spans:
            file.write_spans(f"{path}/spans", self.spans)
        if self.ids is not None:
            file.write_list(f"{path}/token_ids", np.array(self.ids, np.int32))
            if tokenizer is not None:
                file.write_texts(f"{path}/token_text", token_texts(tokenizer, self.ids))

    def close(self) -> None:
        """No row follows. Raises RecordError without a token, or if a layer has not seen every one.

        Raises UsageError if the caller gave a prompt or a span that ends after the sequence.
        """
        if self.num_tokens == 0:
            raise RecordError(f"sequence {self.name} is nothing but padding")
        for span in self.spans:
            if span.end > self.num_tokens:
                raise UsageError(
                    f"sequence {self.name}: expected spans of its {self.num_tokens} tokens, found "
                    f"{span.start} to {span.end}, {span.label!r}; count special tokens, not padding"
                )
        if self.prompt_length > self.num_tokens:
            raise UsageError(
                f"sequence {self.name}: expected a prompt_length below its {self.num_tokens} "
                f"tokens, found {self.prompt_length}"
            )
        if self.prompt_length == self.num_tokens:
            self.prompt_length = 0  # no token follows, so there is no prompt
            if self.known_prompt:
                warnings.warn(
                    f"sequence {self.name} ends with its prompt of {self.known_prompt} tokens: the "
                    "trace notes no prompt (the last generated token is not recorded)",
                    RecordWarning,
                )
        for layer, spooled in self.spooled.items():
            for name, rows in spooled.items():
                if rows.rows != self.num_tokens:
                    raise RecordError(
                        f"sequence {self.name}, layer {layer}, {name}: {rows.rows} of "
                        f"{self.num_tokens} tokens were seen; does the model skip layers?"
                    )
                rows.flush()


def taken(tensor: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """These rows, ascending, of [heads, n, dim]; no copy if they are consecutive."""
    if len(rows) and int(rows[-1]) - int(rows[0]) == len(rows) - 1:
        return tensor[:, int(rows[0]) : int(rows[-1]) + 1]
    return tensor[:, rows.to(tensor.device)]
