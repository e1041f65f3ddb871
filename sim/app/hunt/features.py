"""What a run shows: short texts, of which a new one means that a candidate reached something new.

Turns the rows of a trace into features: decisions of each program, transitions of what changes
carry (conditions, phases, holders), refusals and failed syncs by their kind, writes by program and
resource, each together with how often, and with the faults during which it occurred.

Holds: names of objects, nodes and replicas are left out, so that the same event of another pod is
no new feature; the hash of the run is the same with and without a `Features`; counts are rounded to
powers of four.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sim.kernel import Trace
from sim.kernel.trace.records import RecordKind
from sim.patterns import pattern

# A part of a text that names one of many: numbers, hashes, quoted names, addresses.
_ONE_OF_MANY = pattern(r'"[^"]*"|\S*[\d/]\S*')
_NUMBERED = pattern(r"[-_:/]?\d.*$")
WORDS_MAX = 8  # of a message, which begins with its kind
_WORD_LONG = 24  # letters of a value that is a word, and no name


class Features:
    """Collects the features of one run from the rows of its trace."""

    def __init__(self, trace: Trace) -> None:
        self._kinds: dict[int, RecordKind] = {}
        self._counts: Counter[str] = Counter()
        self._during: dict[str, None] = {}
        self._active: dict[str, str] = {}  # the kind of each step that has not ended, by its name
        self._read: Mapping[RecordKind, Callable[[Sequence[Any]], str]] = {
            "decision": lambda row: f"{_program(row[0])} {row[1]}",
            "change": _transition,
            "sync-error": lambda row: f"{row[0]}: {_kind_of_text(row[2])}",
            "refused": lambda row: (
                f"{_program(row[0])} {row[1]} {_resource(row[2])}: {_kind_of_text(row[3])}"
            ),
            "schedule": lambda row: _kind_of_text(row[2]) if row[2] else "bound",
            "write": lambda row: f"{_program(row[0])} {row[1]} {_resource(row[2])}",
            "command": lambda row: f"{row[0]} {row[1].partition('/')[0]}: {_kind_of_text(row[2])}",
            "zone": lambda row: str(row[1]),
            "actor": lambda row: f"{row[0]} {_program(row[1])} {_kind_of_text(row[2])}",
        }
        trace.watcher = self._take

    def _take(self, rows: Sequence[Any]) -> None:
        """Take a batch of rows."""
        for row in rows:
            if row[0] == 0:
                self._kinds[row[1]] = row[2]
            elif row[0] > 0:
                self._see(self._kinds[row[0]], row[3:])

    def _see(self, kind: RecordKind, values: Sequence[Any]) -> None:
        if kind == "step":
            name, action, detail = values
            kind_of_step = " ".join(filter(None, (action, detail.get("how"))))
            for other in dict.fromkeys(self._active.values()):
                self._during[f"step {kind_of_step} during {other}"] = None
            self._active[name] = kind_of_step
        elif kind == "step-end":
            self._active.pop(values[0], None)
        read = self._read.get(kind)
        if read is None:
            return
        feature = f"{kind} {read(values)}"
        self._counts[feature] += 1
        if kind in ("decision", "sync-error") and self._active:
            for step in dict.fromkeys(self._active.values()):
                self._during[f"{feature} during {step}"] = None

    @property
    def values(self) -> tuple[str, ...]:
        """All features, in the order of the alphabet."""
        counted = (f"{name} x{_power(count)}" for name, count in self._counts.items())
        return tuple(sorted([*counted, *self._during]))


def _power(count: int) -> int:
    """The largest power of four that is at most a count."""
    return 1 << (count.bit_length() - 1) // 2 * 2


def _program(name: str) -> str:
    """The program of a process or of a user: without its number, node and namespace."""
    parts = str(name).removeprefix("system:").split(":")
    return parts[-1] if parts[0] == "serviceaccount" else _NUMBERED.sub("", parts[0])


def _resource(key: str) -> str:
    """The resource of the key of an object."""
    parts = key.split("/", 3)
    return parts[2] if len(parts) > 2 else key


def _transition(row: Sequence[Any]) -> str:
    key, what, before, after = row[:4]
    return f"{_resource(key)} {what}: {_value(before)} to {_value(after)}"


def _value(value: Any) -> str:
    """A value of a change, if it is one of a few; else what kind of value it is."""
    if isinstance(value, str) and len(value) <= _WORD_LONG and value.isalpha():
        return value
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int):
        return "0" if not value else "some"
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    return "one"


def _kind_of_text(text: str) -> str:
    """The beginning of a message, without what names one of many."""
    return " ".join(_ONE_OF_MANY.sub("#", str(text)).split()[:WORDS_MAX])
