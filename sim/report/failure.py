"""Failed verdicts explained: what was measured, of which objects, when, and the last causes.

Turns a verdict and the trace of its run into a `Failure`, which the terminal, the report and JUnit
show alike.

Holds: a verdict that an event decided is explained by the causes of this event, any other one by
those of the last change of the first object at fault.
"""

from __future__ import annotations

from collections.abc import Sequence

from sim.api.store import path_of
from sim.dataclass import dataclass
from sim.kernel import Record
from sim.report.story import Book, Line, about, clock, names, notable
from sim.verdict import Verdict

WAITS_MAX = 8  # objects at fault of which is looked why they wait
CAUSES_MAX = 6  # links that are shown of a chain, where it is not shown in full


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed verdict, explained.

    facts: label and text, in the order in which they are shown
    causes: the whole chain; empty if there is none
    """

    name: str
    facts: tuple[tuple[str, str], ...]
    causes: tuple[Line, ...] = ()

    @property
    def last_causes(self) -> Sequence[Line]:
        """The last links of the chain, and its first, which is the fault or the action."""
        if len(self.causes) <= CAUSES_MAX:
            return self.causes
        return (self.causes[0], *self.causes[1 - CAUSES_MAX :])

    @property
    def left_out(self) -> int:
        """Number of links between the first and the last ones."""
        return max(0, len(self.causes) - CAUSES_MAX)


def failures(verdicts: Sequence[Verdict], book: Book | None) -> list[Failure]:
    """The failed verdicts, explained.  book: the trace; without it there are no causes"""
    return [failure_of(one, book) for one in verdicts if not one.ok]


def failure_of(verdict: Verdict, book: Book | None) -> Failure:
    """A failed verdict, explained."""
    facts = [("measured", verdict.measured), ("wanted", verdict.wanted)]
    if verdict.objects:
        facts.append(("object", names([path_of(key) for key in verdict.objects])))
    if verdict.counted:
        facts.append(("true of", verdict.counted))
    if verdict.at_us is not None:
        text = f"{clock(verdict.at_us)} of the run"
        if verdict.after and verdict.since_us is not None:
            text += f", {clock(verdict.since_us)} after {verdict.after}"
        facts.append(("instant", text))
    return Failure(verdict.name, tuple(facts), tuple(chain_of(verdict, book)))


def chain_of(verdict: Verdict, book: Book | None) -> list[Line]:
    """The causes of what decided a verdict; of a failed one that no event decided, those of the
    last change of the first object at fault, and then why an object at fault waits or has waited.
    """
    record = None if book is None else _record_of(verdict, book)
    if book is None or record is None:
        return []
    story = book.story(record)
    waits = [] if verdict.ok else _waits(verdict, book)
    known = [line.ident for line in story]
    return [*story, *(line for line in waits if line.ident not in known)]


def _waits(verdict: Verdict, book: Book) -> list[Line]:
    """Why the first of the objects at fault that waits does; if none does, why one has waited."""
    objects = verdict.objects[:WAITS_MAX]
    waits = next((found for key in objects if (found := book.waits(key))), [])
    if waits or verdict.at_us is None:
        return waits
    return next((found for key in objects if (found := book.waited(key, verdict.at_us))), [])


def _record_of(verdict: Verdict, book: Book) -> Record | None:
    if verdict.witness:
        return book.write_of(verdict.witness)
    if verdict.ok or not verdict.objects:
        return None
    found = about(book, verdict.objects[0])
    until_us = verdict.at_us
    # What held when the window opened has causes before it. A machine that fails shows in its node
    # later.
    if until_us is not None and verdict.kind != "unavailability":
        found = [record for record in found if record.at_us <= until_us] or found
    return notable(found) if found else None
