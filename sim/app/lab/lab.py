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
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sim.api.objects import labels_of, name_of
from sim.app.lab import frames
from sim.app.lab.copied import CopiedPortal
from sim.app.lab.keywords import suggests_keywords
from sim.app.lab.portal import Portal
from sim.app.lab.session import Session, carried_out
from sim.app.lab.shown import Picture, State, Story
from sim.app.lab.widget import cluster_widget
from sim.app.parts.resting import Rest
from sim.app.reference.shipped import scenario_path
from sim.app.steps import entry_of, step_method
from sim.check.monitors.quiet import QUIET_DEFAULT
from sim.client import DEFAULT_QPS, Client
from sim.errors import InputError, suggestion
from sim.faults.shared.kinds import StepKind
from sim.ident import NAMES
from sim.kernel import NEVER_US
from sim.report.charts.run import run_chart
from sim.scenario.actions import KINDS
from sim.scenario.compile import compile_plan, load
from sim.scenario.plan.plan import Plan
from sim.scenario.read.settings import settled
from sim.scenario.read.source import Document, read_documents
from sim.scenario.read.variants import variant_settings
from sim.units import SECOND, format_duration, parse_duration_us

if TYPE_CHECKING:
    import polars

    from sim.app.lab.connected import ConnectedLab

Obj = dict[str, Any]
FOREVER = "100000h"  # the length of a run without a plan


class Program:
    """A program of the user that runs in a lab.

    act: carries out an action in the lab and notes it
    """

    def __init__(self, name: str, act: Callable[[Callable[[Session], Any]], Any]) -> None:
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


@suggests_keywords
class Lab:
    """A cluster in a notebook or at the prompt.

    nodes, zones: equal nodes, and the zones over which they are distributed in turn
    scenario: a scenario file, or the name of one that comes along, instead of nodes and objects:
        its cluster, objects and timeline; its expectations are not judged
    variant: of the scenario, by its name
    objects: manifests that are applied at the start
    seed: of all randomness; the default is the scenario's, or 0
    cluster: more of the section `cluster` of a scenario, in its spelling
    checkpoints: how often, in virtual time, a copy is kept for `at`; "" for never
    Raises InputError for what a scenario file could not say either.
    """

    def __init__(
        self,
        nodes: int = 0,
        *,
        zones: Sequence[str] = (),
        seed: int | None = None,
        scenario: str | Path | None = None,
        variant: str = "",
        objects: Sequence[Mapping[str, Any]] = (),
        naming: str = "kubernetes",
        boot: str = "10s",
        established: bool = False,
        cluster: Mapping[str, Any] | None = None,
        checkpoints: str = "",
    ) -> None:
        if scenario is not None:
            if nodes or zones or objects or cluster or established:
                raise InputError("a lab has either a scenario, or nodes and objects", "", "leave one out")
            path = scenario_path(Path(scenario))
            plan, entry = load(path, (), variant), read_documents(path)[0]
            document = settled(entry, variant_settings(entry, variant)).value
        elif variant:
            raise InputError(
                "a lab without a scenario has no variants", f"variant={variant!r}", "name a scenario"
            )
        else:
            document = _plain_document(nodes, zones, objects, {
                "naming": naming, "boot": boot, "established": established, **(cluster or {}),
            })  # fmt: skip
            plan = _planned(document)
        every_us = _duration_us(checkpoints) if checkpoints else 0
        self._begin(plan, plan.seed if seed is None else seed, document, every_us)

    def _begin(self, plan: Plan, seed: int, document: Mapping[str, Any], every_us: int = 0) -> None:
        self._plan, self._seed, self._document = plan, seed, document
        self._programs: dict[str, Callable[[Client], Awaitable[object]]] = {}
        self._steps: list[Mapping[str, Any]] = []  # what was done by hand, as in a timeline
        # Actions, and the instants to which time was run.
        self._journal: list[Callable[[Session], Any] | int] = []
        folder = tempfile.TemporaryDirectory(prefix="orrery-lab-", ignore_cleanup_errors=True)
        session = partial(Session, plan, seed, Path(folder.name), every_us)
        self._portal: Portal[Session] | CopiedPortal[Session] = Portal(
            lambda: session().opened(), Session.halt, f"lab of {plan.name}"
        )
        # The last reference, or the end of the interpreter, ends the thread.
        self._folder, self._finalizer = folder, weakref.finalize(self, _end, self._portal, folder)

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
        current = self._moved(lambda session: session.run_until_holds(condition, limit_us))
        end_us = self._portal.call(lambda session: session.now_us)
        return (end_us - start_us) / SECOND if current else None

    def run_until_steady(self, quiet: str = QUIET_DEFAULT, limit: str = "1h") -> Rest:
        """Run until nothing but heartbeats was written for `quiet`; false if `limit` came first.

        The result says how long it took until the last write, or what still changes.
        """
        quiet_us, limit_us = _duration_us(quiet), _duration_us(limit)
        rest: Rest = self._moved(lambda session: session.run_until_steady(quiet_us, limit_us))
        return rest

    def _moved(self, move: Callable[[Session], Any]) -> Any:
        """Carry out a call that moves time, and note how far it came."""
        try:
            return self._portal.call(move)
        finally:
            if self._portal.open:  # an exception of a program ends the lab
                end_us = self._portal.call(lambda session: session.now_us)
                self._journal.append(end_us)

    # --- what a user does, and what goes wrong ----------------------------------------------------

    def apply(self, *objects: Mapping[str, Any] | str | Path) -> None:
        """Create or replace objects: manifests as mappings, or files of them.

        They are applied as soon as time is run and the nodes have booted; `refused` lists what the
        API refuses.
        """
        result = [obj for entry in objects for obj in _manifests(entry)]
        self._done(lambda session: session.apply(result))
        self._note({"apply": {"objects": result}})

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
        if isinstance(self._portal, CopiedPortal):
            self._come_here()
        self._done(lambda session: session.add_program(name, main, qps, burst))
        self._programs[name] = main
        return Program(name, self._done)

    @property
    def refused(self) -> tuple[str, ...]:
        """What the API has refused, and why."""
        return self._portal.call(lambda session: session.cluster.refused)

    def __getattr__(self, name: str) -> Callable[..., str]:
        kind = KINDS.get(name)
        if kind is None or name == "apply":
            entry = [*(one for one in dir(type(self)) if not one.startswith("_")), *KINDS]
            raise AttributeError(f"a lab has no {name!r} {suggestion(name, entry)}".rstrip())

        return step_method(kind, self._act)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *KINDS})

    def _act(self, kind: StepKind, parameters: dict[str, Any], for_: str | None, step_name: str) -> str:
        """Carry out a step; its name."""
        name = str(self._done(partial(_perform, kind, parameters, for_, step_name)))
        self._note(entry_of(kind, parameters, for_, name))
        return name

    def perform_timeline(self, steps: Sequence[Mapping[str, Any]]) -> None:
        """Let steps of a timeline occur, each at its time; they have names."""
        self._done(lambda session: session.cluster.do.perform_timeline(steps))
        self._steps += steps

    def _note(self, step: Mapping[str, Any]) -> None:
        """Note a step that was done now, or will be when the nodes have booted."""
        us = self._portal.call(lambda session: max(session.now_us, session.objects_from_us))
        self._steps.append({"at": format_duration(us), **step})

    def hunt(
        self,
        budget: str = "1m",
        *,
        expect: Sequence[Mapping[str, Any]] = (),
        duration: str = "10m",
        palette: Sequence[Any] = ("faults",),
        seed: int = 0,
        jobs: int | None = None,
        failures: int | None = None,
        folder: str | Path | None = None,
        shrink: bool = True,
    ) -> Any:
        """Look for drawn steps, from now on, after which something fails; the `Hunted` of `hunt`.

        budget: the real time of the search, or its runs, as "100 runs"
        expect: what must hold, as in a scenario, besides invariants that hold without drawn steps
        duration: virtual time of each run after the present instant; its last third is quiet
        palette: the steps that may be drawn, as in the section `hunt` of a scenario
        seed, jobs, failures, folder, shrink: as for `orrery.hunt`

        Each run repeats what was done in the lab, by other processes: raises InputError if a
        program of the lab is no function at the top of a module. Programs run from the start, with
        a client's usual limits, and drawn steps may hit them.
        """
        us = self._portal.call(lambda session: max(session.now_us, session.objects_from_us))
        spec = dict(self._document["spec"])
        spec |= {"seed": self._seed, "duration": format_duration(us + _duration_us(duration))}
        spec["objects"] = [dict(one) for one in self._plan.cluster.established or self._plan.objects]
        spec["timeline"] = [*spec.get("timeline", ()), *self._steps]
        spec["expect"] = list(expect)
        spec["hunt"] = {"from": format_duration(us), "palette": list(palette)}
        hunt = import_module("sim").hunt  # a part above this one
        return hunt(
            {**self._document, "spec": spec},
            budget,
            programs=self._programs,
            seed=seed,
            jobs=jobs,
            failures=failures,
            folder=folder,
            shrink=shrink,
        )

    def _done(self, action: Callable[[Session], Any]) -> Any:
        """Carry out an action and note it; one that raises has no effect and is not noted."""
        whole = partial(carried_out, action)
        result = self._portal.call(whole)
        self._journal.append(whole)
        return result

    def fork(self) -> Lab:
        """An independent copy of the cluster at this instant, to try two futures.

        The copy is a process of its own, made in some milliseconds. A lab with programs of yours,
        and one where no process can be forked, is copied by repeating all that was done so far.
        """
        return self._copy() or self._repeated(self._journal)

    def _copy(self) -> Lab | None:
        """A copy in a process of its own; None if it cannot be made."""
        return None if self._programs else self._twin(self._portal.copied())

    def _twin(self, portal: CopiedPortal[Session] | None) -> Lab | None:
        """The lab of a copy of this process."""
        if portal is None:
            return None
        twin = Lab.__new__(Lab)
        twin._plan, twin._seed, twin._document = self._plan, self._seed, self._document
        twin._programs, twin._portal = {}, portal
        twin._steps, twin._journal = [*self._steps], [*self._journal]
        twin._finalizer = weakref.finalize(twin, _end, portal, None)
        return twin

    def _come_here(self) -> None:
        """Let the cluster of a copy be in this process, where programs of the user run."""
        twin = self._repeated(self._journal)
        self._finalizer()
        self._portal, self._folder = twin._portal, twin._folder
        twin._finalizer.detach()
        self._finalizer = weakref.finalize(self, _end, self._portal, self._folder)

    def at(self, instant: str) -> Lab:
        """An independent copy of the cluster as it was at an instant since the start.

        It continues from the last checkpoint before the instant, or else repeats the run from its
        start.
        """
        at_us, now_us = _duration_us(instant), self._portal.call(lambda session: session.now_us)
        if at_us > now_us:
            raise InputError(f"the lab has come to {format_duration(now_us)}, not to {instant}")
        earlier = [] if isinstance(self._portal, CopiedPortal) else self._portal.call(Session.checkpoints)
        for since_us, checkpoint in reversed(earlier):
            if since_us <= at_us and (twin := self._twin(checkpoint.copied())) is not None:
                twin._journal, twin._steps = self._done_before(since_us), self._steps_until(at_us)
                twin._repeat(self._journal[len(twin._journal) :], at_us)
                return twin
        return self._repeated(self._journal, at_us)

    def _steps_until(self, at_us: int) -> list[Mapping[str, Any]]:
        steps: dict[Any, Mapping[str, Any]] = {}
        for step in self._steps:
            if parse_duration_us(step["at"]) <= at_us if "at" in step else step["after"] in steps:
                steps[step["name"]] = step
        return [*steps.values()]

    def _done_before(self, at_us: int) -> list[Callable[[Session], Any] | int]:
        """What was done before time was run to an instant."""
        later = (n for n, entry in enumerate(self._journal) if isinstance(entry, int) and entry >= at_us)
        return self._journal[: next(later, len(self._journal))]

    def _repeated(self, journal: Sequence[Callable[[Session], Any] | int], until_us: int = NEVER_US) -> Lab:
        """A lab of this one's plan and seed in which what was done is repeated up to an instant."""
        twin = Lab.__new__(Lab)
        twin._begin(self._plan, self._seed, self._document)
        twin._programs, twin._steps = {**self._programs}, self._steps_until(until_us)
        twin._repeat(journal, until_us)
        return twin

    def _repeat(self, journal: Sequence[Callable[[Session], Any] | int], until_us: int) -> None:
        for entry in journal:
            if isinstance(entry, int):
                end_us = min(entry, until_us)
                self._portal.call(_run_to(end_us))
                self._journal.append(end_us)
                if entry > until_us:
                    return
            else:
                self._portal.call(entry)
                self._journal.append(entry)

    # --- looking ----------------------------------------------------------------------------------

    def state(self) -> State:
        """The numbers of nodes and pods now."""
        return self._portal.call(Session.state)

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
        changes, now_us = self._portal.call(lambda session: ([*session.recording.changes], session.now_us))
        return cluster_widget(changes, now_us / SECOND)

    def save_trace(self, file: str | Path) -> None:
        """Write the events so far to a file for `orrery why`, `diff` and `show`."""
        path = Path(file)
        if path.exists():
            raise InputError("exists already and is kept", str(path), "choose another name")
        self._portal.call(lambda session: session.trace.so_far().copy(path))

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
    kind: StepKind, parameters: dict[str, Any], for_: str | None, step_name: str, session: Session
) -> str:
    """Plan a step: the last argument is the one that the portal adds."""
    at_us = session.objects_from_us if kind.name == "delete" else 0
    return session.cluster.do.perform(kind, parameters, for_, step_name, at_us=at_us)


def _run_to(at_us: int) -> Callable[[Session], Any]:
    return lambda session: session.run_until(at_us)


def _end(
    portal: Portal[Session] | CopiedPortal[Session], folder: tempfile.TemporaryDirectory[str] | None
) -> None:
    portal.close()
    if folder is not None:
        folder.cleanup()


def _duration_us(text: str) -> int:
    try:
        result = parse_duration_us(text)
    except (ValueError, TypeError):
        raise InputError(f"{text!r} is not a duration", "", "write it as 90s, 5m or 1h30m") from None
    if result < 0:
        raise InputError(f"the duration {text} is negative")
    return result


def _manifests(given: Mapping[str, Any] | str | Path) -> list[Mapping[str, Any]]:
    if isinstance(given, Mapping):
        return [given]
    return [document.value for document in read_documents(Path(given))]


def _plain_document(
    nodes: int, zones: Sequence[str], objects: Sequence[Mapping[str, Any]], cluster: Mapping[str, Any]
) -> dict[str, Any]:
    """The scenario of equal nodes and some objects."""
    group: dict[str, Any] = {"count": nodes}
    if zones:
        group["zones"] = list(zones)
    spec = {
        "duration": FOREVER,
        "cluster": {**({"nodes": [group]} if nodes else {}), **cluster},
        "objects": [dict(obj) for obj in objects],
    }
    head = {"apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "lab"}}
    return {**head, "spec": spec}


def _planned(document: Mapping[str, Any]) -> Plan:
    """The plan of a lab, with the checks of a scenario file."""
    try:
        return compile_plan(Document("", document), Path())
    except InputError as error:
        raise InputError(error.message, "", error.remedy) from None
