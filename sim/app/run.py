"""Runs a plan to its end and judges its expectations: `run_plan(plan, ...) -> Result`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, closing
from dataclasses import asdict, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from sim.api.store import path_of
from sim.app.agents.requests import AgentDoors
from sim.app.audit.outputs import refuse_webhook
from sim.app.cluster import Cluster
from sim.app.control.judging import requests_by_client, take_part
from sim.app.control.views import diverged
from sim.app.possible import expectations_of, zones_of
from sim.app.process.garbage import no_collection
from sim.app.timetable import await_beginning, begin, begin_as_served, header_of
from sim.check import Checker, Verdict, World
from sim.check.availability import AvailablePods
from sim.check.clients import ServiceRequest
from sim.dataclass import dataclass
from sim.errors import InputError
from sim.ident import NAMES
from sim.kernel import DEFAULT_EPOCH_US, Comparison, Operation, Trace
from sim.kernel.fast import FastPaths
from sim.kernel.tasks import ALONE_S
from sim.report import BUCKET_US, Timeline
from sim.report.charts.chart import in_notebook
from sim.report.charts.run import run_chart
from sim.report.page import fragment, table
from sim.scenario.plan.plan import Plan
from sim.units import Virtual, Wall
from sim.wire.http.gateway import Gateway

if TYPE_CHECKING:
    from sim.app.control.session import Control
    from sim.app.travel.rest import Rest

    Steering = Callable[[Control], AbstractAsyncContextManager[None]]


class Outside(NamedTuple):
    """The operations that reached a served cluster from outside.

    epoch_us: Unix time at which its virtual time began
    trace_sha256: of its trace when it ended; "" if unknown
    ended_at: the position of that end, if it is not the end of the plan: the operation COMPARED
    checksums: those of the rows of its trace, as far as they are known
    """

    epoch_us: Wall
    operations: list[Operation]
    trace_sha256: str
    ended_at: Operation | None = None
    checksums: bytes = b""


COMPARED = "compared"  # the operation that compares the trace of a replay at its position


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one run.

    refused: commands of the scenario without effect, and leases that candidates for leader were
        refused, each with the reason
    as_served: True if a replay has the trace of the served cluster; None if that is unknown
    differs_at: number of the first record that differs from what was served; 0 if that is unknown
    metrics: those of the components at the end, as Prometheus reads them, of a metered run
    unanswered: calls of servers outside that a replay left open at its end, by method and URL
    requests: how many requests of users had each outcome, by step
    """

    name: str
    seed: int
    virtual_us: int
    wall_s: float
    steps: int
    trace_sha256: str
    verdicts: tuple[Verdict, ...]
    timeline: Timeline
    refused: tuple[str, ...] = ()
    as_served: bool | None = (
        None  # whether a run made again has the trace of the first; None where that is unknown
    )
    metrics: str = ""
    unanswered: tuple[str, ...] = ()
    differs_at: int = 0
    requests: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """True if all expectations hold, and a replay has the trace of the served cluster."""
        return all(verdict.ok for verdict in self.verdicts) and self.as_served is not False

    def to_json(self) -> dict[str, Any]:
        """The result as `orrery run --json` prints it."""
        return {
            "ok": self.ok,
            "scenario": self.name,
            "seed": self.seed,
            "virtual_s": self.virtual_us / 1e6,
            "wall_s": round(self.wall_s, 3),
            "events": self.steps,
            "trace_sha256": self.trace_sha256,
            "expectations": [
                {
                    "name": verdict.name,
                    "kind": verdict.kind,
                    "ok": verdict.ok,
                    "measured": verdict.measured,
                    "wanted": verdict.wanted,
                    "after": verdict.after,
                    "values": list(verdict.measured_s),
                    "held_already": verdict.held_already,
                    "at_s": _seconds(verdict.at_us),
                    "since_after_s": _seconds(verdict.since_us),
                    "objects": [path_of(key) for key in verdict.objects],
                    "true_of": verdict.counted,
                }
                for verdict in self.verdicts
            ],
            "refused": list(self.refused),
            **({"requests": self.requests} if self.requests else {}),
        } | ({} if self.as_served is None else {"as_served": self.as_served})

    def outcome(self) -> dict[str, Any]:
        """What the trace of the run holds at its end: verdicts and the picture, as plain values."""
        return {
            "name": self.name,
            "seed": self.seed,
            "virtual_us": self.virtual_us,
            "verdicts": [asdict(verdict) for verdict in self.verdicts],
            "timeline": self.timeline.to_plain(),
        }

    def _repr_html_(self) -> str:
        """The verdicts and the picture, for a notebook."""
        rows = [(one.mark, one.name, one.measured, one.wanted) for one in self.verdicts]
        verdicts = table(("", "expectation", "measured", "wanted"), rows)
        return fragment(f"{verdicts}{in_notebook(run_chart(self.timeline, self.virtual_us))}")


def _seconds(us: int | None) -> float | None:
    return None if us is None else us / 1e6


def sample(cluster: Cluster, timeline: Timeline, checker: Checker | None = None) -> None:
    """Sample the number of API requests for the timeline at the end of each of its buckets, and
    those of each client for the expectations that need them.
    """
    asking = checker is not None and any(one.needs_requests for one in checker.expectations)

    def tick(_: object) -> None:
        now_us = cluster.kernel.now_us
        if asking and checker is not None:
            checker.requests(requests_by_client(cluster), now_us)
        timeline.sample(now_us, sum(server.flown for server in cluster.api_servers.values()))
        cluster.kernel.call_at(now_us + BUCKET_US, tick)

    cluster.kernel.call_at(Virtual(BUCKET_US), tick)


def record(cluster: Cluster, timeline: Timeline) -> None:
    """Let a timeline take the commits of a cluster, its available pods, and requests of clients."""
    cluster.observe(timeline.see, timeline.resources)
    pods = AvailablePods(timeline.serve)
    cluster.observe(pods.pod, ("pods",))
    cluster.watch_machines(pods.machine)

    def requested(request: ServiceRequest, _: int) -> None:
        timeline.request(request.service.removeprefix("//services/"), request.outcome, request.sent_us)

    cluster.machine_watch.request_watchers.append(requested)


async def run_plan(
    plan: Plan,
    *,
    seed: int | None = None,
    trace_file: Path | None = None,
    watch: Callable[[Cluster], Any] | None = None,
    picture: bool = True,
    prepare: Callable[[Cluster], object] | None = None,
    outside: Outside | None = None,
    fast: bool | FastPaths = True,
    audited: bool = True,
    replaces_log: bool = False,
    metered: bool = False,
    agent_logs: Path | None = None,
    steering: Steering | None = None,
    sockets: bool = False,
    rest: Rest | None = None,
) -> Result:
    """Run a plan as fast as possible.

    watch: an async function of the cluster that runs beside it, for a display of progress
    picture: False leaves the timeline of the result empty
    prepare: called with the cluster before virtual time passes
    outside: operations of a served cluster to replay, to the end of the plan
    fast: the fast paths to take; the result is the same with all, some or none of them
    audited: False drops the events of the audit that the options ask for; so does `outside`
    replaces_log: True replaces a file that is in the place of the audit log
    agent_logs: a folder for what node agents log
    steering: what steers the run, and lets it begin (`Control.resume`); the run takes place within
        it, and has the same result unless it does more
    sockets: True sends all messages through sockets of the loopback, without fast paths; the
        result is the same
    metered: True lets the components count from the start, for `Result.metrics`; the trace is the
        same
    rest: where the run rests, to be continued with other later steps by other processes; the plan
        is then the common part, and the result is that of the plan of this process
    """
    seed = plan.seed if seed is None else seed
    prepare = _with_programs(plan, prepare)
    expectations = expectations_of(plan, outside is None and prepare is None, whole=rest is None)
    for image, program in plan.cluster.pods.servers.items() if outside is None else ():
        problem = f"the program of {image} is a server outside, so that this run would not repeat"
        raise InputError(problem, program.place, "run it by `orrery serve`, or take this line out")
    if audited and outside is None:
        refuse_webhook(plan.cluster.api_server)
    trace = Trace(trace_file, header_of(plan, seed))
    kind: type[Cluster] = Cluster
    if sockets:
        from sim.app.over_sockets import SocketsCluster as kind
    world = World(NAMES[plan.cluster.naming], zones_of(plan))
    with closing(trace):
        with no_collection():
            checker = Checker(world, [] if steering else expectations)
            make = partial(
                kind,
                plan.cluster,
                seed=seed,
                trace=trace,
                epoch_us=_epoch_us(plan) if outside is None else outside.epoch_us,
                replay=None if outside is None else _replayed(outside),
                fast=fast,
                audited=audited and outside is None,
                replaces_log=replaces_log,
                agent_logs=agent_logs,
            )
            result = await _run(
                plan, seed, make, trace, checker, watch, picture, prepare, outside, metered, steering, rest
            )
        trace.outcome = result.outcome()
        return result


def _with_programs(
    plan: Plan, prepare: Callable[[Cluster], object] | None
) -> Callable[[Cluster], object] | None:
    """What prepares a cluster, with the programs of the plan's user.  Raises InputError if one has
    no function.
    """
    if not plan.cluster.own_programs:
        return prepare
    from sim.app.process.own_programs import program_at, refuse_missing

    if prepare is None:
        refuse_missing(plan.cluster.own_programs, dict(plan.own_programs), plan.file)

    def both(cluster: Cluster) -> None:
        if prepare is not None:
            prepare(cluster)
        for name, reference in plan.own_programs:
            cluster.add_program(name, program_at(reference))
        refuse_missing(plan.cluster.own_programs, cluster.supervisor.actors, plan.file)

    return both


def _control(cluster: Cluster, plan: Plan, outside: Outside | None, *, steered: bool) -> Control | None:
    """What steers and judges a run, or repeats the steps of users; a run of its own needs none."""
    if outside is None and not steered:
        return None
    from sim.app.control.session import Control

    expectations = expectations_of(plan, alone=False) if steered else []
    return Control(cluster, plan, expectations, Virtual(plan.duration_us))


async def _begin(cluster: Cluster, plan: Plan, *, replayed: bool, rest: Rest | None) -> None:
    """Let the plan begin; that of a served cluster as there, or by the operation of its journal."""
    if not plan.cluster.served:
        begin(cluster, plan, rest.room if rest else 0, rest.later(plan) if rest else ())
        return
    await_beginning(cluster, plan)
    if not replayed:
        await begin_as_served(cluster, plan)


def _step(checker: Checker, timeline: Timeline, name: str, kind: str, at_us: int) -> None:
    """A step occurs, or ends."""
    checker.step(name, kind, at_us)
    timeline.step(name, kind, at_us)


def _verdicts(plan: Plan, checker: Checker, control: Control | None) -> tuple[Verdict, ...]:
    """The verdicts of a run, of which the plan of a continuation may judge fewer."""
    judged = {one.expectation.name for one in plan.expectations}
    verdicts = [one for one in checker.verdicts(plan.duration_us) if one.name in judged]
    return (*verdicts, *(control.verdicts(plan.duration_us) if control else ()))


async def _steered(control: Control, steering: Steering) -> None:
    """Let a run take place within what steers it."""
    async with steering(control):
        await control.finish()


def _epoch_us(plan: Plan) -> Wall:
    """Unix time at which the virtual time of a plan begins."""
    return DEFAULT_EPOCH_US if plan.cluster.epoch_us is None else plan.cluster.epoch_us


def _replayed(outside: Outside) -> list[Operation]:
    """The operations to repeat, with that by which the trace is compared."""
    return outside.operations if outside.ended_at is None else [*outside.operations, outside.ended_at]


class _AsServed:
    """Finds out whether a replay is what was served, and where it differs first."""

    def __init__(self, outside: Outside, trace: Trace, cluster: Cluster) -> None:
        self._outside, self._trace = outside, trace
        self._found = ""
        self._comparison = Comparison(outside.checksums)
        self._comparison.follow(trace)
        cluster.kernel.gate.handle(COMPARED, self._compare)

    def _compare(self, _: object, done: Callable[[None], None]) -> None:
        self._found = self._trace.sha256()
        done(None)

    def judge(self) -> tuple[bool | None, int]:
        """True if the replay is what was served (None if that is unknown), and the number of the
        first record that differs.
        """
        self._comparison.finish()
        outside, differs_at = self._outside, self._comparison.differs_at
        if not outside.trace_sha256:
            return (False if differs_at else None), differs_at
        result = self._trace.sha256() if outside.ended_at is None else self._found
        return result == outside.trace_sha256, differs_at


async def _run(
    plan: Plan,
    seed: int,
    make: Callable[[], Cluster],
    trace: Trace,
    checker: Checker,
    watch: Callable[[Cluster], Any] | None,
    picture: bool,
    prepare: Callable[[Cluster], object] | None,
    outside: Outside | None,
    metered: bool,
    steering: Steering | None,
    rest: Rest | None,
) -> Result:
    """The run itself, in a frame of its own, so that no frame holds the cluster afterwards.

    The parts of a cluster refer to each other, so that only a garbage collection frees them;
    `outcome.perform`, which makes many runs in one process, requests collections.
    """
    started, as_served = perf_counter(), None
    timeline = Timeline(NAMES[plan.cluster.naming])
    async with make() as cluster, trio.open_nursery() as beside:
        cluster.kernel.slice_s = ALONE_S
        metrics = cluster.metrics() if metered else None
        take_part(cluster, checker)
        if picture:
            record(cluster, timeline)
        if outside is None:  # a served cluster has no samples
            sample(cluster, timeline, checker)  # without a picture too: these are events of a run

        if prepare is not None:
            prepare(cluster)
        if outside is not None:
            AgentDoors(Gateway(cluster.kernel, cluster.api_servers), cluster.nodes)
            as_served = _AsServed(outside, trace, cluster)
        control = _control(cluster, plan, outside, steered=steering is not None)
        cluster.do.on_step(partial(_step, checker, timeline))
        await _begin(cluster, plan, replayed=outside is not None, rest=rest)
        if watch is not None:
            beside.start_soon(watch, cluster)
        if rest is not None:
            plan, started = await rest.reached(cluster, checker)
        if steering is None or control is None:
            await cluster.run_until(plan.duration_us)
        else:
            await _steered(control, steering)
        checker.finish(partial(diverged, cluster))
        beside.cancel_scope.cancel()
        text = "" if metrics is None else metrics.text()
        unanswered = cluster.kernel.outside.open_calls if outside is not None else ()
    same, differs_at = (None, 0) if as_served is None else as_served.judge()
    return Result(
        plan.name,
        seed,
        plan.duration_us,
        perf_counter() - started,
        cluster.kernel.steps,
        trace.sha256(),
        _verdicts(plan, checker, control),
        timeline,
        cluster.refused,
        same,
        metrics=text,
        unanswered=unanswered,
        differs_at=differs_at,
        requests={} if plan.cluster.kube_proxy is None else cluster.traffic.outcomes(),
    )
