"""A served cluster as it was at an instant: its journal is repeated up to there.

Turns a journal and an instant into a running cluster at that instant, with all that clients and
users did until then, for a function that reads it (`sim.app.inspect.moment` for a run).

Holds: what is read is what was at that instant, or an InputError says from which record on the
    repeated run is another one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sim.app.cluster import Cluster
from sim.app.inspect.moment import repeated
from sim.app.process.printed import tell
from sim.app.run import COMPARED, Outside
from sim.app.serving.journal import Journal, read_journal
from sim.kernel import Operation
from sim.units import Virtual

MARK = b"orrery_journal"  # the first field of the head of a journal
MARK_WITHIN = 64  # bytes of the file

T = TypeVar("T")


def is_journal(file: Path) -> bool:
    """True for the journal of a server; False also for a file that cannot be read."""
    try:
        with file.open("rb") as begin:
            return MARK in begin.read(MARK_WITHIN)
    except OSError:
        return False


def outside_of(journal: Journal) -> Outside:
    """What is repeated and compared."""
    ended_at, served = None, journal.end.trace_sha256 if journal.end is not None else ""
    if journal.stop is not None:
        ended_at = Operation(journal.stop.step, journal.stop.at_us, COMPARED, None)
        served = journal.stop.trace_sha256
    return Outside(journal.head.epoch_us, journal.operations, served, ended_at, journal.checksums)


def as_it_was_served(
    file: Path, at_us: Virtual, look: Callable[[Cluster], T], scenario: Path | None = None
) -> T:
    """What a function reads of the cluster of a journal at an instant.  Raises InputError.

    scenario: where it is now, if it was moved
    """
    journal = read_journal(file)
    plan = journal.plan(scenario)
    tell(journal.note)
    outside = outside_of(journal)._replace(checksums=b"")
    expected, difference = journal.checksums, "it was served by another version of the program"
    return repeated(plan, plan.seed, at_us, look, expected, file, difference, outside)
