"""Durations, times and quantities."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim import units
from sim.units import (
    BINARY_SI,
    DECIMAL_EXPONENT,
    HOUR,
    MINUTE,
    MS,
    SECOND,
    format_duration,
    format_micro_time,
    format_quantity,
    format_quantity_milli,
    format_time,
    human_duration,
    parse_duration_us,
    parse_time,
    parse_unsigned,
    parse_whole,
    quantity_milli,
    quantity_nano,
    quantity_parts,
    quantity_rounded,
    quantity_text,
    quantity_value,
    quantity_wrapped_milli,
    unsigned_problem,
    whole_problem,
)


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("1h2m3.5s", HOUR + 2 * MINUTE + 3500 * MS),
        ("0", 0),
        ("-1.5h", -90 * MINUTE),
        ("10ms", 10 * MS),
        ("1µs", 1),
        ("1500ns", 1),
        (".5s", 500 * MS),
        (f"0.{'9' * 5000}s", SECOND - 1),
        ("2562047h", 2_562_047 * HOUR),
        ("5.s", 5 * SECOND),
    ],
)
def test_a_go_duration_parses_to_microseconds(text, us):
    assert parse_duration_us(text) == us


_INVALID = 'time: invalid duration "{}"'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((text, _INVALID) for text in ("", "s", "+", "-.s", "2562048h", f"{'9' * 5000}s")),
        ("5", 'time: missing unit in duration "{}"'),
        ("1h2.", 'time: missing unit in duration "{}"'),
        ("1d", 'time: unknown unit "d" in duration "{}"'),
        ("1mx", 'time: unknown unit "mx" in duration "{}"'),
        ("1h ", 'time: unknown unit "h " in duration "{}"'),
        ("1h-2m", 'time: unknown unit "h-" in duration "{}"'),
    ],
)
def test_what_is_no_go_duration_is_refused_in_gos_words(text, message):
    with pytest.raises(ValueError, match="time: ") as caught:
        parse_duration_us(text)
    assert str(caught.value) == message.format(text)


def test_a_refused_duration_is_quoted_as_go_quotes_it():
    with pytest.raises(ValueError, match="invalid") as caught:
        parse_duration_us('"\\ é\n')
    assert str(caught.value) == r'time: invalid duration "\"\\ \xc3\xa9\x0a"'


LONG = "0" * 1_000_000  # a quadratic search through these digits never ends


@pytest.mark.parametrize("text", [LONG, f"1{LONG}!", f"1.{LONG}!"], ids=["digits", "whole", "fraction"])
def test_malformed_quantity_or_duration_of_any_length_is_refused_at_once(text):
    with pytest.raises(ValueError, match="duration"):
        parse_duration_us(text + ".")
    with pytest.raises(ValueError, match="quantities must match"):
        quantity_nano(f"{text}!")


def test_durations_print_as_go_prints_them():
    shown = [format_duration(us) for us in (0, 10, 1500, SECOND, 90 * SECOND, HOUR, -3500 * MS)]
    assert shown == ["0s", "10µs", "1.5ms", "1s", "1m30s", "1h0m0s", "-3.5s"]


@given(st.integers(min_value=-(10**15), max_value=10**15))
def test_every_duration_survives_its_text(us):
    assert parse_duration_us(format_duration(us)) == us


@given(st.integers(min_value=0, max_value=4 * 10**15))
def test_every_point_in_time_survives_its_text(us):
    assert parse_time(format_micro_time(us)) == us
    assert parse_time(format_time(us)) == us // SECOND * SECOND


def test_times_take_offsets_and_any_number_of_digits():
    assert format_time(parse_time("2022-08-23T02:00:00+02:00")) == "2022-08-23T00:00:00Z"
    assert format_micro_time(parse_time("2022-08-23T00:00:00.1234567Z")) == "2022-08-23T00:00:00.123456Z"
    with pytest.raises(ValueError, match="RFC 3339"):
        parse_time("2022-08-23 00:00:00")


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("100m", 100),
        ("1", 1000),
        ("1.5", 1500),
        ("1u", 1),
        ("-100m", -100),
        ("1e3", 1_000_000),
        ("0.0001", 1),
    ],
)
def test_milli_values_are_exact_and_round_up(text, milli):
    assert quantity_milli(text) == milli


def test_values_round_up_and_know_binary_suffixes():
    assert [quantity_value(t) for t in ("1Ki", "0.5Gi", "100m", "Gi", "1Gi ", "8E", "1.1")] == [
        1024,
        2**29,
        1,
        0,
        2**30,
        8 * 10**18,
        2,
    ]


@pytest.mark.parametrize("text", ["", "1 Gi", "abc", "1.2.3", "0x1"])
def test_what_is_no_quantity_is_refused(text):
    with pytest.raises(ValueError, match="regular expression"):
        quantity_value(text)


@pytest.mark.parametrize("text", ["1ki", "1K", "--1", f"1e{'9' * 5000}"])
def test_a_number_in_no_known_unit_is_refused_for_its_suffix(text):
    with pytest.raises(ValueError, match="unable to parse quantity's suffix"):
        quantity_value(text)


@pytest.mark.parametrize(
    ("text", "nano"),
    [
        ("9" * 5000, (10**60 - 1) * 10**9),
        ("9" * 5000 + "Gi", (2**63 - 1) * 10**9),
        ("0." + "9" * 5000, 10**9),
        ("1." + "0" * 5000, 10**9),
        ("1." + "0" * 5000 + "1", 10**9 + 1),
        ("1e400", 10**409),
        ("9Ei", (2**63 - 1) * 10**9),
    ],
)
def test_a_quantity_of_any_length_is_capped_and_rounded(text, nano):
    assert quantity_nano(text) == nano


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        *((text, text) for text in ("0010", "+5", "5.", "1Gi", "3", "1500m", "100Mi", "999.Mi", "1e3")),
        ("1Gi ", "1Gi"),
        ("0.5", "500m"),
        ("-0", "0"),
        ("0Gi", "0"),
        ("1000", "1k"),
        ("1000m", "1"),
        ("1024Ki", "1Mi"),
        ("0.5Gi", "512Mi"),
        ("1.0000000001", "1000000001n"),
        ("10E", "10E"),
        ("1e30", "1e30"),
        ("1E3", "1E3"),
        ("1e4", "10e3"),
        ("1e400", "10e399"),
        ("1000000000000000000E", "1"),
    ],
)
def test_quantities_keep_their_text_if_it_is_canonical(text, shown):
    """quantity.go: ParseQuantity keeps the text, String writes the canonical form otherwise."""
    assert quantity_text(text) == shown


def test_quantity_without_digits_is_zero_or_refused_by_its_size():
    assert [quantity_nano(text) for text in ("+", ".", "Ki", "Ti")] == [0, 0, 0, 0]
    for text in ("Pi", "Ei", "e-10"):
        with pytest.raises(ValueError, match="unable to parse numeric part of quantity"):
            quantity_nano(text)


def test_rounding_of_defaults_changes_only_what_is_finer_than_milli():
    assert [quantity_rounded(text) for text in ("+5", "0.5", "1500u", "-1500u", "1n")] == [
        "+5",
        "0.5",
        "2m",
        "-2m",
        "1m",
    ]


def test_parts_of_a_quantity_are_those_that_go_prints():
    assert quantity_parts("500m") == (500, -3, "500m", "DecimalSI")
    assert quantity_parts("0.5") == (5, -1, "", "DecimalSI")
    assert quantity_parts("1Ki") == (1024, 0, "1Ki", "BinarySI")
    assert quantity_parts("1.5Gi") == (0, None, "", "BinarySI")


def test_milli_units_of_large_quantities_wrap_around():
    """amount.go: AsScaledInt64; scale_int.go: scaledValue."""
    assert [quantity_wrapped_milli(text) for text in ("1", "1Ei", "1e18")] == [1000, -(2**63), 0]


def test_canonical_quantities_take_the_largest_exact_suffix():
    assert format_quantity(1024, BINARY_SI) == "1Ki"
    assert format_quantity(1536 * 2**20, BINARY_SI) == "1536Mi"
    assert format_quantity(1000, BINARY_SI) == "1k"
    assert format_quantity(2000) == "2k"
    assert format_quantity_milli(1500) == "1500m"
    assert format_quantity_milli(2000) == "2"
    assert format_quantity(5000, DECIMAL_EXPONENT) == "5e3"
    assert format_quantity(0) == "0"


@given(st.integers(min_value=-(10**12), max_value=10**12))
def test_every_milli_amount_survives_its_text(milli):
    assert quantity_milli(format_quantity_milli(milli)) == milli


def test_ages_read_as_kubectl_shows_them():
    shown = [human_duration(s * SECOND) for s in (0, 119, 120, 125, 600, 3 * 3600, 3 * 3600 + 600)]
    assert shown == ["0s", "119s", "2m", "2m5s", "10m", "3h", "3h10m"]
    day = 24 * 3600
    shown = [
        human_duration(s * SECOND) for s in (47 * 3600, 2 * day, 50 * 3600, 9 * day, 800 * day, 3000 * day)
    ]
    assert shown == ["47h", "2d", "2d2h", "9d", "2y70d", "8y"]
    assert human_duration(-500) == "0s"
    assert human_duration(-2 * units.SECOND) == "<invalid>"


def test_whole_numbers_of_any_length_are_read_as_by_go():
    texts = ("7", "+7", "-007", "0" * 5000 + "7", "2147483648", "9223372036854775807", "-9223372036854775808")
    assert [parse_whole(text) for text in texts] == [7, 7, -7, 7, 1 << 31, (1 << 63) - 1, -(1 << 63)]
    assert [parse_whole(text, 32) for text in ("2147483647", "-2147483648", "2147483648")] == [
        (1 << 31) - 1,
        -(1 << 31),
        None,
    ]
    for text in ("", "+", "--7", " 7", "7 ", "1_0", "²", "٧", "9223372036854775808", "1" * 5000):
        assert parse_whole(text) is None
    assert [parse_unsigned(text) for text in ("0", "18446744073709551615")] == [0, (1 << 64) - 1]
    for text in ("", "-1", "+1", "18446744073709551616", "1" * 5000):
        assert parse_unsigned(text) is None
    assert whole_problem("1" * 5000) == unsigned_problem("1" * 5000) == "value out of range"
    assert whole_problem("x") == unsigned_problem("-1") == "invalid syntax"


def test_times_at_the_ends_of_the_calendar_keep_their_text():
    for text in ("0001-01-01T00:00:00Z", "0999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"):
        assert format_time(parse_time(text)) == text
    assert format_time(parse_time("0001-01-01T00:30:00+05:00")) == "0001-01-01T00:30:00Z"
    assert parse_time("0001-01-01T00:00:00Z") - parse_time("0000-02-29T00:00:00Z") == 307 * 24 * 3600 * SECOND
    assert format_time((1 << 63) * SECOND).startswith("9999-12-31T23:")


@pytest.mark.parametrize("text", ["١", "١Gi", "1e١"])
def test_digits_of_other_scripts_are_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="quantit"):
        quantity_nano(text)


def test_digits_of_other_scripts_are_no_time() -> None:
    with pytest.raises(ValueError, match="not RFC 3339"):
        parse_time("٢٠٢٠-01-01T00:00:00Z")
