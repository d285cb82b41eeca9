"""A double of a CUDA device: tensors that say they are on cuda:0 while their numbers lie here.

    with device_double.found() as device:
        model.to("cuda:0")  # and anything that PyTorch makes with device="cuda"

It promises what code gets wrong without a device at hand. As CUDA does, it raises where one
operation meets tensors of both places; a tensor of the CPU with no dimensions may meet others in
operations by element, and indices of the CPU may index, as on CUDA. No number reaches the host
unseen: NumPy is refused, and so is copying into a tensor of the CPU, which CUDA allows. Whatever
makes the host wait is counted at the line that asked for it: `.cpu()`, `.item()`, `bool()`,
`.tolist()`, indexing by booleans, `nonzero`, and all else whose result or shape depends on numbers.
`waits` counts these lines, `uploads` those that copy to the device. Streams and events are there;
all that they order has happened at once, and to wait for one counts.

It does not promise CUDA's rounding, kernels, memory, random numbers or the order of what runs at
the same time, and no speed. Attention is PyTorch's own formula (`math`), not a fused kernel.
"""

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from device_backward import gradients

DEVICE = torch.device("cuda:0")
MEMORY = 1 << 32  # bytes that are free on it
PACKAGE = "kvsim/"  # what its lines begin with

_aten = torch.ops.aten
_INDEXING = (_aten.index, _aten.index_put, _aten.index_put_, _aten._unsafe_index)
_TAKE_NUMBERS = (_aten.copy_, _aten._to_copy)  # copies, which the places of their ends decide
_DEPEND_ON_NUMBERS = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}

# Operations that PyTorch has for CUDA and not for the CPU.
_OF_CUDA_ALONE = {
    "aten::histc": lambda x, *rest: _aten.histc(x.double(), *rest).to(x.dtype),
    "aten::mm.dtype": lambda x, y, dtype: x.to(dtype) @ y.to(dtype),
    "aten::bmm.dtype": lambda x, y, dtype: x.to(dtype) @ y.to(dtype),
}


class OnDevice(torch.Tensor):
    """A tensor of the device. `held` has its numbers, and shares memory as they do."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> "OnDevice":
        with torch.inference_mode(held.is_inference()):
            made = torch.Tensor._make_wrapper_subclass(
                cls, held.size(), strides=held.stride(), storage_offset=held.storage_offset(),
                dtype=held.dtype, device=DEVICE,
            )  # fmt: skip
        made.held = held
        return made

    def __repr__(self, **_) -> str:
        return f"OnDevice({self.held})"

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise RuntimeError("a tensor of the device has outlived it")

    def numpy(self, **_) -> np.ndarray:
        raise TypeError(f"can't convert {DEVICE} device type tensor to numpy")

    def __array__(self, *_, **__) -> np.ndarray:
        return self.numpy()

    def tolist(self) -> list:
        return self.cpu().tolist()

    def __deepcopy__(self, memo: dict) -> "OnDevice":
        return memo.setdefault(id(self), self.detach().clone())

    def record_stream(self, stream: object) -> None:
        pass

    def data_ptr(self) -> int:
        return self.held.data_ptr()


class Double(TorchDispatchMode):
    """Computes on both places, and counts what goes from one to the other."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter[str] = Counter()  # of the host, by the line that asked
        self.uploads: Counter[str] = Counter()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else each operation would go through the compiler, which loads slowly

    def own_waits(self) -> int:
        """Those of the package; the others are the model's own."""
        return sum(count for line, count in self.waits.items() if line.startswith(PACKAGE))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        flat, form = tree_flatten((args, kwargs))
        tensors = [each for each in flat if isinstance(each, torch.Tensor)]
        on_device = [each for each in tensors if isinstance(each, OnDevice)]
        asked = next((each for each in flat if isinstance(each, torch.device)), None)
        if not on_device and (asked is None or asked.type != DEVICE.type):
            if func.overloadpacket in (_aten.pin_memory, _aten._pin_memory):
                return args[0]
            return func(
                *args, **kwargs | {"pin_memory": False} if "pin_memory" in kwargs else kwargs
            )
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
            with self:  # what it consists of may be what counts
                return func.decompose(*args, **kwargs)
        goes_on = self._look(func, args, kwargs, tensors, len(on_device))
        wrapped = {id(each.held): each for each in on_device}
        held = [each.held if isinstance(each, OnDevice) else each for each in flat]
        args, kwargs = tree_unflatten(held, form)
        if asked is not None:
            kwargs["device"] = torch.device("cpu")
        result = _OF_CUDA_ALONE.get(func.name(), func)(*args, **kwargs)
        if not goes_on:
            return result
        return tree_map(
            lambda x: _as_of_device(x, wrapped) if isinstance(x, torch.Tensor) else x, result
        )

    def _look(self, func, args, kwargs, tensors, on_device: int) -> bool:
        """Whether the result is on the device. Counts, and raises for what CUDA cannot do."""
        kind, asked = func.overloadpacket, kwargs.get("device")
        stays = asked is None or asked.type == DEVICE.type
        here = [each for each in tensors if not isinstance(each, OnDevice)]
        if kind is _aten.copy_:
            if isinstance(args[0], OnDevice):
                self.uploads[_line()] += len(here)
            elif not any(args[2:]):  # of one that need not wait, the caller knows
                raise RuntimeError("the device's numbers are copied into a tensor of the CPU")
            else:
                stays = False
        elif kind is _aten._to_copy:
            if not on_device:
                self.uploads[_line()] += 1
            elif not stays:
                self.waits[_line()] += 1
        elif kind in _INDEXING:
            self._look_at_indices(kind, args)
        elif _DEPEND_ON_NUMBERS & {*func.tags}:
            self.waits[_line()] += 1
        if kind not in (*_TAKE_NUMBERS, *_INDEXING) and on_device:
            by_element = torch.Tag.pointwise in func.tags
            for each in here:
                if each.dim() or not by_element:
                    raise RuntimeError(
                        f"Expected all tensors to be on the same device, found {DEVICE} and cpu in "
                        f"{func.name()}"
                    )
        return stays

    def _look_at_indices(self, kind, args) -> None:
        source, indices, *values = args
        if not isinstance(source, OnDevice):
            raise RuntimeError("a tensor of the CPU is indexed by indices of the device")
        if any(isinstance(each, torch.Tensor) and each.dim() and not isinstance(each, OnDevice)
               for each in values[:1]):  # fmt: skip
            raise RuntimeError("numbers of the CPU are put into a tensor of the device")
        given = [each for each in indices if each is not None]
        self.uploads[_line()] += sum(not isinstance(each, OnDevice) for each in given)
        masks = sum(each.dtype in (torch.bool, torch.uint8) for each in given)
        is_fill = values and values[0].numel() == 1 and masks == len(given)  # needs no places
        self.waits[_line()] += 0 if is_fill else masks


class _Order:
    """A stream or an event. What was asked for has happened, so that nothing is out of order."""

    double: Double  # of the class that found() makes

    def __init__(self, *_, **__) -> None:
        pass

    def synchronize(self) -> None:
        if threading.current_thread() is threading.main_thread():  # where the model runs
            self.double.waits[_line()] += 1

    def query(self) -> bool:
        return True

    def record_event(self, event: "_Order | None" = None) -> "_Order":
        return event or type(self)()

    def record(self, _stream: object = None) -> None:
        pass

    wait = wait_event = wait_stream = record


def _as_of_device(tensor: torch.Tensor, wrapped: dict[int, OnDevice]) -> OnDevice:
    """What stands for it: of an operation in place, the tensor that was given."""
    known = wrapped.get(id(tensor))
    if known is None:
        return OnDevice(tensor)
    if known.shape != tensor.shape or known.stride() != tensor.stride():
        raise NotImplementedError("an operation in place that gives a tensor another shape")
    return known


def _line() -> str:
    """The nearest line that is not PyTorch's, as FOLDER/FILE:LINE."""
    frame = sys._getframe(1)
    while "/torch/" in frame.f_code.co_filename or frame.f_code.co_filename == __file__:
        frame = frame.f_back
    path = Path(frame.f_code.co_filename)
    package = next((p for p in ("kvsim", "transformers") if p in path.parts), path.parent.name)
    return f"{package}/{path.name}:{frame.f_lineno}"


def _attention(own: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Chooses no kernel of CUDA, which would ask the driver."""

    def attend(query, key, value, mask=None, dropout_p=0.0, is_causal=False, **options):
        mask = options.pop("attn_mask", mask)
        if not isinstance(query, OnDevice):
            return own(query, key, value, mask, dropout_p, is_causal, **options)
        if mask is not None and mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, -torch.inf)
        formula = torch._scaled_dot_product_attention_math
        return formula(query, key, value, mask, dropout_p, is_causal, **options)[0]

    return attend


@contextmanager
def found() -> Iterator[Double]:
    """PyTorch finds the device until the block ends. Models of it stay its own."""
    torch._C._ensureCUDADeviceGuardSet()
    lifts = torch._C._only_lift_cpu_tensors()
    swaps = torch.__future__.get_swap_module_params_on_conversion()
    double, functional = Double(), torch.nn.functional
    attend = _attention(functional.scaled_dot_product_attention)
    order = type("Order", (_Order,), {"double": double})
    with ExitStack() as stack:
        for place, name, stand_in in (
            (torch.cuda, "_lazy_init", lambda: None),
            (torch.cuda, "is_available", lambda: True),
            (torch.cuda, "device_count", lambda: 1),
            (torch.cuda, "current_device", lambda: 0),
            (torch.cuda, "device", nullcontext),
            (torch.cuda, "manual_seed", lambda _seed: None),  # what is drawn, the CPU draws
            (torch.cuda, "get_rng_state", lambda _device=None: torch.get_rng_state()),
            (torch.cuda, "set_rng_state", lambda _state, _device=None: None),
            (torch.cuda, "get_device_capability", lambda _device=None: (9, 0)),
            (torch.cuda, "mem_get_info", lambda _device=None: (MEMORY, MEMORY)),
            (torch.cuda, "synchronize", lambda _device=None: order().synchronize()),
            (torch.cuda, "Stream", order),
            (torch.cuda, "Event", order),
            (torch.cuda, "stream", nullcontext),
            (torch.cuda, "current_stream", lambda _device=None: order()),
            (torch.autograd, "grad", gradients),
            (functional, "scaled_dot_product_attention", attend),
        ):
            stack.enter_context(mock.patch.object(place, name, stand_in))
        torch.__future__.set_swap_module_params_on_conversion(True)  # a parameter stays itself
        stack.callback(torch.__future__.set_swap_module_params_on_conversion, swaps)
        torch._C._set_only_lift_cpu_tensors(True)
        stack.callback(torch._C._set_only_lift_cpu_tensors, lifts)
        yield stack.enter_context(double)
