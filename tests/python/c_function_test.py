"""C functions in place of a policy's update."""

import ctypes
import pickle
import subprocess

import numba
import numpy as np
import pandas as pd
import pytest

import kvsim
import written_policies as written
from conftest import SAMPLE

C_UPDATE = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.POINTER(kvsim.StepStruct),
    ctypes.POINTER(ctypes.c_double),
    ctypes.c_void_p,
)
SOURCE = r"""
#include <kvsim/plugin.h>
int32_t by_value(const kvsim_step* step, double* scores, void* state) {
  if (state || !step->keys || !step->values || !step->queries || step->full_attention) return 1;
  for (int32_t i = 0; i < step->num_tokens; ++i) {
    double sum = step->tokens[i] > step->index || step->attention[i] > 1;
    for (int32_t k = 0; k < step->value_dim; ++k) {
      sum += (double)step->values[i * step->value_dim + k];
    }
    for (int32_t k = 0; k < step->head_dim; ++k) {
      sum += (double)step->keys[i * step->head_dim + k] *
             (double)step->queries[(step->num_queries - 1) * step->head_dim + k];
    }
    scores[i] = sum;
  }
  return 0;
}
"""


def swept(policies, **options):
    return kvsim.sweep(SAMPLE, policies, [9, "20%"], layers=0, threads=2, **options)


def same(left, right):
    drop = ["policy", "policy_code"]
    left, right = swept(left).drop(columns=drop), swept(right).drop(columns=drop)
    pd.testing.assert_frame_equal(left, right, check_exact=True)


@C_UPDATE
def add_attention(step, scores, state):
    seen = step.contents
    attention = np.ctypeslib.as_array(seen.attention, (seen.num_tokens,))
    total = np.ctypeslib.as_array(scores, (seen.num_tokens,))
    total += attention
    return 0


def test_functions_of_ctypes_and_addresses_stand_in_for_update():
    class OfCtypes(written.H2O):
        update = add_attention

    class OfAddress(written.H2O):
        update = ctypes.cast(add_attention, ctypes.c_void_p).value

    same(OfCtypes, written.H2O)
    same(OfAddress, written.H2O)


def test_a_function_of_a_library_sees_what_its_rules_ask_for(tmp_path):
    source, library = tmp_path / "mine.c", tmp_path / "libmine.so"
    source.write_text(SOURCE)
    include = SAMPLE.parents[2] / "sim/plugin/include"
    flags = ["-shared", "-fPIC", "-O1", "-ffp-contract=off", f"-I{include}", "-o", library]
    subprocess.run(["cc", *flags, source], check=True)

    class OfLibrary(kvsim.Policy):
        rules = kvsim.Rules(sees_keys=True, sees_values=True, sees_queries=True)
        update = ctypes.CDLL(library).by_value

    class OfPython(kvsim.Policy):
        rules = kvsim.Rules(sees_values=True, sees_queries=True)

        def update(self, step, scores):
            scores[:] = 0
            for column in step.values.astype(float).T:
                scores += column
            for column in (step.keys.astype(float) * step.queries[-1].astype(float)).T:
                scores += column

    same(OfLibrary, OfPython)


def test_numba_reads_all_of_the_struct():
    class Compiled(kvsim.Policy):
        rules = kvsim.Rules(sees_keys=True, sees_full_attention=True)

        @numba.cfunc(kvsim.update_signature)
        def update(step, scores, state):
            seen = numba.carray(step, 1)[0]
            count = seen.num_tokens
            keys = numba.carray(seen.keys, (count, seen.head_dim))
            tokens = numba.carray(seen.tokens, count)
            full = numba.carray(seen.full_attention, count)
            for slot in range(count):
                place = np.float64(seen.index - tokens[slot] + seen.overflow)
                numba.carray(scores, count)[slot] = full[slot] + keys[slot, 0] + place
            return 0

    class Plain(kvsim.Policy):
        rules = kvsim.Rules(sees_full_attention=True)

        def update(self, step, scores):
            place = (step.index - step.tokens + step.overflow).astype(float)
            scores[:] = (step.full_attention + step.keys[:, 0]) + place

    same(Compiled, Plain)


def test_the_struct_is_that_of_the_header():
    header = (SAMPLE.parents[2] / "sim/plugin/include/kvsim/plugin.h").read_text()
    struct = header[header.index("typedef struct kvsim_step {") : header.index("} kvsim_step;")]
    declared = [line.split(";")[0].split()[-1] for line in struct.splitlines() if ";" in line]
    declared = [name.lstrip("*") for name in declared if name.isidentifier() or name[0] == "*"]
    names = [name for name, _ in kvsim.StepStruct._fields_]
    assert [name for name in declared if name in names] == names
    assert ctypes.sizeof(kvsim.StepStruct) == 88


def test_a_function_that_returns_another_number_than_0_ends_the_sweep():
    class Refuses(kvsim.Policy):
        @numba.cfunc(kvsim.update_signature)
        def update(step, scores, state):
            return 7 * (numba.carray(step, 1)[0].index == 17)

    with pytest.raises(kvsim.DataError, match=r"policy refuses at budget .* returned 7 at step 17"):
        swept(Refuses)


def test_a_changed_function_has_another_code():
    def made(factor):
        class Compiled(kvsim.Policy):
            @numba.cfunc(kvsim.update_signature)
            def update(step, scores, state):
                numba.carray(scores, 1)[0] = factor
                return 0

        return Compiled._kvsim_code

    assert made(1) == made(1) != made(2)


@pytest.mark.parametrize("update", [None, "text", 0, -1, True, 2.5, pickle])
def test_what_is_no_function_is_a_type_error(update):
    with pytest.raises(TypeError, match="expected a method, or a C function"):
        type("Mine", (kvsim.Policy,), {"update": update})
