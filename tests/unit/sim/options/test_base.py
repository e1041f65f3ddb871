"""How values of options read: as Go reads a flag's text, and never something else than was written."""

import pytest

from sim.options.base import duration, integer, long_integer, mapping, number


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("+5", 5), ("-3", -3), ("0x1f", 31), ("0o17", 15), ("017", 15), ("0b11", 3), ("1_000", 1000)],
)
def test_a_whole_number_may_name_its_base(text: str, value: int) -> None:
    assert integer(text) == value


@pytest.mark.parametrize(
    "value", ["", " 5 ", "١", "08", "1_", "_1", "1.0", "1e3", "x", True, 1.0, None, "9" * 5000]
)
def test_what_is_no_whole_number_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="a whole number"):
        integer(value)


@pytest.mark.parametrize("value", [1 << 31, "2147483648", -(1 << 31) - 1, 10**30])
def test_a_number_has_thirty_two_bits_or_sixty_four(value: object) -> None:
    with pytest.raises(ValueError, match="a whole number of 32 bits"):
        integer(value)
    assert integer("-2147483648") == -(1 << 31)
    assert long_integer("9223372036854775807") == (1 << 63) - 1
    with pytest.raises(ValueError, match="a whole number of 64 bits"):
        long_integer(1 << 63)


@pytest.mark.parametrize("value", ["١", " 1", "1_0", "nan", "inf", "0x1", "1e400", 10**400, True, None, ""])
def test_what_is_no_finite_number_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="a number"):
        number(value)


def test_numbers_read_with_fractions_and_exponents() -> None:
    assert [number(text) for text in (".5", "1.", "-2", "1e-3", 7)] == [0.5, 1, -2, 0.001, 7]


def test_digits_of_other_scripts_are_no_duration() -> None:
    with pytest.raises(ValueError, match="a duration"):
        duration("١s")


def test_an_entry_without_a_value_is_refused_and_not_called_none() -> None:
    assert mapping({"a": 1.5, "b": True, "c": ""}) == {"a": "1.5", "b": "true", "c": ""}
    with pytest.raises(ValueError, match="pairs such as"):
        mapping({"gpu": None})
