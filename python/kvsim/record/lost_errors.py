"""Errors of destructors, which Python prints and forgets."""

import sys
from types import TracebackType


class LostErrors:
    """While it is entered, it keeps what h5py could not write when an object of it was let go."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def __enter__(self) -> "LostErrors":
        self._before = sys.unraisablehook
        sys.unraisablehook = self._keep
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sys.unraisablehook = self._before

    def _keep(self, lost: "sys.UnraisableHookArgs") -> None:
        if "h5py" in str(lost.object) or "ref count" in str(lost.exc_value):
            self.messages.append(str(lost.exc_value))
        else:
            self._before(lost)
