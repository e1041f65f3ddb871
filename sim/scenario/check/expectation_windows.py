"""The windows of expectations: whether they open, last and close.

Turns the window of an expectation (`after`, `until`, and the times of `within`) into an InputError
at the key that is impossible.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import UnsetType

from sim.errors import FollowUp, InputError, Problems, suggestion_or_all
from sim.faults.disturbances import LAST
from sim.scenario.check import references
from sim.scenario.plan.plan import PlannedStep, Span
from sim.scenario.plan.timeline import kinds_of
from sim.scenario.read.source import Document, Path_
from sim.scenario.schema.sections import Expectation
from sim.units import parse_duration_us

_END = "end of "


class Windows:
    """The windows that are possible in a run of `duration_us` with these steps.

    possible: names and kinds of steps that a window may name where other steps have errors and are
        not in `steps`; None if that may be any name. By default each step is in `steps`.
    """

    def __init__(
        self,
        document: Document,
        steps: Sequence[PlannedStep],
        duration_us: int,
        whole: bool = True,
        possible: Collection[str] | None = (),
    ) -> None:
        self._document = document
        self._whole, self._possible = whole, possible
        self._steps = steps
        self._duration_us = duration_us
        self._named = {step.name: step for step in steps}
        self._names = {*self._named, *kinds_of(steps)}
        self._times = _times_of(steps)

    def check(self, expectation: Expectation, path: Path_) -> None:
        """Check the window of an expectation.  Raises InputError with each error.

        path: of the expectation in the document
        """
        problems = Problems()
        with problems.part():
            after = self._instant(expectation.after, (*path, "after"), opens=True)
        with problems.part():
            until = self._instant(expectation.until, (*path, "until"), opens=False)
        problems.report()
        begins_us = (after or (0, 0))[0]
        if until is not None and until[1] <= begins_us:
            a_time = expectation.until not in self._names and _duration_us(expectation.until) is not None
            remedy = (
                "this is a time of the run, not a time after the beginning of the window" if a_time else ""
            )
            raise self._document.error((*path, "until"), "the window ends before it begins", remedy)
        if expectation.until and self._at_once(expectation.after, expectation.until):
            remedy = "an occurrence has a number, as NAME/2"
            raise self._document.error((*path, "until"), "the window ends as it begins", remedy)
        if isinstance(expectation.within, UnsetType) or (after is None and expectation.after):
            return
        low, ends_us = expectation.within[0], self._duration_us if until is None else until[1]
        if begins_us + (_duration_us(low) or 0) > ends_us:
            over = "the run" if until is None else "the window"
            raise self._document.error((*path, "within"), f"{over} is over {low} after its beginning")

    def _instant(self, wanted: str, path: Path_, *, opens: bool) -> Span | None:
        """The earliest and the latest time at which a window opens or closes; None if unknown."""
        base = _occurring(wanted)
        if opens and wanted in LAST and wanted not in self._names:
            return None
        if base in self._named and self._whole:
            references.check_after(self._document, wanted, self._named, self._steps, path)
        if not base or base in self._names:
            return self._times.get(wanted)
        at_us = _duration_us(base)
        if at_us is None:
            remedy = suggestion_or_all(base, sorted(self._names)) if self._names else "give a time, as 5m"
            sure = self._whole or (self._possible is not None and base not in self._possible)
            kind = InputError if sure else FollowUp
            raise kind(f"no step is named {base!r}", self._document.place(path), remedy)
        if at_us > self._duration_us or (opens and at_us == self._duration_us):
            raise self._document.error(path, f"{base} is after the end of the run")
        return at_us, at_us

    def _at_once(self, after: str, until: str) -> bool:
        """True if the step that opens a window closes it too."""
        end = _END if after.startswith(_END) else ""
        base = _occurring(after)
        step = self._named.get(base)
        kinds = [] if step is None or len(step.choices) > 1 else [choice.kind for choice in step.choices]
        return until in (after, *(end + name for name in (base, *kinds)))


def _times_of(steps: Sequence[PlannedStep]) -> dict[str, Span]:
    """The earliest and latest times of steps that occur once at a known time, and of their ends."""
    times: dict[str, Span] = {}
    for step in steps:
        at_us = step.start.at_us
        if at_us is None or step.repeat is not None:
            continue
        times[step.name] = at_us
        spans = [choice.for_us for choice in step.choices if choice.for_us is not None]
        if len(spans) == len(step.choices) == 1:
            # A heal may end it as it begins.
            times[_END + step.name] = at_us[0], at_us[1] + spans[0][1]
    return times


def _occurring(text: str) -> str:
    """The step that "end of NAME" and "NAME/3" refer to."""
    name = text.removeprefix(_END)
    base, slash, number = name.rpartition("/")
    return base if slash and number.isdigit() else name


def _duration_us(text: str) -> int | None:
    try:
        found = parse_duration_us(text)
    except ValueError:
        return None
    return found if found >= 0 else None
