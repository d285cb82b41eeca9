"""Writes texts that have ended, at once or while a model on a device reads the next one."""

from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from .also import Reading
from .background import Background
from .copies import Copies
from .sequence import Sequence
from .trace_file import TraceFile

Types = Mapping[int, Mapping[str, str]]  # float16 or float32, by layer and dataset


class TextWriter:
    """Writes the vectors of texts and what `reading` adds, for which it may call the model."""

    def __init__(
        self, file: TraceFile, reading: Reading, no_output: bool, copies: Copies,
        background: Background,
    ) -> None:  # fmt: skip
        self._file, self._reading, self._no_output = file, reading, no_output
        self._copies, self._background = copies, background
        self.whole: list[Sequence] = []  # after settle(): those of which all is in the file
        self.key_types: set[str] = set()  # of these

    def settle(self) -> None:
        """Waits until all texts are written. Raises the error of one that could not be."""
        self._background.settle()

    def write(self, sequence: Sequence, types: Types) -> None:
        """Writes all of a text or nothing, perhaps later: settle() says so."""
        work = partial(self._write, sequence, types)
        if self._is_later:
            self._background.run(work)
        else:
            work()

    def end(self) -> None:
        """No other text has its vectors in the spool so far."""
        spool = self._file.take_spool()
        if self._is_later:
            self._background.run(spool.clear)
        else:
            spool.clear()

    @property
    def _is_later(self) -> bool:
        """Whether the model goes on meanwhile: it is on a device and is not called here."""
        return self._copies.are_late and not self._reading.also.reads_whole

    def _write(self, sequence: Sequence, types: Types) -> None:
        path = f"sequences/{sequence.name}"
        group = self._file.h5.create_group(f"{path}/layers")
        try:
            for layer, of_layer in types.items():
                for name, rows in sequence.spooled[layer].items():
                    if name != "output" or not self._no_output:
                        self._file.write_heads(group, f"{layer}/{name}", rows, of_layer[name])
            sequence.write_selected(self._file)
            self._reading.write(sequence, group)
            sequence.seen = None
        except BaseException:
            with suppress(OSError, RuntimeError):  # the disk may be full
                del self._file.h5[path]
            raise
        self.key_types |= {of_layer["key"] for of_layer in types.values()}
        self.whole.append(sequence)
