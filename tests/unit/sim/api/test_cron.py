"""Schedules: what they say, and when they are due."""

from __future__ import annotations

import pytest

from sim.api import cron
from sim.api.cron import ScheduleError, parse_schedule, zone_of
from sim.units import SECOND, format_time, parse_time


def due(text: str, after: str, count: int = 1) -> list[str]:
    schedule, found = parse_schedule(text), []
    at_s: int | None = parse_time(after) // SECOND
    for _ in range(count):
        assert at_s is not None
        at_s = schedule.next_s(at_s)
        found.append(format_time(at_s * SECOND) if at_s is not None else "never")
    return found


def test_a_time_that_is_due_is_followed_by_the_next_one():
    assert due("*/15 * * * *", "2022-11-01T10:00:00Z", 2) == ["2022-11-01T10:15:00Z", "2022-11-01T10:30:00Z"]
    assert due("@hourly", "2022-11-01T10:59:59Z") == ["2022-11-01T11:00:00Z"]
    assert due("@every 90s", "2022-11-01T10:00:07Z") == ["2022-11-01T10:01:37Z"]


def test_working_days_leave_the_weekend_out():
    assert due("0 9 * * mon-fri", "2022-11-04T09:00:00Z", 2) == [
        "2022-11-07T09:00:00Z",
        "2022-11-08T09:00:00Z",
    ]


def test_either_day_is_enough_where_both_are_restricted():
    assert due("0 0 13 * 5", "2022-11-05T00:00:00Z", 2) == ["2022-11-11T00:00:00Z", "2022-11-13T00:00:00Z"]


def test_years_turn_and_short_months_are_passed_over():
    assert due("0 0 31 * *", "2022-11-30T00:00:00Z", 2) == ["2022-12-31T00:00:00Z", "2023-01-31T00:00:00Z"]
    assert due("0 0 29 2 *", "2022-11-30T00:00:00Z") == ["2024-02-29T00:00:00Z"]
    assert due("0 0 30 2 *", "2022-11-30T00:00:00Z") == ["never"]


def test_a_zone_moves_the_hour_and_daylight_saving_leaves_one_out():
    assert due("TZ=Europe/Berlin 30 9 * * *", "2022-11-01T00:00:00Z") == ["2022-11-01T08:30:00Z"]
    assert due("TZ=Europe/Berlin 30 9 * * *", "2022-07-01T00:00:00Z") == ["2022-07-01T07:30:00Z"]
    # 02:30 does not exist on 27 March 2022
    assert due("CRON_TZ=Europe/Berlin 30 2 * * *", "2022-03-26T12:00:00Z") == ["2022-03-28T00:30:00Z"]


def test_a_day_without_a_midnight_begins_unseen():
    # in Beirut clocks went from 0:00 to 1:00 on Sunday, 27 March 2022
    assert due("TZ=Asia/Beirut 0 12 * * 0", "2022-03-21T00:00:00Z") == ["2022-04-03T09:00:00Z"]
    assert due("TZ=Asia/Beirut 0 5 * * 6", "2022-03-26T04:00:00Z") == ["2022-03-27T02:00:00Z"]
    # West of Greenwich the search is then an hour before the gap, not behind it: Santiago, 11
    # September 2022.
    assert due("TZ=America/Santiago 0 12 * * 0", "2022-09-07T00:00:00Z") == ["2022-09-11T15:00:00Z"]


@pytest.mark.parametrize("text", [", * * * *", "* , * * *", "* * * , *"])
def test_field_without_a_value_is_never_due_and_needs_no_search(text: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cron, "_Search", None)
    assert due(text, "2022-11-01T10:00:00Z") == ["never"]


def test_days_without_a_value_are_never_due():
    assert due("* * , * ,", "2022-11-01T10:00:00Z") == ["never"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("9-5 * * * *", "beginning of range (9) beyond end of range (5): 9-5"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("x-2-3 * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("*/-1 * * * *", "negative number (-1) not allowed: -1"),
        ("-1 * * * *", 'failed to parse int from : strconv.Atoi: parsing "": invalid syntax'),
        ("@every x", 'failed to parse duration @every x: time: invalid duration "x"'),
        ("@fortnightly", "unrecognized descriptor: @fortnightly"),
        ("TZ=Nowhere/None 0 0 * * *", "provided bad location Nowhere/None: unknown time zone Nowhere/None"),
        ("", "empty spec string"),
    ],
)
def test_what_is_no_schedule_is_refused_in_the_parsers_words(text: str, error: str):
    with pytest.raises(ScheduleError) as caught:
        parse_schedule(text)
    assert str(caught.value) == error


def test_unknown_zone_is_refused():
    with pytest.raises(ScheduleError, match="unknown time zone Moon/Base"):
        zone_of("Moon/Base")


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [("10-20/5", [10, 15, 20]), ("50/5", [50, 55]), ("*/30", [0, 30]), ("7", [7])],
)
def test_step_of_a_range_ends_with_the_range_and_of_a_number_with_the_hour(
    minutes: str, expected: list[int]
) -> None:
    found = due(f"{minutes} 5 * * *", "2026-01-01T00:00:00Z", len(expected))
    assert [int(text[14:16]) for text in found] == expected
