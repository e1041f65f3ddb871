"""Cron schedules in five fields: a text becomes a schedule, and a schedule gives the instants at
which it is due.

`*/5 9-17 * * mon-fri`, `@hourly`, `@every 1h30m`, each with an optional prefix `TZ=<zone> `,
becomes a `Schedule`; its `next_s` returns the first Unix second after a given one at which it is
due.

Holds: an error is a value (`ScheduleError.args[0]`) in the words of upstream's parser.
Quirk: if both the day of the month and the day of the week are restricted, either is enough.

Mirrors  github.com/robfig/cron v3.0.1 parser.go, spec.go, constantdelay.go (as kubernetes v1.25
         vendors it).
Differs  zones are Python's `zoneinfo`, with the tables of the machine; without a zone times are
         UTC; nothing is due in the year 1, nor from the year 9990 on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo

from sim.dataclass import dataclass
from sim.remembered import cached
from sim.units import SECOND, not_whole, parse_duration_us, parse_whole

YEARS_MAX = 5  # spec.go: a schedule that is not due within five years is never due
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Within these bounds the calendar and its zones exist for every year that a search reads.
_FIRST_S = (datetime(2, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(seconds=1)
_LAST_S = (datetime(9990, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(seconds=1)


class ScheduleError(ValueError):
    """The text is not a valid schedule or zone."""


@dataclass(frozen=True, slots=True)
class _Bounds:
    low: int
    high: int
    names: Mapping[str, int]


def _named(names: str, first: int) -> dict[str, int]:
    return {name: first + index for index, name in enumerate(names.split())}


_MINUTES, _HOURS, _DAYS = _Bounds(0, 59, {}), _Bounds(0, 23, {}), _Bounds(1, 31, {})
_MONTHS = _Bounds(1, 12, _named("jan feb mar apr may jun jul aug sep oct nov dec", 1))
_WEEKDAYS = _Bounds(0, 6, _named("sun mon tue wed thu fri sat", 0))
_FIELDS = (_MINUTES, _HOURS, _DAYS, _MONTHS, _WEEKDAYS)
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One of the five fields.

    values: the values at which it is due, ascending
    any: True if it was given as `*`
    """

    values: tuple[int, ...]
    any: bool


@dataclass(frozen=True, slots=True)
class Schedule:
    """A parsed schedule.

    every_s: the interval of `@every`, otherwise 0 and the five fields count
    """

    fields: tuple[Field, ...]
    zone: tzinfo
    every_s: int = 0

    def next_s(self, after_s: int) -> int | None:
        """The first second after `after_s` at which it is due; None if there is none in five years."""
        if self.every_s:
            return after_s + self.every_s
        minutes, hours, _, months, _ = (field.values for field in self.fields)
        if after_s > _LAST_S or not (minutes and hours and months):
            return None
        search = _Search(self, max(after_s, _FIRST_S) + 1)
        last_year = search.at.year + YEARS_MAX
        while search.at.year <= last_year:
            if search.finds_month() and search.finds_day() and search.finds_time():
                return search.unix_s
        return None


class _Search:
    """The moment that a search for the next due time has reached.

    Each `finds_` method advances it to a match of its field, and returns False if a larger field
    has changed, so that the search starts over.
    Quirk: a day without a midnight begins unnoticed, so a run of the day before may fall on it, and
    east of Greenwich its own runs are missing if the days before it have none.
    """

    __slots__ = ("_moved", "_schedule", "at", "unix_s")

    def __init__(self, schedule: Schedule, unix_s: int) -> None:
        self._schedule = schedule
        self._moved = False  # True after the first advance: smaller fields have been reset
        self._move_to(unix_s)

    def _move_to(self, unix_s: int) -> None:
        self.unix_s = unix_s
        self.at = (_EPOCH + timedelta(seconds=unix_s)).astimezone(self._schedule.zone)

    def _move_to_local(self, month: int, days: int, hour: int = 0, minute: int = 0, second: int = 0) -> None:
        """Moves to a local time of this year; months and days beyond its end are those of the next.

        Quirk: the offset is guessed as if the time were UTC and corrected once, as Go does: a local
        time that does not exist lies before the gap west of Greenwich, and after it east of
        Greenwich.
        """
        more, month = divmod(month - 1, 12)
        day = datetime(self.at.year + more, month + 1, 1, tzinfo=UTC) + timedelta(days=days - 1)
        wall_s = (day - _EPOCH) // timedelta(seconds=1) + hour * 3600 + minute * 60 + second
        self._move_to(wall_s - self._offset_s(wall_s - self._offset_s(wall_s)))

    def _offset_s(self, unix_s: int) -> int:
        offset = (_EPOCH + timedelta(seconds=unix_s)).astimezone(self._schedule.zone).utcoffset()
        assert offset is not None  # every zone has one
        return offset // timedelta(seconds=1)

    def finds_month(self) -> bool:
        """Advances to a matching month."""
        while self.at.month not in self._schedule.fields[3].values:
            if not self._moved:
                self._moved = True
                self._move_to_local(self.at.month, 1)
            at = self.at
            self._move_to_local(at.month + 1, at.day, at.hour, at.minute, at.second)
            if self.at.month == 1:
                return False
        return True

    def finds_day(self) -> bool:
        """Advances to a matching day."""
        while not self._day_matches():
            if not self._moved:
                self._moved = True
                self._move_to_local(self.at.month, self.at.day)
            at = self.at
            self._move_to_local(at.month, at.day + 1, at.hour, at.minute, at.second)
            hour = self.at.hour
            if hour:  # the day has no midnight
                self._move_to(self.unix_s + (24 - hour if hour > 12 else -hour) * 3600)
            if self.at.day == 1:
                return False
        return True

    def _day_matches(self) -> bool:
        days, weekdays = self._schedule.fields[2], self._schedule.fields[4]
        of_month, of_week = self.at.day in days.values, self.at.isoweekday() % 7 in weekdays.values
        return of_month and of_week if days.any or weekdays.any else of_month or of_week

    def finds_time(self) -> bool:
        """Advances to a matching hour, minute and second."""
        minutes, hours = self._schedule.fields[0].values, self._schedule.fields[1].values
        while self.at.hour not in hours:
            if not self._moved:
                self._moved = True
                self._move_to_local(self.at.month, self.at.day, self.at.hour)
            self._move_to(self.unix_s + 3600)
            if not self.at.hour:
                return False
        while self.at.minute not in minutes:
            at_s = self.unix_s if self._moved else self.unix_s // 60 * 60
            self._moved = True
            self._move_to(at_s + 60)
            if not self.at.minute:
                return False
        if self.at.second:
            self._moved = True
            self._move_to(self.unix_s + 60 - self.at.second)
            return False
        return True


def zone_of(name: str) -> tzinfo:
    """The zone of that name ("UTC" and "" are UTC)."""
    if name in ("", "UTC"):
        return UTC
    if name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/"):
        raise ScheduleError("time: invalid location name")
    # A late import, because few schedules name a zone.
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ScheduleError(f"unknown time zone {name}") from None


@cached(1024)
def parse_schedule(text: str) -> Schedule:
    """The schedule of a text; raises ScheduleError if it is invalid."""
    if not text:
        raise ScheduleError("empty spec string")
    zone: tzinfo = UTC
    if text.startswith(("TZ=", "CRON_TZ=")):
        head, _, text = text.partition(" ")
        name = head.partition("=")[2]
        try:
            zone = zone_of(name)
        except ScheduleError as error:
            raise ScheduleError(f"provided bad location {name}: {error}") from None
        text = text.strip()
    if text.startswith("@"):
        if text.startswith("@every "):
            return Schedule((), zone, _every_s(text))
        if text not in _DESCRIPTORS:
            raise ScheduleError(f"unrecognized descriptor: {text}")
        text = _DESCRIPTORS[text]
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise ScheduleError(f"expected exactly 5 fields, found {len(parts)}: [{' '.join(parts)}]")
    return Schedule(tuple(_field(p, bounds) for p, bounds in zip(parts, _FIELDS, strict=True)), zone)


def _every_s(text: str) -> int:
    given = text.removeprefix("@every ")
    try:
        duration_us = parse_duration_us(given)
    except ValueError as error:
        raise ScheduleError(f"failed to parse duration {text}: {error}") from None
    return max(1, duration_us // SECOND)


def _field(text: str, bounds: _Bounds) -> Field:
    values: dict[int, None] = {}
    star = False
    for part in text.split(","):
        if part:
            found, is_any = _range(part, bounds)
            values.update(dict.fromkeys(found))
            star = star or is_any
    return Field(tuple(sorted(values)), star)


def _range(text: str, bounds: _Bounds) -> tuple[Sequence[int], bool]:
    head, *steps = text.split("/")
    low, *more = head.split("-")
    is_any = low in ("*", "?")
    if is_any:
        start, end = bounds.low, bounds.high
    else:
        start = _number(low, bounds.names)
        if len(more) > 1:
            raise ScheduleError(f"too many hyphens: {text}")
        end = _number(more[0], bounds.names) if more else start
    step = 1
    if steps:
        if len(steps) > 1:
            raise ScheduleError(f"too many slashes: {text}")
        step = _number(steps[0], {})
        if not more:
            end = bounds.high
        is_any = is_any and step <= 1
    if start < bounds.low:
        raise ScheduleError(f"beginning of range ({start}) below minimum ({bounds.low}): {text}")
    if end > bounds.high:
        raise ScheduleError(f"end of range ({end}) above maximum ({bounds.high}): {text}")
    if start > end:
        raise ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {text}")
    return range(start, end + 1, step), is_any


def _number(text: str, names: Mapping[str, int]) -> int:
    known = names.get(text.lower())
    if known is not None:
        return known
    number = parse_whole(text)
    if number is None:
        raise ScheduleError(f"failed to parse int from {text}: {not_whole(text, 'Atoi')}")
    if number < 0:
        raise ScheduleError(f"negative number ({number}) not allowed: {text}")
    return number
