"""By what failures are grouped: the expectation that fails, and the kinds of its causes.

Turns a failed verdict and the trace of its run into a `Cause`.  Two failures are the same if their
causes are equal: names of objects, instants and numbers are not part of one, so that a smaller
scenario that fails in the same way has the same cause.

Holds: a cause names the faults, the decisions and the last write of the chain of `orrery why`, each
       in the order of its first occurrence; what happened beside the chain is left out.
Differs  from the chain: too long an unavailability has the step by which it began, which is that of
         the first change of an object at fault from then on, since the last one is its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sim.api.store import path_of
from sim.dataclass import dataclass
from sim.kernel import Record
from sim.patterns import pattern
from sim.report.failure import chain_of
from sim.report.story import UPHEAVALS, Book, Line, about
from sim.verdict import Verdict

UNAVAILABILITY = "unavailability"
REASONED = ("fails", "unhealthy")  # decisions of which the reason is a kind
_VARIABLE = pattern(r"'[^']*'|\"[^\"]*\"|0x[0-9a-fA-F]+|\d[\d.]*")


@dataclass(frozen=True, slots=True)
class Cause:
    """The cause of a failure.

    expectation: the name of the expectation that fails, or of the error that ended the run
    links: the kinds of its causes, the first cause first
    """

    expectation: str
    links: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The cause in one line."""
        return " > ".join([*self.links, self.expectation])


def cause_of(verdict: Verdict, book: Book | None) -> Cause:
    """The cause of a failed verdict.  book: the trace; without it nothing but the expectation"""
    if book is None:
        return Cause(verdict.name)
    if verdict.kind == UNAVAILABILITY and verdict.at_us is not None:
        step = _beginning(verdict.objects, verdict.at_us, book)
        return Cause(verdict.name, () if step is None else (_step(step),))
    return Cause(verdict.name, tuple(dict.fromkeys(_links(chain_of(verdict, book)))))


def causes_of(verdicts: Sequence[Verdict], book: Book | None) -> tuple[Cause, ...]:
    """The causes of the failed verdicts, in their order."""
    return tuple(cause_of(each, book) for each in verdicts if not each.ok)


def cause_of_error(message: str) -> Cause:
    """The cause of a run that ended with an error: its message without what is quoted and numbers."""
    return Cause(_VARIABLE.sub("…", message.partition("\n")[0]))


def _beginning(objects: Sequence[str], at_us: int, book: Book) -> Record | None:
    """The step by which something began at an instant: that of the first change of an object since
    then that a step caused, or else the last step until then; None if there is none.
    """
    for key in objects:
        for record in about(book, key):
            first = book.chain(record)[0]
            if record.at_us >= at_us and _is_step(first) and first.at_us <= at_us:
                return first
    steps = [each for each in book.records if _is_step(each) and each.at_us <= at_us]
    return steps[-1] if steps else None


def _is_step(record: Record) -> bool:
    return record.kind == "step"


def _links(chain: Sequence[Line]) -> Iterator[str]:
    """The kinds of the links of a chain: of its writes only the last."""
    last = next((line for line in reversed(chain) if line.kind == "write" and not line.aside), None)
    for line in chain:
        values = line.values
        match line.kind:
            case "step" if not line.aside:
                yield _step(line)
            case "decision" if not (line.aside and values["what"] in UPHEAVALS):
                reason = values["why"].get("reason", "") if values["what"] in REASONED else ""
                yield " ".join(filter(None, (values["what"], reason)))
            case "refused":
                yield f"{_write(line)} refused"
            case "schedule" if not values["node"]:
                yield "no node"
            case "write" if line is last:
                yield _write(line)


def _step(step: Record | Line) -> str:
    """The kind of a step: `fail power-loss`, `drain`."""
    values = step.values
    how = values["detail"].get("how", "")
    return f"{values['kind']} {how}" if how and how != values["kind"] else values["kind"]


def _write(line: Line) -> str:
    """Verb and resource of a request: `delete pods`, `create pods eviction`."""
    verb, _, part = line.values["verb"].partition(" ")
    resource = path_of(line.values["key"]).partition("/")[0]
    return " ".join(filter(None, (verb, resource, part)))
