"""Errors of inputs that pass from one process to another."""

from __future__ import annotations

import pytest

from sim.errors import InputError, InputErrors, first_of


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
