"""A cluster as it was at an instant of a run: the run of a trace is repeated up to there.

Turns a trace and an instant into a running cluster at that instant, for a function that reads it. A
trace holds what happened, and not the contents of objects; its header holds the scenario, and the
same program makes the same run from it. While it is repeated, its records are compared with those
of the trace.

Holds: what is read is what was at that instant of the run that wrote the trace, or an InputError
    says from which record on the repeated run is another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, Generic, TypeVar
from zlib import crc32

import msgpack

from sim.app.cluster import Cluster
from sim.app.inspect.traces import bad, header
from sim.app.process.garbage import no_collection
from sim.app.process.interrupts import interruptible
from sim.app.process.own_programs import bound
from sim.app.run import Outside, run_plan
from sim.app.travel.rest import Rest
from sim.check import Checker
from sim.errors import InputError
from sim.kernel import Comparison, TraceError
from sim.kernel.blocks import Blocks, DamageError
from sim.kernel.trace.comparison import BYTES
from sim.kernel.trace.files import CHUNK
from sim.kernel.trace.records import END
from sim.scenario.compile import compile_plan, load
from sim.scenario.plan.plan import Plan
from sim.scenario.read.source import Document
from sim.units import Virtual, format_duration, parse_duration_us
from sim.version import __version__

T = TypeVar("T")


class Moment(Rest, Generic[T]):
    """The end of a run that is repeated up to an instant.

    look: reads the cluster at the instant
    """

    room = 0

    def __init__(self, plan: Plan, at_us: Virtual, look: Callable[[Cluster], T], expected: bytes) -> None:
        self.plan, self.at_us = replace(plan, duration_us=at_us), at_us
        self.values: list[T] = []
        self.comparison = Comparison(expected)
        self._look = look

    async def reached(self, cluster: Cluster, checker: Checker) -> tuple[Plan, float]:
        """Run to the instant, and look."""
        self.comparison.follow(cluster.kernel.trace)
        await cluster.run_until(self.at_us)
        self.comparison.finish()
        self.values.append(self._look(cluster))
        return self.plan, perf_counter()


def instant(text: str, place: str = "") -> Virtual:
    """An instant of a run, as a user writes it.  Raises InputError."""
    try:
        at_us = parse_duration_us(text)
    except ValueError:
        at_us = -1
    if at_us < 0:
        raise InputError(f"{text!r} is no instant of a run", place, "write it as 90s, 7m30s or 1h")
    return Virtual(at_us)


def plan_of_trace(trace: Path, scenario: Path | None = None) -> tuple[Plan, int]:
    """The plan of the run of a trace, and its seed.  Raises InputError.

    scenario: the file, if the trace lacks it
    """
    head = header(trace)
    version = head.get("version", "")
    if version != __version__:
        problem = f"is of version {version or 'unknown'}, and this is {__version__}, which may run otherwise"
        raise InputError(problem, str(trace), "run the scenario again with --trace")
    if scenario is not None:
        plan = load(scenario, tuple(head.get("settings", ())))
    elif "document" in head:
        document = Document(str(trace), _lists(head["document"]))
        for number, place in enumerate(head.get("places", {}).get("step", {}).values()):
            document.settings["spec", "timeline", number] = place
        settings = tuple(head.get("settings", ()))
        plan = replace(compile_plan(document, trace.parent), settings=settings, document=document.value)
    else:
        problem = "does not hold its scenario, because that was no file"
        raise InputError(problem, str(trace), "name it by --scenario")
    return plan, int(head["seed"])


def _lists(value: Any) -> Any:
    """A value as YAML gives it: the header of a trace is read with tuples."""
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return [_lists(item) for item in value] if isinstance(value, tuple) else value


def as_it_was(
    trace: Path,
    at_us: Virtual,
    look: Callable[[Cluster], T],
    scenario: Path | None = None,
    programs: Mapping[str, str] | None = None,
) -> T:
    """What a function reads of the cluster at an instant of the run of a trace.  Raises InputError.

    scenario: the file, if the trace lacks it
    programs: "module:function" of the run's programs of a user, by name
    """
    plan, seed = plan_of_trace(trace, scenario)
    plan = bound(plan, programs or {})
    difference = "the program or the scenario differs, or it was served: then name its journal"
    return repeated(plan, seed, at_us, look, checksums(trace, at_us), trace, difference)


def repeated(
    plan: Plan,
    seed: int,
    at_us: Virtual,
    look: Callable[[Cluster], T],
    expected: bytes,
    file: Path,
    difference: str,
    outside: Outside | None = None,
) -> T:
    """What a function reads of a run at an instant.  Raises InputError if it is another run.

    expected: the checksums of the run that is repeated
    file: that of the run; difference: why it may be another one
    outside: what clients did, of a served run
    """
    if at_us > plan.duration_us:
        end = format_duration(plan.duration_us)
        raise InputError(f"the run ends at {end}, before {format_duration(at_us)}", str(file))
    moment = Moment(plan, at_us, look, expected)
    with no_collection():
        interruptible(
            lambda: run_plan(plan, seed=seed, picture=False, audited=False, outside=outside, rest=moment)
        )
    if moment.comparison.differs_at:
        problem = f"is of another run from record {moment.comparison.differs_at} on"
        raise InputError(problem, str(file), difference)
    return moment.values[0]


def checksums(trace: Path, until_us: Virtual) -> bytes:
    """The checksums of the rows of a trace up to an instant, as a `Comparison` takes them.

    Raises InputError.
    """
    result, blocks, is_header = bytearray(), Blocks(), True
    try:
        with trace.open("rb") as file:
            while data := file.read(CHUNK):
                for content in blocks.feed(data):
                    if not is_header and not _take(content, until_us, result):
                        return bytes(result)
                    is_header = False
    except (OSError, DamageError) as error:
        raise bad(error if isinstance(error, OSError) else TraceError(str(error)), trace) from None
    return bytes(result)


def _take(content: bytes, until_us: Virtual, found: bytearray) -> bool:
    """Take the rows of a block; False if it holds the end, or a later row."""
    unpacker = msgpack.Unpacker(strict_map_key=False, max_buffer_size=len(content))
    unpacker.feed(content)
    start = 0
    for row in unpacker:
        if row[0] == END or (row[0] > 0 and row[1] > until_us):
            return False
        end = unpacker.tell()
        found += crc32(content[start:end]).to_bytes(BYTES, "little")
        start = end
    return True
