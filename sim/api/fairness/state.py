"""The state of priority and fairness as a value, and the text of the debugging pages.

Turns levels, their queues and the requests in them into tables of text.

Holds: levels are in the order of their names, so that equal states give equal pages.

Mirrors  kubernetes v1.25 apiserver pkg/util/flowcontrol/apf_controller_debug.go, Go's
         text/tabwriter (minimal width 8, padding 1), fairqueuing/queueset/seatsecs.go.
Differs  upstream's levels are in no order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sim.api.auth.request_attributes import attributes_of
from sim.api.fairness.classification import Flow, Level, Work
from sim.api.fairness.queues import QueueState
from sim.api.types import Request
from sim.units import MS, format_duration, format_micro_time

CELL_MIN = 8
NONE = "<none>"
# metrics.go: requestDurationSecondsBuckets
WAIT_BUCKETS_US = tuple(
    [each * MS for each in (0, 5, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000)]
)
UNIT = 100_000_000  # seat-seconds are counted in 1e-8


class LevelState(NamedTuple):
    """One level.

    executing: numbers of the requests that have seats; seats: how many they have
    progress: its virtual time, in 1e-8 seat-seconds
    """

    level: Level
    queues: tuple[QueueState, ...] = ()
    executing: tuple[int, ...] = ()
    seats: int = 0
    progress: int = 0

    @property
    def waiting(self) -> int:
        """The number of requests that wait."""
        return sum(len(queue.waiting) for queue in self.queues)


class Held(NamedTuple):
    """A request that has a seat or waits for one.

    arrived_us: virtual time
    """

    request: Request
    flow: Flow
    work: Work
    arrived_us: int


class FairnessState(NamedTuple):
    """The state of one replica.

    dispatched: number of requests by level and schema; rejected: by level, schema and reason
    waits_us: by level, schema and whether they were executed, how many requests waited at most as
        long as each of `WAIT_BUCKETS_US`, how many longer, and the sum of their waits
    """

    levels: tuple[LevelState, ...]
    held: dict[int, Held]
    dispatched: dict[tuple[str, str], int]
    rejected: dict[tuple[str, str, str], int]
    waits_us: dict[tuple[str, str, bool], list[int]]


# --- pages ----------------------------------------------------------------------------------------

LEVEL_COLUMNS = (
    "PriorityLevelName",
    "ActiveQueues",
    "IsIdle",
    "IsQuiescing",
    "WaitingRequests",
    "ExecutingRequests",
)
QUEUE_COLUMNS = (
    "PriorityLevelName",
    "Index",
    "PendingRequests",
    "ExecutingRequests",
    "SeatsInUse",
    "NextDispatchR",
    "InitialSeatsSum",
    "MaxSeatsSum",
    "TotalWorkSum",
)
# Quirk: "FlowDistingsher".
REQUEST_COLUMNS = (
    "PriorityLevelName",
    "FlowSchemaName",
    "QueueIndex",
    "RequestIndexInQueue",
    "FlowDistingsher",
    "ArriveTime",
    "InitialSeats",
    "FinalSeats",
    "AdditionalLatency",
)
DETAIL_COLUMNS = ("UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource")


def debug_page(name: str, options: Mapping[str, str], state: FairnessState, epoch_us: int) -> str | None:
    """A page by its name; None if there is none.

    options: the query
    epoch_us: Unix time at which virtual time began
    """
    if name == "dump_priority_levels":
        return levels_page(state)
    if name == "dump_queues":
        return queues_page(state)
    if name == "dump_requests":
        return requests_page(state, bool(options.get("includeRequestDetails")), epoch_us)
    return None


def levels_page(state: FairnessState) -> str:
    """One row for each level."""
    rows: list[Sequence[str]] = [LEVEL_COLUMNS]
    for each in state.levels:
        if each.level.exempt:
            rows.append((each.level.name, *[NONE] * (len(LEVEL_COLUMNS) - 1)))
            continue
        active = sum(1 for queue in each.queues if queue.waiting)
        idle = not each.waiting and not each.executing
        cells = (active, _boolean(idle), _boolean(False), each.waiting, len(each.executing))
        rows.append((each.level.name, *map(str, cells)))
    return table(rows)


def queues_page(state: FairnessState) -> str:
    """One row for each queue of each level."""
    rows: list[Sequence[str]] = [QUEUE_COLUMNS]
    for each in state.levels:
        if each.level.exempt:
            rows.append((each.level.name, *[NONE] * (len(QUEUE_COLUMNS) - 1)))
        for queue in each.queues:
            cells = (
                queue.position,
                len(queue.waiting),
                queue.executing,
                queue.seats,
                seat_seconds(queue.next),
                queue.initial_seats,
                queue.seats_max,
                seat_seconds(queue.work),
            )
            rows.append((each.level.name, *map(str, cells)))
    return table(rows)


def requests_page(state: FairnessState, details: bool, epoch_us: int) -> str:
    """One row for each request that waits.

    details: with the attributes of the request
    epoch_us: Unix time at which virtual time began
    """
    rows: list[Sequence[str]] = [(*REQUEST_COLUMNS, *(DETAIL_COLUMNS if details else ()))]
    for each in state.levels:
        for queue in each.queues:
            for position, number in enumerate(queue.waiting):
                held = state.held[number]
                place = (each.level.name, held.flow.schema, str(queue.position), str(position))
                cells = (*place, *_request_cells(held, epoch_us))
                rows.append((*cells, *(_details(held.request) if details else ())))
    return table(rows)


def _request_cells(held: Held, epoch_us: int) -> tuple[str, ...]:
    stamp = format_micro_time(epoch_us + held.arrived_us).removesuffix("Z").rstrip("0").rstrip(".")
    work = held.work
    seats = (str(work.seats), str(work.final_seats))
    return (held.flow.distinguisher, f"{stamp}Z", *seats, format_duration(work.extra_us))


def _details(request: Request) -> tuple[str, ...]:
    asked = attributes_of(request)
    prefix = f"/apis/{asked.group}/{asked.version}" if asked.group else f"/api/{asked.version}"
    inside = f"/namespaces/{request.namespace}" if request.namespace else ""
    rest = "".join([f"/{part}" for part in (asked.resource, request.name, asked.subresource) if part])
    version = f"{asked.group}/{asked.version}" if asked.group else asked.version
    return (
        request.user.name,
        asked.verb,
        prefix + inside + rest,
        asked.namespace,
        asked.name,
        version,
        asked.resource,
        asked.subresource,
    )


def seat_seconds(value: int) -> str:
    """Seat-seconds as upstream prints them."""
    whole, rest = divmod(value, UNIT)
    return f"{whole}.{rest:08d}ss"


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of equal length as aligned columns; the last column is not padded."""
    widths = [max(CELL_MIN, *(len(cell) + 2 for cell in column)) for column in zip(*rows, strict=True)]
    lines = [[*map(str.ljust, [f"{cell}," for cell in row[:-1]], widths), row[-1]] for row in rows]
    return "".join([f"{''.join(line)}\n" for line in lines])
