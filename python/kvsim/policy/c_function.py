"""C functions in place of a policy's `update`: numba, ctypes, or any other."""

import ctypes
import functools
import types
from typing import Any

import numpy


class StepStruct(ctypes.Structure):
    """The first argument of a C function, `const kvsim_step*` of the header `kvsim/plugin.h`.

    Arrays are pointers, NULL unless the rules ask for them.

    Attributes
    ----------
    index : c_int32
        The number of the step, from 0.
    num_tokens : c_int32
        Tokens in the cache, that of the step included.
    overflow : c_int32
        Tokens to evict after this step; pruning may evict more.
    head_dim, value_dim : c_int32
        Dimensions of a key and of a value.
    num_queries : c_int32
        Query heads of the group.
    tokens : pointer to c_int32, shape (num_tokens,)
        Text positions.
    attention, full_attention : pointer to c_float, shape (num_tokens,)
        Attention of the step.
    keys : pointer to c_float, shape (num_tokens, head_dim)
        Keys of the tokens.
    values : pointer to c_float, shape (num_tokens, value_dim)
        Values of the tokens.
    queries : pointer to c_float, shape (num_queries, head_dim)
        Queries of the step.
    selected : pointer to c_int32, shape (num_selected,)
        The tokens that the model itself selected; NULL: it sees all.
    num_selected : c_int32
        Their number.

    Examples
    --------
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
    """The numba signature of `update`: `kvsim.update_signature`.

    Returns
    -------
    numba.core.typing.templates.Signature
        Of `int32 update(const kvsim_step*, double* scores, void* state)`.

    Raises
    ------
    ImportError
        Without numba.

    Examples
    --------
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
