"""What all tasks of a sweep have in common, as workers get it."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import cloudpickle

from .. import policy
from ..errors import UsageError
from ..trace import Trace

if TYPE_CHECKING:
    from .. import _engine

MOST_IN_MEMORY = 64 * 2**20
"""Bytes of traces in memory that travel with a task."""

MOST_SENT = 2 * 2**30
"""Bytes of them in all tasks that are sent at once."""


class Job(NamedTuple):
    digest: str
    pickled: bytes  # of a Contents


class Contents(NamedTuple):
    version: str  # of kvsim
    traces: list[TraceReference]  # as the plan counts them
    specs: list[str]
    budgets: list[str]
    options: dict[str, object]
    plugins: list[str]
    classes: list[tuple[bytes, str]]  # of policies, pickled, and their code


class TraceReference(NamedTuple):
    path: str | None
    trace_id: str
    image: bytes | None  # of a trace in memory


def job_of(
    sweep: _engine.PartedSweep,
    traces: list[Trace],
    budgets: list[str],
    options: dict[str, object],
    copies: int,
) -> Job:
    """The job of a sweep. Raises UsageError for what cannot be sent with `copies` tasks at once."""
    from .. import _engine

    # Each worker is one of several. A split over heads is part of the specs; parts name the rest.
    own = ("allocate", "shard", "sequences", "layers")
    shared = {name: value for name, value in options.items() if name not in own}
    contents = Contents(
        version=_engine.version(),
        traces=_references(traces, copies),
        specs=sweep.specs(),
        budgets=budgets,
        options={"threads": 1, **shared},
        plugins=[origin for origin in sweep.origins() if origin != "Python"],
        classes=[
            (_pickled_class(cls), cls._kvsim_code)
            for cls in map(policy.registered, sweep.policies_of("Python"))
        ],
    )
    pickled = pickle.dumps(contents)
    return Job(hashlib.sha256(pickled).hexdigest(), pickled)


def _references(traces: list[Trace], copies: int) -> list[TraceReference]:
    of_ids = {}  # a plan counts equal traces once
    for trace in traces:
        of_ids.setdefault(trace.trace_id, trace)
    found = [
        TraceReference(str(Path(trace.path).absolute()), trace_id, None)
        if trace.path is not None
        else TraceReference(None, trace_id, trace._opened.image())
        for trace_id, trace in of_ids.items()
    ]
    size = sum(len(reference.image) for reference in found if reference.image is not None)
    if size > MOST_IN_MEMORY:
        raise UsageError(
            f"executor: expected at most {MOST_IN_MEMORY >> 20} MiB of traces in memory, which "
            f"travel with every task, found {size >> 20} MiB; write the trace to a file that "
            "workers can open"
        )
    if size * copies > MOST_SENT:
        raise UsageError(
            f"executor: expected at most {MOST_SENT >> 20} MiB of traces in memory in all tasks, "
            f"which are sent at once, found {copies} tasks with {size / 2**20:.1f} MiB each; write "
            "the trace to a file that workers can open"
        )
    return found


def _pickled_class(cls: type[policy.Policy]) -> bytes:
    """Pickles a class by cloudpickle, which also takes classes of notebooks and scripts."""
    try:
        return cloudpickle.dumps(cls)
    except Exception as error:
        raise UsageError(
            f"executor: cannot send policy {cls.name} to workers ({error}); write it in a module "
            "of its own that they can import"
        ) from error
