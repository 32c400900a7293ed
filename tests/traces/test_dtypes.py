"""Other types on the wire: how many bytes are sent, cut where, and what is refused."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from ml_dtypes import bfloat16

from gradwire.planning.plancheck import check_schedule
from gradwire.traces.making.collectives import made_allreduce, made_collective
from gradwire.traces.schedules.algorithm import NotServedError
from gradwire.traces.schedules.correctness import check_correct
from gradwire.traces.schedules.dtypes import DTYPES, DType, element_nbytes, exact_to, parse_dtype
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.names import AS_CAPTURED, INA, INA_LEAF, OF_HOSTS
from gradwire.traces.schedules.schedule import Op, sent_nbytes
from gradwire.traces.schedules.sends import Send
from gradwire.traces.workload import SCHEMA, Collective, Workload

HALVES: tuple[DType, ...] = ("float16", "bfloat16")


def test_sizes_and_exact_integers_are_those_of_numpy_and_ml_dtypes() -> None:
    types = {"float32": np.dtype(np.float32), "float16": np.dtype(np.float16), "bfloat16": np.dtype(bfloat16)}
    for dtype in DTYPES:
        assert element_nbytes(dtype) == types[dtype].itemsize
        last, next_one = exact_to(dtype), exact_to(dtype) + 1
        assert np.arange(last - 9, last + 2).astype(types[dtype]).astype(int).tolist() == [
            *range(last - 9, next_one),
            last,  # in place of the next one
        ]


@pytest.mark.broad(8)
@pytest.mark.parametrize("algorithm", [AS_CAPTURED, *OF_HOSTS])
@pytest.mark.parametrize("n_elements", [0, 1, 7, 4201])
def test_each_rank_sends_half_as_many_bytes_and_the_schedule_is_right(
    algorithm: str, n_elements: int
) -> None:
    """Of any number of elements, odd ones as well."""
    workload = made_allreduce(6, 4 * n_elements)
    full, half = expand(workload, algorithm), expand(workload, algorithm, wire="float16")
    assert [2 * nbytes for nbytes in sent_nbytes(half)] == sent_nbytes(full)
    assert half.ops[0].nbytes == 2 * n_elements
    check_schedule(half)
    check_correct(half)


def test_gloos_segments_are_as_long_in_bytes_whatever_the_type() -> None:
    """gloo/allreduce.cc: at most 1 MiB a segment; 24 MiB among 2 ranks are 24 segments, as float16 12."""
    for dtype, n_segments in (("float32", 24), ("float16", 12)):
        schedule = expand(made_allreduce(2, 24 << 20), wire=parse_dtype(dtype))
        assert len(schedule.sends) == 2 * n_segments
        assert set(schedule.sends.nbytes.tolist()) == {1 << 20}


def test_what_is_only_copied_keeps_its_bytes() -> None:
    items = (
        Collective(kind="broadcast", tag=1, nbytes=1001),
        Collective(kind="allreduce", tag=2, nbytes=400),
    )
    schedule = expand(Workload(schema=SCHEMA, framing="gloo", n_ranks=2, items=items), wire="bfloat16")
    assert [(op.nbytes, op.dtype) for op in schedule.ops] == [(1001, "float32"), (200, "bfloat16")]


def test_sizes_are_scaled_before_they_are_converted() -> None:
    schedule = expand(made_allreduce(2, 1000), scale=Fraction(1, 8), wire="float16")
    assert schedule.ops[0].nbytes == 2 * round(250 / 8)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("algorithm", [INA, INA_LEAF])
def test_switches_refuse_other_types_than_float32(algorithm: str, dtype: DType) -> None:
    with pytest.raises(NotServedError, match=f"not {dtype}: leave --wire out, or choose ring"):
        expand(made_allreduce(4, 4000), algorithm, wire=dtype)


def test_a_job_in_which_nothing_is_added_up_is_refused() -> None:
    with pytest.raises(NotServedError, match="nothing is added up in this job"):
        expand(made_collective("alltoall", 4, 4000), wire="float16")


def test_a_type_that_there_is_not_is_refused_naming_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="no type of numbers 'int8'; choose from float32, float16, bfloat16"):
        parse_dtype("int8")


def test_half_numbers_are_refused_in_plans() -> None:
    good = expand(made_allreduce(2, 400), "ring", wire="float16")
    with pytest.raises(ValueError, match="201 bytes are not whole float16 numbers of 2 bytes"):
        check_schedule(replace(good, ops=(replace(good.ops[0], nbytes=201),)))
    odd = replace(good, sends=type(good.sends).of([Send(0, 0, 1, 0, 99, reduce=True)]))
    with pytest.raises(ValueError, match="send 0 adds bytes that are not whole float16 elements"):
        check_schedule(odd)
    copied = replace(good, ops=(Op("broadcast", 200, dtype="float16"),))
    with pytest.raises(ValueError, match="it adds nothing up, so its dtype must be float32, got float16"):
        check_schedule(copied)
