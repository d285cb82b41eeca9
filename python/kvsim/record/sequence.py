"""One sequence of a trace while it is recorded."""

import warnings

import h5py
import numpy as np
import torch

from ..errors import RecordError, RecordWarning, UsageError
from ..model.member import Member
from ..trace.spans import Span
from .trace_file import HeadStream

ROWS_AT_ONCE = 4096  # copied from the model at a time, to bound the memory of a long prompt
DTYPES = {"float16": torch.float16, "float32": torch.float32}


def stored_as(kind: str, rows: torch.Tensor, place: str, cure: str) -> np.ndarray:
    """The numbers in a type of DTYPES. Raises RecordError for one that does not fit."""
    stored = rows.detach().to(DTYPES[kind])
    if not bool(torch.isfinite(stored).all()):
        if not bool(torch.isfinite(rows).all()):
            raise RecordError(f"{place}: the model computed a number that is not finite")
        largest = float(rows.abs().max())
        raise RecordError(f"{place}: {largest:g} does not fit into {kind}; {cure}")
    return stored.cpu().numpy()


class Sequence(Member):
    """The tokens and the vectors of each layer. All but the last chunk per head is in the file."""

    def __init__(
        self,
        group: h5py.Group,
        source: str,
        dtype: str,
        known_prompt: int | None = None,
        spans: tuple[Span, ...] = (),
    ) -> None:
        super().__init__()
        self.name = group.name.rsplit("/", 1)[-1]
        self.source = source
        self.prompt_length = known_prompt or 0
        self.known_prompt = known_prompt  # None: the caller has not given it
        self.spans = spans
        self.ids: list[int] | None = []  # None: unknown
        self.rounded = False  # whether the file has fewer digits than the model
        self._group = group.create_group("layers")
        self._dtype = dtype
        self._streams: dict[int, dict[str, HeadStream]] = {}

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

    @property
    def vectors(self) -> h5py.Group:
        """The vectors in the file: one group per layer."""
        return self._group

    def append(self, layer: int, vectors: dict[str, torch.Tensor]) -> None:
        """Adds the step's new rows of a layer's vectors, each [heads, new, dim]."""
        streams = self._streams.setdefault(layer, {})
        for name, tensor in vectors.items():
            if name not in streams:
                group = self._group.require_group(str(layer))
                dtype = np.dtype(self._type_of(name, tensor))
                streams[name] = HeadStream(group, name, tensor.shape[0], tensor.shape[2], dtype)
            for rows in self.new_rows.to(tensor.device).split(ROWS_AT_ONCE):
                streams[name].append(self._numbers(layer, name, tensor[:, rows]))

    def _type_of(self, name: str, tensor: torch.Tensor) -> str:
        # An output computed in half precision is stored as float16, whatever the type of the trace:
        # `kvsim verify` chooses its limit by this type.
        return "float16" if name == "output" and tensor.dtype.itemsize == 2 else self._dtype

    def _numbers(self, layer: int, name: str, rows: torch.Tensor) -> np.ndarray:
        kind = self._type_of(name, rows)
        self.rounded |= kind == "float16" and rows.dtype.itemsize > 2
        cure = "use --dtype float32" if kind == self._dtype else "load the model in float32"
        return stored_as(kind, rows, f"sequence {self.name}, layer {layer}, {name}", cure)

    @property
    def layers(self) -> list[int]:
        return sorted(self._streams)

    def close(self) -> None:
        """Writes the last chunks. Raises RecordError if a layer has not seen every token.

        Raises UsageError if the caller gave a prompt or a span that ends after the sequence.
        """
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
        for layer, streams in self._streams.items():
            for name, stream in streams.items():
                if stream.rows != self.num_tokens:
                    raise RecordError(
                        f"sequence {self.name}, layer {layer}, {name}: {stream.rows} of "
                        f"{self.num_tokens} tokens were seen; does the model skip layers?"
                    )
                stream.close()
