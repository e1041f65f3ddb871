"""Runs a plan to its end and judges its expectations: `run_plan(plan, ...) -> Result`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from sim.app.agents.requests import AgentDoors
from sim.app.audit.outputs import refuse_webhook
from sim.app.cluster import Cluster
from sim.app.possible import expectations_of, zones_of
from sim.app.process.garbage import no_collection
from sim.app.timetable import await_beginning, begin, begin_as_served, header_of
from sim.check import Checker, Verdict, World
from sim.check.availability import AvailablePods
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
from sim.report.story import shown
from sim.scenario.plan.plan import Plan
from sim.units import Virtual, Wall
from sim.wire.http.gateway import Gateway

if TYPE_CHECKING:
    from sim.app.control.session import Control


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
                    "objects": [shown(key) for key in verdict.objects],
                    "true_of": verdict.counted,
                }
                for verdict in self.verdicts
            ],
            "refused": list(self.refused),
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


def sample(cluster: Cluster, timeline: Timeline) -> None:
    """Sample the number of API requests for the timeline at the end of each of its buckets."""

    def tick(_: object) -> None:
        now_us = cluster.kernel.now_us
        timeline.sample(now_us, sum(server.flown for server in cluster.api_servers.values()))
        cluster.kernel.call_at(now_us + BUCKET_US, tick)

    cluster.kernel.call_at(Virtual(BUCKET_US), tick)


def record(cluster: Cluster, timeline: Timeline) -> None:
    """Let a timeline take the commits of a cluster, and how many pods are available."""
    cluster.observe(timeline.see, timeline.resources)
    pods = AvailablePods(timeline.serve)
    cluster.observe(pods.pod, ("pods",))
    cluster.watch_machines(pods.machine)


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
    metered: True lets the components count from the start, for `Result.metrics`; the trace is the
        same
    """
    seed = plan.seed if seed is None else seed
    expectations = expectations_of(plan, alone=outside is None and prepare is None)
    for image, program in plan.cluster.programs.items() if outside is None else ():
        problem = f"the program of {image} is a server outside, so that this run would not repeat"
        raise InputError(problem, program.place, "run it by `orrery serve`, or take this line out")
    if audited and outside is None:
        refuse_webhook(plan.cluster.api_server)
    trace = Trace(trace_file, header_of(plan, seed))
    names = NAMES[plan.cluster.naming]
    try:
        with no_collection():
            checker = Checker(World(names, zones_of(plan)), expectations)
            make = partial(
                Cluster,
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
            result = await _run(plan, seed, make, trace, checker, watch, picture, prepare, outside, metered)
        trace.outcome = result.outcome()
        return result
    finally:
        trace.close()


def _control(cluster: Cluster, plan: Plan) -> Control:
    """What repeats the steps of users; a run of its own does not import it."""
    from sim.app.control.session import Control

    return Control(cluster, plan, [])


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
        found = self._trace.sha256() if outside.ended_at is None else self._found
        return found == outside.trace_sha256, differs_at


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
) -> Result:
    """The run itself, in a frame of its own, so that no frame holds the cluster afterwards.

    The parts of a cluster refer to each other, so that only a garbage collection frees them;
    `outcome.perform`, which makes many runs in one process, requests collections.
    """
    started = perf_counter()
    as_served: _AsServed | None = None
    timeline = Timeline(NAMES[plan.cluster.naming])
    async with make() as cluster, trio.open_nursery() as beside:
        cluster.kernel.slice_s = ALONE_S
        metrics = cluster.metrics() if metered else None
        cluster.observe(checker.see, checker.resources)
        cluster.watch_machines(checker.machine)
        if picture:
            record(cluster, timeline)
        if outside is None:  # a served cluster has no samples
            sample(cluster, timeline)  # without a picture too: the samples are events of the run

        def on_step(name: str, kind: str, at_us: int) -> None:
            checker.step(name, kind, at_us)
            timeline.step(name, kind, at_us)

        if prepare is not None:
            prepare(cluster)
        if outside is not None:
            AgentDoors(Gateway(cluster.kernel, cluster.api_servers), cluster.nodes)
            as_served = _AsServed(outside, trace, cluster)
        control = None if outside is None else _control(cluster, plan)
        cluster.do.on_step(on_step)
        if plan.cluster.served:
            await_beginning(cluster, plan)
        if not plan.cluster.served:
            begin(cluster, plan)
        elif outside is None:
            await begin_as_served(cluster, plan)
        if watch is not None:
            beside.start_soon(watch, cluster)
        await cluster.run_until(plan.duration_us)
        beside.cancel_scope.cancel()
        steps = cluster.kernel.steps
        text = "" if metrics is None else metrics.text()
        unanswered = cluster.kernel.outside.open_calls if outside is not None else ()
    same, differs_at = (None, 0) if as_served is None else as_served.judge()
    return Result(
        plan.name,
        seed,
        plan.duration_us,
        perf_counter() - started,
        steps,
        trace.sha256(),
        (*checker.verdicts(plan.duration_us), *(control.verdicts(plan.duration_us) if control else ())),
        timeline,
        cluster.refused,
        same,
        metrics=text,
        unanswered=unanswered,
        differs_at=differs_at,
    )
