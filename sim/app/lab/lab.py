"""The lab: a cluster that lives across the cells of a notebook, without `async`.

    from orrery import Lab

    lab = Lab(nodes=6, zones=["a", "b", "c"], seed=1)
    lab.apply(deployment)
    lab.run("1m")
    lab.fail(nodes={"name": "node-a-0"}, how="power-loss")
    lab.run_until("any nodes have Ready=Unknown", limit="5m")
    lab.pods()
    lab.why("pod/web-*")

Turns calls into work in a thread that runs the cluster (`portal`), and objects into tables
(`frames`) and pictures (`shown`).

Holds: virtual time moves only in `run` and `run_until`.  The same calls give the same run, event
for event, so that `fork` can make a copy by repeating them. Objects wait until the nodes have
booted, as those of `orrery run` do, so that pods spread and a lab of a scenario runs as the
scenario does.
"""

from __future__ import annotations

import tempfile
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sim.api.objects import labels_of, name_of
from sim.app.cluster import Cluster
from sim.app.control.until import Awaited
from sim.app.inspect.why import story_so_far
from sim.app.lab import frames
from sim.app.lab.keywords import suggests_keywords
from sim.app.lab.portal import Portal
from sim.app.lab.recording import RESOURCES, Recording
from sim.app.lab.shown import Picture, State, Story
from sim.app.lab.widget import cluster_widget
from sim.app.parts.given import check_object
from sim.app.reference.shipped import scenario_path
from sim.app.run import record, sample
from sim.app.steps import step_method
from sim.app.timetable import applied_us, header_of
from sim.client import DEFAULT_QPS, Client
from sim.errors import InputError, suggestion
from sim.faults.shared.kinds import StepKind
from sim.ident import NAMES
from sim.kernel import Actor, Trace
from sim.report import Timeline
from sim.report.charts.run import run_chart
from sim.scenario.actions import KINDS
from sim.scenario.compile import compile_plan, load
from sim.scenario.plan.plan import Plan
from sim.scenario.read.source import Document, read_documents
from sim.units import SECOND, parse_duration_us

if TYPE_CHECKING:
    import polars

    from sim.app.lab.connected import ConnectedLab

Obj = dict[str, Any]
FOREVER = "100000h"  # the length of a run without a plan


class _Session:
    """The cluster of a lab with its observers, inside the thread of the portal."""

    def __init__(self, plan: Plan, seed: int, folder: Path) -> None:
        self.plan = plan
        self.folder = folder
        self.trace = Trace(folder / "lab.trace", header_of(plan, seed))
        self.cluster = Cluster(plan.cluster, seed=seed, trace=self.trace)
        self.timeline = Timeline(NAMES[plan.cluster.naming])
        self.recording = Recording(NAMES[plan.cluster.naming])
        self.programs: dict[str, Actor] = {}
        # Objects that wait until the nodes have booted; None from then on.
        self._waiting: list[Mapping[str, Any]] | None = [*plan.objects]

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Self]:
        """Run the cluster."""
        try:
            async with self.cluster as cluster:
                for change in cluster.present(RESOURCES):
                    self.recording.see(change)
                cluster.observe(self.recording.see, RESOURCES)
                record(cluster, self.timeline)
                sample(cluster, self.timeline)
                cluster.do.on_step(self.timeline.step)
                cluster.do.schedule(self.plan.steps)
                cluster.kernel.call_at(applied_us(self.plan), self._booted)
                yield self
        finally:
            self.trace.close()

    def apply(self, objects: Sequence[Mapping[str, Any]]) -> None:
        """Apply objects, or let them wait until the nodes have booted.  Raises InputError for a
        value that is no object.
        """
        if self._waiting is None:
            self.cluster.apply(*objects)
            return
        for obj in objects:
            check_object(self.cluster.scheme, obj)
        self._waiting += objects

    @property
    def objects_from_us(self) -> int:
        """The time at which the waiting objects are applied; 0 if that has happened."""
        return 0 if self._waiting is None else applied_us(self.plan)

    def _booted(self, _: None) -> None:
        """Apply the objects that wait."""
        waiting, self._waiting = self._waiting, None
        self.cluster.hand_in(waiting or ())

    @property
    def now_us(self) -> int:
        """Virtual time."""
        return self.cluster.kernel.now_us

    async def run_until(self, at_us: int) -> None:
        """Run to an instant, or until the kernel is halted."""
        await self.cluster.run_until(at_us)

    async def run_until_holds(self, text: str | Mapping[str, Any], limit_us: int) -> bool:
        """Run until a condition holds or an event happens; False if the limit came first."""
        cluster = self.cluster
        awaited = Awaited(cluster, text, cluster.kernel.halt)
        try:
            if not awaited.holds:
                await cluster.run_until(self.now_us + limit_us)
        finally:
            awaited.forget()
        return awaited.holds

    def add_program(
        self, name: str, main: Callable[[Client], Awaitable[object]], qps: float, burst: int
    ) -> None:
        """Run a program of the user as a process."""
        self.programs[name] = self.cluster.add_program(name, main, qps=qps, burst=burst)

    def state(self) -> State:
        """The present state in numbers."""
        return State(self.now_us, **self.cluster.counts())

    def story(self, target: str, namespace: str, what: str) -> Story:
        """What led to what became of an object."""
        copy = self.folder / "so-far.trace"
        self.trace.copy(copy)
        found = story_so_far(copy, target, namespace, what)
        return Story(found.title, found.lines)


class Program:
    """A program of the user that runs in a lab.

    act: carries out an action in the lab and notes it
    """

    def __init__(self, name: str, act: Callable[[Callable[[_Session], Any]], Any]) -> None:
        self.name = name
        self._act = act

    def crash(self) -> None:
        """Kill the process; what it remembers is gone.  It stays away until `start`."""
        self._act(lambda session: session.programs[self.name].crash())

    def start(self) -> None:
        """Start the process again."""
        self._act(lambda session: session.programs[self.name].start())

    def pause(self) -> None:
        """Stop the process where it is, as SIGSTOP does."""
        self._act(lambda session: session.programs[self.name].pause())

    def resume(self) -> None:
        """Let a paused process go on."""
        self._act(lambda session: session.programs[self.name].resume())

    def __repr__(self) -> str:
        return f"<program {self.name}>"


async def _settled(action: Callable[[_Session], Any], session: _Session) -> Any:
    """Carry out an action and all that is due at its instant, so that the next one finds it done.

    Without that, the real time between two actions would decide what is run between them.
    """
    result = action(session)
    await session.run_until(session.now_us)
    return result


@suggests_keywords
class Lab:
    """A cluster in a notebook or at the prompt.

    nodes, zones: equal nodes, and the zones over which they are distributed in turn
    scenario: a scenario file, or the name of one that comes along, instead of nodes and objects:
        its cluster, objects and timeline; its expectations are not judged
    objects: manifests that are applied at the start
    seed: of all randomness; the default is the scenario's, or 0
    cluster: more of the section `cluster` of a scenario, in its spelling
    Raises InputError for what a scenario file could not say either.
    """

    def __init__(
        self,
        nodes: int = 0,
        *,
        zones: Sequence[str] = (),
        seed: int | None = None,
        scenario: str | Path | None = None,
        objects: Sequence[Mapping[str, Any]] = (),
        naming: str = "kubernetes",
        boot: str = "10s",
        established: bool = False,
        cluster: Mapping[str, Any] | None = None,
    ) -> None:
        if scenario is not None:
            if nodes or zones or objects or cluster or established:
                raise InputError("a lab has either a scenario, or nodes and objects", "", "leave one out")
            plan = load(scenario_path(Path(scenario)))
        else:
            plan = _plain_plan(nodes, zones, objects, {
                "naming": naming, "boot": boot, "established": established, **(cluster or {}),
            })  # fmt: skip
        self._begin(plan, plan.seed if seed is None else seed)

    def _begin(self, plan: Plan, seed: int) -> None:
        self._plan, self._seed = plan, seed
        self._journal: list[Callable[[_Session], Any]] = []
        folder = tempfile.TemporaryDirectory(prefix="orrery-lab-", ignore_cleanup_errors=True)
        session = partial(_Session, plan, seed, Path(folder.name))
        self._portal = Portal(lambda: session().opened(), _halt, f"lab of {plan.name}")
        # The last reference, or the end of the interpreter, ends the thread.
        self._finalizer = weakref.finalize(self, _end, self._portal, folder)

    @staticmethod
    def connect(config: str | Path | None = None, context: str = "") -> ConnectedLab:
        """The lab of a served cluster, by its client configuration; None for that of kubectl."""
        from sim.app.lab.connected import ConnectedLab

        return ConnectedLab(config, context)

    def close(self) -> None:
        """End the cluster and its thread.  A second call has no effect."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- time -------------------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        """Virtual time since the start, in seconds."""
        return self._portal.call(lambda session: session.now_us) / SECOND

    def run(self, duration: str) -> State:
        """Run for a duration of virtual time; the state at its end.

        Ctrl-C ends it at the present instant, and the lab can go on from there.
        """
        duration_us = _duration_us(duration)
        start_us = self._portal.call(lambda session: session.now_us)
        self._moved(lambda session: session.run_until(start_us + duration_us))
        return self.state()

    def run_until(self, condition: str | Mapping[str, Any], limit: str = "1h") -> float | None:
        """Run until a condition in words holds, or an event such as {"created": "pods"} happens.

        Returns the seconds of virtual time that it took, 0.0 if it holds already, and None if
        `limit` came first.  `orrery conditions` lists the language of conditions.
        """
        limit_us = _duration_us(limit)
        start_us = self._portal.call(lambda session: session.now_us)
        held = self._moved(lambda session: session.run_until_holds(condition, limit_us))
        end_us = self._portal.call(lambda session: session.now_us)
        return (end_us - start_us) / SECOND if held else None

    def _moved(self, move: Callable[[_Session], Any]) -> Any:
        """Carry out a call that moves time, and note how far it came."""
        try:
            return self._portal.call(move)
        finally:
            if self._portal.open:  # an exception of a program ends the lab
                end_us = self._portal.call(lambda session: session.now_us)
                self._journal.append(lambda session: session.run_until(end_us))

    # --- what a user does, and what goes wrong ----------------------------------------------------

    def apply(self, *objects: Mapping[str, Any] | str | Path) -> None:
        """Create or replace objects: manifests as mappings, or files of them.

        They are applied as soon as time is run and the nodes have booted; `refused` lists what the
        API refuses.
        """
        found = [obj for given in objects for obj in _manifests(given)]
        self._done(lambda session: session.apply(found))

    def add_program(
        self,
        name: str,
        main: Callable[[Client], Awaitable[object]],
        *,
        qps: float = DEFAULT_QPS,
        burst: int = 10,
    ) -> Program:
        """Run a controller of yours as a process of the cluster, as `Cluster.add_program` does.

        main: an async function of a client; a fork calls it again, so it keeps its state in itself.
            An exception of it ends the lab and is raised by `run`
        """
        self._done(lambda session: session.add_program(name, main, qps, burst))
        return Program(name, self._done)

    @property
    def refused(self) -> tuple[str, ...]:
        """What the API has refused, and why."""
        return self._portal.call(lambda session: session.cluster.refused)

    def __getattr__(self, name: str) -> Callable[..., str]:
        kind = KINDS.get(name)
        if kind is None or name == "apply":
            known = [*(one for one in dir(type(self)) if not one.startswith("_")), *KINDS]
            raise AttributeError(f"a lab has no {name!r} {suggestion(name, known)}".rstrip())

        return step_method(kind, lambda *step: str(self._done(partial(_perform, *step))))

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *KINDS})

    def _done(self, action: Callable[[_Session], Any]) -> Any:
        """Carry out an action and note it; one that raises has no effect and is not noted."""
        settled = partial(_settled, action)
        result = self._portal.call(settled)
        self._journal.append(settled)
        return result

    def fork(self) -> Lab:
        """An independent copy of the cluster at this instant, to try two futures.

        The copy repeats all that was done so far, which takes the time that it took.
        """
        twin = Lab.__new__(Lab)
        twin._begin(self._plan, self._seed)
        for action in self._journal:
            twin._portal.call(action)
            twin._journal.append(action)
        return twin

    # --- looking ----------------------------------------------------------------------------------

    def state(self) -> State:
        """The numbers of nodes and pods now."""
        return self._portal.call(_Session.state)

    def objects(self, resource: str, namespace: str = "", selector: str = "") -> list[Obj]:
        """The stored objects of a resource, as mappings."""
        return self._portal.call(lambda session: session.cluster.list(resource, namespace, selector))

    def get(self, resource: str, name: str, namespace: str = "default") -> Obj | None:
        """One stored object, None if it does not exist."""
        return self._portal.call(lambda session: session.cluster.get(resource, name, namespace))

    def pods(self, namespace: str = "", selector: str = "") -> polars.DataFrame:
        """The pods, a row each.  Times are seconds since the start of the run."""
        label = NAMES[self._plan.cluster.naming].label_zone
        zone_of = {name_of(node): labels_of(node).get(label, "") for node in self.objects("nodes")}
        pods = self.objects("pods", namespace, selector)
        start_us = self._start_us
        return frames.frame(
            frames.objects_rows(pods, lambda pod: frames.pod_row(pod, zone_of, start_us)), frames.PODS
        )

    def nodes(self) -> polars.DataFrame:
        """The nodes, a row each."""
        pods_on = Counter((pod.get("spec") or {}).get("nodeName", "") for pod in self.objects("pods"))
        names, start_us = NAMES[self._plan.cluster.naming], self._start_us
        rows = frames.objects_rows(
            self.objects("nodes"), lambda node: frames.node_row(node, names, pods_on, start_us)
        )
        return frames.frame(rows, frames.NODES)

    def events(self, namespace: str = "") -> polars.DataFrame:
        """The events that the API keeps, in the order of their time."""
        start_us = self._start_us
        rows = [frames.event_row(event, start_us) for event in self.objects("events", namespace)]
        rows.sort(key=lambda row: (row["time_s"] or 0.0, row["object"], row["reason"]))
        return frames.frame(rows, frames.EVENTS)

    def leases(self, namespace: str = "") -> polars.DataFrame:
        """The leases, a row each."""
        start_us = self._start_us
        rows = frames.objects_rows(
            self.objects("leases", namespace), lambda lease: frames.lease_row(lease, start_us)
        )
        return frames.frame(rows, frames.LEASES)

    @property
    def _start_us(self) -> int:
        return self._portal.call(lambda session: session.cluster.kernel.epoch_us)

    def why(self, target: str, what: str = "", namespace: str = "default") -> Story:
        """What led to what became of an object: "pod/web-1", "node/node-a-0"; a glob finds one.

        what: what happened to it, as `orrery why --what` takes it
        """
        return self._portal.call(lambda session: session.story(target, namespace, what))

    def timeline(self) -> Picture:
        """The picture of the run so far."""
        return self._portal.call(
            lambda session: Picture(run_chart(session.timeline, session.now_us), session.now_us)
        )

    def widget(self) -> Any:
        """Nodes and pods as a coloured grid, with a slider over the time so far.

        It shows the run up to now; call it again after the next run.  Outside of notebooks, and without
        the package anywidget, it is text.
        """
        return self._portal.call(
            lambda session: cluster_widget(session.recording.changes, session.now_us / SECOND)
        )

    def save_trace(self, file: str | Path) -> None:
        """Write the events so far to a file for `orrery why`, `diff` and `show`."""
        path = Path(file)
        if path.exists():
            raise InputError("exists already and is kept", str(path), "choose another name")
        self._portal.call(lambda session: session.trace.copy(path))

    @property
    def trace_sha256(self) -> str:
        """The hash of all events so far: equal hashes mean equal runs."""
        return self._portal.call(lambda session: session.trace.sha256())

    def __repr__(self) -> str:
        if not self._portal.open:
            return f"<a closed lab, seed {self._seed}>"
        return f"<lab, seed {self._seed}, {self.state()}>"

    def _repr_html_(self) -> str:
        if not self._portal.open:
            return repr(self)
        picture = self.timeline()
        return f"<p>{self.state()}, seed {self._seed}</p>{picture._repr_html_()}"


def _perform(
    kind: StepKind, parameters: dict[str, Any], for_: str | None, step_name: str, session: _Session
) -> str:
    """Plan a step: the last argument is the one that the portal adds."""
    at_us = session.objects_from_us if kind.name == "delete" else 0
    return session.cluster.do.perform(kind, parameters, for_, step_name, at_us=at_us)


def _halt(session: _Session) -> None:
    session.cluster.kernel.halt()


def _end(portal: Portal[_Session], folder: tempfile.TemporaryDirectory[str]) -> None:
    portal.close()
    folder.cleanup()


def _duration_us(text: str) -> int:
    try:
        found = parse_duration_us(text)
    except (ValueError, TypeError):
        raise InputError(f"{text!r} is not a duration", "", "write it as 90s, 5m or 1h30m") from None
    if found < 0:
        raise InputError(f"the duration {text} is negative")
    return found


def _manifests(given: Mapping[str, Any] | str | Path) -> list[Mapping[str, Any]]:
    if isinstance(given, Mapping):
        return [given]
    return [document.value for document in read_documents(Path(given))]


def _plain_plan(
    nodes: int, zones: Sequence[str], objects: Sequence[Mapping[str, Any]], cluster: Mapping[str, Any]
) -> Plan:
    """The plan of equal nodes and some objects, with the checks of a scenario file."""
    group: dict[str, Any] = {"count": nodes}
    if zones:
        group["zones"] = list(zones)
    spec = {
        "duration": FOREVER,
        "cluster": {**({"nodes": [group]} if nodes else {}), **cluster},
        "objects": [dict(obj) for obj in objects],
    }
    head = {"apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "lab"}}
    try:
        return compile_plan(Document("", {**head, "spec": spec}), Path())
    except InputError as error:
        raise InputError(error.message, "", error.remedy) from None
