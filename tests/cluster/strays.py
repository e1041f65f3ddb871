"""What happened in a run without the fault, or the person's action, that it came from."""

from __future__ import annotations

from collections.abc import Iterator

from sim.faults.shared.ledger import END_OF
from sim.kernel import Record
from sim.report.story import Book

CALM_US = 60_000_000  # by then the machines are up, and what happens has a reason
# What anybody may ask about: of writes the verbs, of changes what they change.
PODS = ("create", "create binding", "create eviction", "delete")
CHANGES = (
    "ready",
    "taints",
    "pressures",
    "phase",
    "restarts",
    "deleting",
    "removed",
    "holder",
    "node",
    "replicas",
)
ENDS = ("crash", "exit", "pause", "resume", "terminate", "start")


def is_of_note(record: Record) -> bool:
    """A pod made, placed, evicted or gone, a node or a leader lost, a decision, a process that ends
    or starts.
    """
    values = record.values
    match record.kind:
        case "write":
            return values["verb"] in PODS and values["key"].startswith("//pods/")
        case "change":
            return values["what"] in CHANGES
        case "actor":
            return values["what"] in ENDS or values["what"].startswith(END_OF)
        case kind:
            return kind in ("decision", "schedule", "zone", "command", "connection")


def of_note(book: Book) -> Iterator[Record]:
    """All of it from the first step on that comes when the cluster is calm."""
    begins = [r.ident for r in book.records if r.kind == "step" and r.at_us >= CALM_US]
    return (r for r in book.records[begins[0] :] if is_of_note(r)) if begins else iter(())


def strays(book: Book) -> list[str]:
    """Records with a chain of causes through no step of the scenario, each as its kind and the
    beginning of its chain.
    """
    steps = {0: False}  # record -> whether its chain has a step
    for record in book.records:
        cause = record.cause if record.cause < record.ident else 0
        steps[record.ident] = record.kind in ("step", "step-end") or steps[cause]
    found = [r for r in of_note(book) if not steps[r.ident]]
    return [f"{r.at_us / 1e6} {r.kind} {r.values} from {book.chain(r)[0].values}" for r in found]
