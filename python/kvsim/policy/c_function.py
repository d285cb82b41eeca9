"""C functions in place of a policy's `update`: numba, ctypes, or any other."""

import ctypes
import functools
import types
from typing import Any

import numpy


class StepStruct(ctypes.Structure):
    """The first argument of a C function, `const kvsim_step*` of the header `kvsim/plugin.h`.

    `attention` and the other arrays are pointers: [num_tokens], keys [num_tokens, head_dim], values
    [num_tokens, value_dim], queries [num_queries, head_dim]. NULL unless the rules ask for them.
    `selected` [num_selected] are the tokens that the model itself selected; NULL: it sees all.

    >>> @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(kvsim.StepStruct),
    ...                   ctypes.POINTER(ctypes.c_double), ctypes.c_void_p)
    ... def update(step, scores, state):
    ...     for slot in range(step.contents.num_tokens):
    ...         scores[slot] += step.contents.attention[slot]
    ...     return 0
    """

    _fields_ = (
        ("index", ctypes.c_int32),
        ("num_tokens", ctypes.c_int32),
        ("overflow", ctypes.c_int32),
        ("head_dim", ctypes.c_int32),
        ("value_dim", ctypes.c_int32),
        ("num_queries", ctypes.c_int32),
        ("tokens", ctypes.POINTER(ctypes.c_int32)),
        ("attention", ctypes.POINTER(ctypes.c_float)),
        ("full_attention", ctypes.POINTER(ctypes.c_float)),
        ("keys", ctypes.POINTER(ctypes.c_float)),
        ("values", ctypes.POINTER(ctypes.c_float)),
        ("queries", ctypes.POINTER(ctypes.c_float)),
        ("selected", ctypes.POINTER(ctypes.c_int32)),
        ("num_selected", ctypes.c_int32),
    )


def numba_signature() -> Any:
    """The numba signature of `update`: `kvsim.update_signature`. Raises ImportError without numba.

    >>> @numba.cfunc(kvsim.update_signature)
    ... def update(step, scores, state):
    ...     seen = numba.carray(step, 1)[0]
    ...     attention = numba.carray(seen.attention, seen.num_tokens)
    ...     total = numba.carray(scores, seen.num_tokens)
    ...     total += attention
    ...     return 0
    """
    from numba import types as numba_types

    return numba_types.int32(
        numba_types.CPointer(_numba_step()),
        numba_types.CPointer(numba_types.float64),
        numba_types.voidptr,
    )


@functools.cache
def _numba_step() -> Any:
    """`StepStruct` as a record of numba's, whose own records have no pointers."""
    from numba import extending, types

    class Step(types.Record):
        @property
        def dtype(self) -> numpy.dtype:
            sizes = [f"u{ctypes.sizeof(kind)}" for _, kind in StepStruct._fields_]
            return numpy.dtype(list(zip(self.fields, sizes, strict=True)))

    extending.register_model(Step)(extending.models.RecordModel)
    of_ctypes = {ctypes.c_int32: types.int32, ctypes.c_float: types.float32}
    fields = []
    for name, kind in StepStruct._fields_:
        is_pointer = kind not in of_ctypes
        number = of_ctypes[kind._type_ if is_pointer else kind]
        field = {
            "type": types.CPointer(number) if is_pointer else number,
            "offset": getattr(StepStruct, name).offset,
            "alignment": ctypes.alignment(kind),
        }
        fields.append((name, field))
    return Step(fields, ctypes.sizeof(StepStruct), aligned=True)


def address_of(update: Any) -> int:
    """The address of a C function: of numba's `cfunc`, of a function of ctypes, or a number.

    0 for a function of Python. Raises TypeError for anything else.
    """
    if isinstance(update, types.FunctionType):
        return 0
    address = getattr(update, "address", update)
    if isinstance(address, ctypes._CFuncPtr):
        address = ctypes.cast(address, ctypes.c_void_p).value
    if not isinstance(address, int) or isinstance(address, bool) or address <= 0:
        raise TypeError(
            "update: expected a method, or a C function of the declared signature (numba.cfunc, "
            f"ctypes, an address), found {update!r}"
        )
    return address
