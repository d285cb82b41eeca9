"""Records the attention heads of a transformers model as a trace for kvsim.

In: a model, and what it reads or generates. Out: a trace (traces/README.md). Read first:
`session.py`, the context manager, then `recorder.py`, which checks and stores each attention call;
`label.py` is what a caller says of a text, `copies.py` brings vectors from a device while the model
goes on, `spool.py` holds them until their text has ended, `on_device.py` compares attention while
the model runs, `stored_type.py` chooses the type of numbers by that or compares on the CPU,
`trace_file.py` writes, in threads that pack (`packing.py`) or do not (`unpacked.py`), `also.py`
collects what a trace holds in addition to attention, `text_writer.py` writes a text, on a
device while the next one is read (`background.py`), `run.py` is the command.

`recording` needs torch and transformers. It is imported on first use, so that the command can
report a missing library.
"""

from ..errors import RecordError, RecordWarning, UsageError

__all__ = ["RecordError", "RecordWarning", "UsageError"]


def __getattr__(name: str) -> object:
    if name == "recording":
        from .session import recording

        return recording
    raise AttributeError(f"module 'kvsim.record' has no attribute {name!r}")
