"""Writes texts that have ended, at once or while a model on a device reads the next one."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Several
from contextlib import contextmanager, suppress
from functools import partial

from ..errors import KvsimError, RecordWarning
from .also import Reading
from .background import Background
from .copies import Copies
from .sequence import Sequence
from .trace_file import TraceFile

Types = Mapping[int, Mapping[str, str]]  # float16 or float32, by layer and dataset


class TextWriter:
    """Writes the vectors of texts and what `reading` adds, for which it may call the model.

    A text that fails stops no other one. Its error is raised once, by `write` or `settle`. If the
    caller goes on after that, a RecordWarning says that the text is left out.
    """

    def __init__(
        self, file: TraceFile, reading: Reading, no_output: bool, copies: Copies,
        background: Background,
    ) -> None:  # fmt: skip
        self._file, self._reading, self._no_output = file, reading, no_output
        self._copies, self._background = copies, background
        self._failed: list[tuple[str, Exception]] = []  # names of texts, errors not raised so far
        self._raised: list[tuple[str, Exception]] = []  # with the first of these, and not named
        self.whole: list[Sequence] = []  # after wait(): those of which all is in the file
        self.key_types: set[str] = set()  # of these

    def wait(self) -> None:
        """Waits until all texts are written, or failed."""
        self._background.wait()

    def settle(self) -> None:
        """Waits, too. Raises the error of a text that could not be written, if none did so far."""
        self.wait()
        self._raise_first()

    def write(self, batch: Several[Sequence], types_of: Callable[[Sequence], Types]) -> None:
        """Writes all of a text or nothing, perhaps later: settle() says so. Lets their spool go.

        Of texts that are written later all types are known before, so that the threads that
        compare and those that pack do not run at the same time. Raises as settle() does, and what
        `types_of` raises.
        """
        self.warn_of_left_out()
        later: list[Callable[[], None]] = []
        spool = self._file.take_spool()  # no other text has its vectors there
        try:
            for sequence in batch:
                with self._errors_kept(sequence):
                    work = partial(self._write, sequence, types_of(sequence))
                    if self._is_later:
                        later.append(partial(self._write_later, sequence, work))
                    else:
                        work()
        finally:
            for work in later:
                self._background.run(work)
            if later:
                self._background.run(spool.clear)
            else:
                spool.clear()
        self._raise_first()

    def warn_of_left_out(self, known: BaseException | None = None) -> None:
        """Names the texts that failed, but for the one whose error, `known`, goes on.

        Without `known`: those of which one was raised, after which the caller went on.
        """
        left_out, self._raised = self._raised, []
        if known is not None:
            left_out, self._failed = left_out + self._failed, []
        for name, error in left_out:
            if error is not known:
                reason = _line(error).removeprefix(f"sequence {name}: ")
                warnings.warn(f"sequence {name} is left out: {reason}", RecordWarning)

    def _raise_first(self) -> None:
        if self._failed:
            self.warn_of_left_out()
            self._raised, self._failed = self._failed, []
            raise self._raised[0][1]

    @contextmanager
    def _errors_kept(self, sequence: Sequence) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._failed.append((sequence.name, error))

    def _write_later(self, sequence: Sequence, work: Callable[[], None]) -> None:
        """Its error is raised where another text ends, and so names its own."""
        with self._errors_kept(sequence):
            try:
                work()
            except BaseException as error:
                reason = self._file.refusal(error) or _line(error)
                raise KvsimError(f"sequence {sequence.name}: {reason}") from error

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


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
