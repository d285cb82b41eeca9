"""What a schedule depends on beside its tasks."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from ..errors import UsageError


@dataclass(frozen=True)
class Overhead:
    """What comes on top of the replays, in seconds. cluster.md says where the defaults are from.

    The coordinator is the process that calls `kvsim.sweep`: it does one thing at a time.
    """

    worker: float = 1e-3
    """Per task, at its worker: to plan the task, to pack its rows."""
    plan: float = 1.5e-6
    """Per row, at the coordinator before the first task, and at each shard."""
    submit: float = 1e-4
    """Per task, at the coordinator, before it receives the first rows."""
    receive: float = 2e-4
    """Per task, at the coordinator, to be told of its end."""
    commit: float = 5e-3
    """Per task at a shard; at the coordinator per turn, for all tasks that have come: the disk."""
    store: float = 2.5e-5
    """Per row, at the coordinator or the shard: to unpack, check and write it."""
    collect: float = 1e-5
    """Per row, at the coordinator after the last task: the frame that `kvsim.sweep` returns."""

    def at_worker_only(self) -> Overhead:
        """As if the coordinator took no time."""
        return Overhead(**{**dict.fromkeys(asdict(self), 0.0), "worker": self.worker})

    def of_smaller_tasks(self, parts: int, commit_per_task: bool) -> Overhead:
        """As if a task that is cut into parts cost as much as before.

        A commit that is one of a turn's costs the same, whatever it is for.
        """
        per_task = ["worker", "submit", "receive", *(["commit"] if commit_per_task else [])]
        return Overhead(
            **{name: s / parts if name in per_task else s for name, s in asdict(self).items()}
        )


@dataclass(frozen=True)
class Conditions:
    """How workers behave. Times in seconds."""

    overhead: Overhead = field(default_factory=Overhead)
    startup: float = 0.0
    """From the beginning, or from a death, until a worker takes a task."""
    straggler_share: float = 0.0
    """Of the workers, rounded to whole ones; drawn with the seed."""
    straggler_factor: float = 1.0
    """Their tasks take so many times as long."""
    life: float | None = None
    """Mean time between the deaths of a worker, which are as likely at any time; None: none die.
    A task that dies with its worker is done again by the next that is free, three times at most."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value in asdict(self.overhead).items():
            _check(value >= 0, f"overhead: {name}", "0 seconds or more", value)
        _check(self.startup >= 0, "startup", "0 seconds or more", self.startup)
        share = self.straggler_share
        _check(0 <= share <= 1, "stragglers: share", "0 to 1", share)
        factor = self.straggler_factor
        _check(factor >= 1, "stragglers: factor", "1 or more", factor)
        _check(self.life is None or self.life > 0, "deaths", "more than 0 hours", self.life)


def _check(holds: bool, what: str, expected: str, found: object) -> None:
    if not (holds and found != float("inf")):
        raise UsageError(f"{what}: expected {expected}, found {found}")
