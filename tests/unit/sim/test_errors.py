"""Errors of inputs that pass from one process to another."""

from __future__ import annotations

import pytest

from sim.errors import InputError, InputErrors


@pytest.mark.parametrize(
    "error", [InputError("wrong", "a:1", "mend it"), InputErrors([InputError("one"), InputError("two", "b")])]
)
def test_error_is_whole_after_a_pickle_of_its_call_alone(error: InputError) -> None:
    call, arguments = error.__reduce__()
    assert str(call(*arguments)) == str(error)
