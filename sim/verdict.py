"""Verdicts: what an expectation measured, beside what was wanted, and what decided it.

Times are shown in the unit in which the expectation asks for them: an expectation within [5m, 6m]
measures 5m39.54s, one within [300s, 360s] measures 339.54s.
"""

from __future__ import annotations

from dataclasses import replace
from html import escape
from typing import Literal

from sim.dataclass import dataclass
from sim.patterns import pattern
from sim.units import HOUR, MINUTE, MS, SECOND

Unit = Literal["m", "s", "ms"]
_LARGE = pattern(r"h|m(?!s)")  # hours and minutes
_SECONDS = pattern(r"(?<![mnuµμ])s|^0$")
_CENTISECOND = SECOND // 100
GOOD_INK, LOST_INK = "#00805d", "#c24f00"  # as on the light paper of a report


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of one expectation.

    measured, wanted: in words
    measured_s: the times or counts behind `measured`
    kind: the expectation's key in the file
    missing: number of times that should have been measured and were not
    witness: revision of the commit that decided it, 0 if there is none
    after: the start of the window
    held_already: True if what was measured held when the window opened: nothing in it made it hold
    at_us, since_us: when it was decided, from the start of the run and of the window; None if no
        event decided it
    objects: keys of the objects that decided it; of a failed verdict those at fault
    counted: of how many objects the condition was true at the end, in words
    """

    name: str
    ok: bool
    measured: str
    wanted: str
    measured_s: tuple[float, ...] = ()
    kind: str = ""
    missing: int = 0
    witness: int = 0
    after: str = ""
    held_already: bool = False
    at_us: int | None = None
    since_us: int | None = None
    objects: tuple[str, ...] = ()
    counted: str = ""

    def reversed(self) -> Verdict:
        """The judgement of the same expectation where it has to fail."""
        return replace(
            self, ok=not self.ok, wanted=f"that it fails: {self.wanted}" if self.wanted else "that it fails"
        )

    def _repr_html_(self) -> str:
        """The verdict in a notebook: what was measured beside what is wanted."""
        color = GOOD_INK if self.ok else LOST_INK
        text = escape(self.measured)
        if self.wanted:
            text += f", wanted {escape(self.wanted)}"
        return f'<p><b style="color:{color}">{self.mark}</b> {escape(self.name)}: {text}</p>'

    @property
    def mark(self) -> str:
        """The judgement in a word: "holds", "held already" or "FAILED"."""
        if not self.ok:
            return "FAILED"
        return "held already" if self.held_already else "holds"


def unit_of(*texts: str) -> Unit:
    """The largest unit in which durations are written, seconds if there are none."""
    if any(_LARGE.search(text) for text in texts):
        return "m"
    return "s" if not texts or any(_SECONDS.search(text) for text in texts) else "ms"


def shown_us(us: int, unit: Unit = "s") -> str:
    """A measured time with two decimals: "39.54s", "5m39.54s", "1h02m00s", "12.50ms"."""
    if unit == "ms":
        return f"{us / MS:.2f}ms"
    if unit == "s":
        return f"{us / SECOND:.2f}s"
    us = round(us / _CENTISECOND) * _CENTISECOND
    hours, rest = divmod(us, HOUR)
    minutes, rest = divmod(rest, MINUTE)
    seconds = f"{rest / SECOND:05.2f}".removesuffix(".00") + "s"
    return f"{hours}h{minutes:02d}m{seconds}" if hours else f"{minutes}m{seconds}"
