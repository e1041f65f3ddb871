"""Errors of inputs that pass from one process to another."""

from __future__ import annotations

import pytest

from sim.errors import InputError, InputErrors, first_of, only_of


@pytest.mark.parametrize(
    "error", [InputError("wrong", "a:1", "mend it"), InputErrors([InputError("one"), InputError("two", "b")])]
)
def test_error_is_whole_after_a_pickle_of_its_call_alone(error: InputError) -> None:
    call, arguments = error.__reduce__()
    assert str(call(*arguments)) == str(error)


def test_first_exception_of_a_group_is_no_group() -> None:
    inner = KeyError("a")
    group = BaseExceptionGroup("", [ExceptionGroup("", [inner, ValueError()]), KeyboardInterrupt()])
    assert (first_of(group), first_of(inner)) == (inner, inner)


def test_only_error_of_a_group_is_taken_out_of_it() -> None:
    error = ValueError("a")
    alone = BaseExceptionGroup("outer", [ExceptionGroup("inner", [error])])
    several = ExceptionGroup("two", [error, KeyError("b")])
    assert (only_of(error), only_of(alone), only_of(several)) == (error, error, several)
