"""Brings the vectors of a running model to memory, without the model waiting for it.

What a device computed is copied there, then to page-locked memory on a stream of its own, which
waits for the device to have computed it; threads read it there as soon as it has arrived. On the
CPU, and on devices without such streams, it is read at once.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Protocol

import torch

LANES = 8  # threads that read what has arrived, at most
BUFFERS = 4  # of a lane: what is on its way, and what is read

Use = Callable[[torch.Tensor], None]


class Event(Protocol):
    def synchronize(self) -> None:
        """Waits until what came before has been done."""


class Stream(Protocol):
    """Copies from a device, one after the other."""

    def buffer(self, size: int) -> torch.Tensor:
        """Memory that it can copy to while others run, uint8 [size]."""

    def copy(self, source: torch.Tensor, target: torch.Tensor) -> Event:
        """Copies as soon as the device has computed `source`, and returns at once.

        Until the event, `source` must stay and `target` is unknown.
        """


class CudaStream:
    def __init__(self, device: torch.device) -> None:
        self._device, self._stream = device, torch.cuda.Stream(device)

    def buffer(self, size: int) -> torch.Tensor:
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def copy(self, source: torch.Tensor, target: torch.Tensor) -> Event:
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            target.copy_(source, non_blocking=True)
            return self._stream.record_event()


def stream_for(device: torch.device) -> Stream | None:
    """A new stream of the device; None if its copies cannot run while it computes."""
    if device.type == "cuda" and torch.cuda.is_available():
        return CudaStream(device)
    return None


class Copies:
    """Copies tensors and lets a function read each copy.

    Functions of one lane run one after the other, in the order of `take`, those of several lanes at
    the same time, at most LANES and as many as `threads`. At most BUFFERS copies of a lane exist at
    a time, here and on the device: `take` waits until one of them has been read.
    """

    def __init__(self, threads: int = 1) -> None:
        self._lanes = min(LANES, threads)
        self._streams: dict[torch.device, Stream | None] = {}
        self._open: dict[int, _Lane] = {}
        self._waiting: deque[Future[None]] = deque()  # in the order of `take`

    @property
    def are_late(self) -> bool:
        """Whether some came from a device that goes on meanwhile."""
        return any(self._streams.values())

    def lane_for(self, device: torch.device, number: int) -> int:
        """One of the lanes, in turn for numbers that follow each other; 0 where nothing waits."""
        return 0 if self._stream(device) is None else number % self._lanes

    def take(self, tensor: torch.Tensor, use: Use, lane: int = 0) -> None:
        """Lets `use` read the numbers that the tensor has now. It must not keep what it gets.

        Raises what `use` of this or an earlier tensor has raised. After that, those that were
        taken before in its lane are not read.
        """
        stream = self._stream(tensor.device)
        if stream is None:
            use(tensor.cpu())
            return
        if any(one.has_failed for one in self._open.values()):
            self.drain()
        if lane not in self._open:
            self._open[lane] = _Lane()
        self._waiting.append(self._open[lane].take(stream, tensor, use))

    def _stream(self, device: torch.device) -> Stream | None:
        if device not in self._streams:
            self._streams[device] = stream_for(device)
        return self._streams[device]

    def drain(self) -> None:
        """Waits until all copies have been read. Raises the first error that occurred, by order."""
        errors = [future.exception() for future in self._waiting]
        self._waiting.clear()
        for lane in self._open.values():
            lane.has_failed = False
        if first := next(filter(None, errors), None):
            raise first

    def forget(self) -> None:
        """Waits for what is being read; the rest, and its errors, do not count."""
        for lane in self._open.values():
            lane.has_failed = True
        for future in self._waiting:
            future.exception()
        self._waiting.clear()
        for lane in self._open.values():
            lane.has_failed = False

    def close(self) -> None:
        """The same, and ends all threads."""
        self.forget()
        for lane in self._open.values():
            lane.close()
        self._open.clear()


class _Lane:
    """A thread that reads copies, and the memory for them."""

    def __init__(self) -> None:
        self.has_failed = False  # what was taken before is not read
        self._thread = ThreadPoolExecutor(1)
        self._free: SimpleQueue[torch.Tensor | None] = SimpleQueue()
        for _ in range(BUFFERS):
            self._free.put(None)

    @torch.inference_mode()  # buffers outlive that of a caller, and no gradient goes through them
    def take(self, stream: Stream, tensor: torch.Tensor, use: Use) -> Future[None]:
        buffer = self._free.get()
        try:
            # The model may change its own memory before the stream has come to it.
            source = tensor.clone(memory_format=torch.contiguous_format)
            size = source.numel() * source.itemsize
            if buffer is None or len(buffer) < size:
                buffer = None  # before the next one is there
                buffer = stream.buffer(size)
            target = buffer[:size].view(source.dtype).view(source.shape)
            done = stream.copy(source, target)
            return self._thread.submit(self._use, done, source, buffer, target, use)
        except BaseException:
            self._free.put(buffer)
            raise

    def _use(
        self,
        done: Event,
        source: torch.Tensor,  # which must not be freed before
        buffer: torch.Tensor,
        target: torch.Tensor,
        use: Use,
    ) -> None:
        try:
            done.synchronize()
            if not self.has_failed:
                use(target)
        except BaseException:
            self.has_failed = True
            raise
        finally:
            self._free.put(buffer)

    def close(self) -> None:
        self._thread.shutdown()
