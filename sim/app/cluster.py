"""The composition root: a whole cluster from a plan, and the library's front door.

    async with Cluster(nodes=10) as c:
        c.apply({...})
        await c.run_for("10m")
        c.list("pods")

Makes the kernel, the storage, API servers, controller managers, schedulers and node agents as supervised actors,
and the ways between them.  Everything that a scenario or a test does to a cluster goes through this object.

Holds: actors are added in a fixed order, so the same plan and seed give the same run; objects applied or read here
go through the API servers' request pipeline.
"""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache, partial
from itertools import count as numbers
from itertools import islice
from operator import index as whole
from pathlib import Path
from types import TracebackType
from typing import Any, Self, SupportsIndex

import trio

from actors.apiserver import ApiServer
from actors.apiserver.outside_time import ask
from actors.controllers.manager import controller_manager_main
from actors.controllers.shared.shell import RootCa
from actors.node.agent import node_agent_main
from actors.node.clients import NodeClients
from actors.node.node import Node
from actors.node.runtime.machine import Machine
from actors.node.runtime.profile import ContainerBehaviour, NodeSpec, Rule, RuntimeProfile
from actors.scheduler.actor import scheduler_main
from actors.scheduler.plugins import SchedulerPlugin
from actors.scheduler.plugins.registry import check_added
from actors.storage import Storage
from actors.users import Admin, ApplyAll
from sim.api.crd.served import Latest
from sim.api.objects import is_ready
from sim.api.schema.scheme import Scheme
from sim.api.store import Change
from sim.api.types import BAD_REQUEST, Reply, Request, UserInfo
from sim.app.cloud import Instances
from sim.app.established import Established
from sim.app.faults import NODE_FAULTS, Faults
from sim.app.large_pages import OF_THIS_PROCESS
from sim.app.metrics import MetricsServer, ToldMetrics
from sim.app.options import check_options, machine_capacity, node_agent_options
from sim.app.pod_logs import pod_log
from sim.client import DEFAULT_QPS, Channel, Client
from sim.client.election.elector import holder_of
from sim.errors import InputError, suggestion
from sim.ident import NAMES
from sim.kernel import DEFAULT_EPOCH_US, NEVER_US, Actor, Context, Kernel, Operation, Supervisor, Trace
from sim.kernel import Rule as NetworkRule
from sim.kernel.fast import FastPaths
from sim.report import pod_state
from sim.report.changes import Chronicle
from sim.scenario.plan.compile import NODES_MAX
from sim.scenario.plan.own_kinds import kind_remedy, resource_named
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan, NodePlan
from sim.scenario.read.schema import Runtime
from sim.units import JSON_WHOLE_MAX, SECOND, parse_duration_us
from sim.version import __version__

# A controller manager or scheduler that exits is started again by its node agent after about a second of back-off
# and start-up; on a real control plane a component is healthy some seconds after its start.
RESTART_US = 2 * SECOND
NEVER_FULL = 1 << 30  # collections of young objects before a full one


class Cluster:
    """A running cluster.  Use it as an async context manager; virtual time moves only while it is run.

    Of a plan, or of so many plain nodes, with one naming, and objects whose pods run from the beginning on.  boot: machines
    start at random instants within this time, as a scenario's do; at once, their loops have the same phases under every seed.
    trace: of a file, it is whole when the cluster has ended.  fast: take the fast paths (`FastPaths`); without them the run is
    the same, and slower.
    scheduler_plugins: rules of your own for the choice of nodes (see `actors.scheduler.plugins`).
    """

    def __init__(
        self,
        plan: ClusterPlan | None = None,
        *,
        nodes: int = 0,
        seed: SupportsIndex = 0,
        naming: str = "orch",
        boot: str | int = 0,
        established: Sequence[Mapping[str, Any]] = (),
        trace: Trace | Path | str | None = None,
        epoch_us: int = DEFAULT_EPOCH_US,
        replay: list[Operation] | None = None,
        fast: bool | FastPaths = True,
        scheduler_plugins: Sequence[SchedulerPlugin] = (),
    ) -> None:
        seed = _seed(seed)
        self.scheduler_plugins = check_added(scheduler_plugins)
        if plan is None:
            plan = _plain_plan(nodes, naming, boot, established)
        self.plan = plan
        self.names = NAMES[plan.naming]
        self.options = check_options(plan)
        self.scheme = Scheme(self.names, self.options.off)
        for obj in established:
            self._check_object(obj)
        self._own_trace: Trace | None = None
        if isinstance(trace, Path | str):
            header = {"seed": seed, "version": __version__, "naming": plan.naming}
            try:
                trace = self._own_trace = Trace(Path(trace), header)
            except OSError as error:
                raise InputError(f"cannot be written: {error.strerror}", str(trace)) from None
        self.kernel = Kernel(seed, trace=trace, epoch_us=epoch_us, replay=replay, fast=FastPaths.of(fast))
        self.kernel.after_slice = OF_THIS_PROCESS.look
        if plan.latency_us is not None:
            low, high = plan.latency_us
            self.kernel.network.impose(NetworkRule("latency", None, None, low_us=low, high_us=high))
        self.storage = Storage(self.kernel)
        definitions = Latest()
        self.scheme.more = definitions
        self.storage.store.subscribe(self.scheme.prefix("customresourcedefinitions"), definitions.see)
        Chronicle(self.kernel, self.scheme, self.storage.store.subscribe)
        self.api_servers: dict[str, ApiServer] = {}
        self.nodes: dict[str, Node] = {}
        self.faults = Faults(self)
        self.told = ToldMetrics()
        self.root_ca = RootCa()
        self.kernel.gate.handle("root-ca", self._root_ca_given)
        self.admin_user = UserInfo("admin", (self.names.group_masters, self.names.group_authenticated))
        self.admin = Admin(self.kernel, self.scheme, self.names, self._admin_client)
        self.node_clients = NodeClients(self.scheme, self.names, self.connect)
        # Who is to boot when what runs already has been brought up (None: there is nothing to wait for).
        self._held: list[tuple[str, Callable[[], None]]] | None = [] if plan.established else None
        self._made = 0
        self._alive = False

    # --- life ---------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._life = self._live()
        await self._life.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> bool | None:
        try:
            return await self._life.__aexit__(kind, error, tb)
        except BaseExceptionGroup as group:
            if group.exceptions != (error,):
                raise
            return False  # who used the cluster raised it: a test's assertion is to be seen as itself
        finally:
            if self._own_trace is not None:
                self._own_trace.close()

    @asynccontextmanager
    async def _live(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            try:
                self.supervisor = Supervisor(self.kernel, nursery)
                self.supervisor.on_start = self.faults.started
                self._start()
                nursery.start_soon(self.kernel.run)
                self._alive = True
                yield
            finally:
                self._alive = False
                self.kernel.stop()
                nursery.cancel_scope.cancel()

    def _start(self) -> None:
        supervisor, plan = self.supervisor, self.plan
        shared = ["storage", *(f"apiserver-{index}" for index in range(plan.api_server.replicas))]
        standing = self.kernel.standing
        standing.shared, standing.doors = dict.fromkeys(shared), dict.fromkeys(shared[1:])
        supervisor.add("storage", self.storage.main)
        for index in range(plan.api_server.replicas):
            name = f"apiserver-{index}"
            address = f"172.16.250.{index + 1}"  # no node has it: see node_spec
            server = ApiServer(
                name, self.kernel, self.storage, self.scheme, self.options.api_server, address=address
            )
            server.log = partial(pod_log, self.nodes, self.options.nodes)
            self.api_servers[name] = server
            supervisor.add(name, server.main)
        supervisor.add("admin", self.admin.main)
        self._add_replicas("controller-manager", plan.controller_manager, self.manager_main)
        self._add_replicas("scheduler", plan.scheduler, self._scheduler_main)
        for node in plan.nodes:
            self.add_node(node)
        if plan.established:
            Established(self, self._boot_held).begin()

    def _boot_held(self) -> None:
        held, self._held = self._held, None
        for name, start in held or ():
            self._boot(name, start)

    def _add_replicas(
        self, name: str, component: ComponentPlan, main: Callable[[], Callable[[Context], Any]]
    ) -> None:
        for index in range(component.replicas):
            actor = self.supervisor.add(f"{name}-{index}", main(), restart_us=RESTART_US, start=False)
            self._boot(actor.name, actor.start)

    def _boot(self, name: str, start: Callable[[], None]) -> None:
        """Start a machine: at once, or at a random instant of the plan's time for it."""
        actor = self.supervisor[name]
        actor.to_boot = True

        def boot(_: object = None) -> None:
            actor.to_boot = False
            start()

        if self._held is not None:
            self._held.append((name, start))
        elif not self.plan.boot_us or self.kernel.now_us:
            boot()
        else:
            self.kernel.call_at(self.kernel.stream(f"boot/{name}").randrange(self.plan.boot_us), boot)

    def _root_ca_given(self, pem: str, done: Callable[[None], None]) -> None:
        """The cluster is served under this certificate authority from now on."""
        self.root_ca.pem = pem
        done(None)

    def manager_main(self) -> Callable[[Context], Any]:
        """What runs in a controller manager's process."""
        metrics = (
            MetricsServer(self.kernel, self.nodes, self.told, self.scheme) if self.plan.metrics else None
        )
        return controller_manager_main(
            self.scheme,
            self.connect,
            self.options.controller_manager,
            root_ca=self.root_ca,
            metrics=metrics,
            cloud=Instances(self),
        )

    def _scheduler_main(self) -> Callable[[Context], Any]:
        return scheduler_main(
            self.options.scheduler, self.scheme, self.names, self.connect, self.scheduler_plugins
        )

    def node_spec(self, plan: NodePlan) -> NodeSpec:
        """The machine that a plan describes."""
        labels = dict(plan.labels)
        if plan.zone:
            labels[self.names.label_zone] = plan.zone
        if plan.region:
            labels[self.names.label_region] = plan.region
        self._made += 1
        number = self._made
        return NodeSpec(
            plan.name,
            labels=labels,
            zone=plan.zone,
            region=plan.region,
            address=f"172.{16 + number // 62500}.{number // 250 % 250}.{number % 250 + 1}",
            pod_cidr=f"10.{128 + number // 256 % 128}.{number % 256}.0/24",
            capacity=machine_capacity(plan),
            taints=plan.taints,
            static_pods=plan.static_pods,
            profile=profile_of(plan.runtime),
            lease_jitter=plan.lease_jitter,
        )

    def add_node(self, plan: NodePlan) -> Node:
        """Add a node: its machine, and its agent, which registers it."""
        machine = Machine(self.node_spec(plan))
        options = self.options.nodes.get(plan.name)
        if options is None:  # added later than the plan
            options = self.options.nodes[plan.name] = node_agent_options(plan, self.names)
        main = node_agent_main(machine, self.node_clients, options, self.names)
        actor = self.supervisor.add(plan.name, main, start=False)
        node = self.nodes[plan.name] = Node(self.kernel, machine, actor)
        self._boot(plan.name, node.start_agent)
        return node

    def add_program(
        self,
        name: str,
        main: Callable[[Client], Awaitable[object]],
        *,
        qps: float = DEFAULT_QPS,
        burst: int = 10,
    ) -> Actor:
        """Run a program of your own, a controller say, as a process of the cluster, in its time.

        It is an administrator of its own name.  What it raises is raised by whoever runs the cluster.  The actor can be
        crashed, started again (anew: what it remembered is gone), paused and resumed.  Who asks for objects of a definition
        that is not established yet gets a `NoResource` (sim.api.schema.scheme), a KeyError that one may catch to wait.
        """
        if name in self.supervisor.actors:
            raise InputError(f"there is a process {name!r}", "", "give it another name")
        user = UserInfo(name, (self.names.group_masters, self.names.group_authenticated))

        async def run(ctx: Context) -> None:
            await main(Client(ctx, self.scheme, self.connect(ctx), user, qps=qps, burst=burst, agent=name))

        actor = self.supervisor.add(name, run, restart_us=RESTART_US, start=False)
        self._boot(name, actor.start)
        return actor

    def connect(self, ctx: Context) -> list[Channel]:
        """Ways from an actor to every API server, its own first (they share a host) or spread by name."""
        servers = list(self.api_servers)
        tail = ctx.name.rsplit("-", 1)[-1]
        start = int(tail) % len(servers) if tail.isdigit() else 0
        order = servers[start:] + servers[:start]
        return [Channel(ctx, ctx.name, self.api_servers, target) for target in order]

    def _admin_client(self, ctx: Context) -> Client:
        return Client(ctx, self.scheme, self.connect(ctx), self.admin_user, qps=0, burst=0, agent="orrery")

    # --- time ---------------------------------------------------------------------------------------------

    async def run_for(self, duration: str | int) -> None:
        """Let that much virtual time pass ("10m", or microseconds)."""
        await self.run_until(self.kernel.now_us + _us(duration))

    async def run_until(self, at: str | int) -> None:
        """Run up to an instant since the start of the run.  DeadlockError if nothing is left that could happen."""
        until_us = _us(at)
        if not self._alive:
            raise InputError("the cluster does not run", "", "use it within: async with Cluster(...) as c")
        await self.kernel.run_until(until_us)
        self.kernel.check_deadlock()

    async def run_while(
        self, going: Callable[[], bool], limit: str | int = "1h", step: str | int = "1s"
    ) -> bool:
        """Run on while `going()` is true, looked at each `step`; False if the limit came first."""
        end_us = self.kernel.now_us + _us(limit)
        while going():
            if self.kernel.now_us >= end_us:
                return False
            await self.run_for(step)
        return True

    # --- objects ------------------------------------------------------------------------------------------

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Have the admin create or replace objects, one after the other, from now on.

        InputError for what is no object; what the API then refuses is in `refused`.
        """
        for obj in objects:
            self._check_object(obj)
        self.hand_in(objects)

    def hand_in(self, objects: Sequence[Mapping[str, Any]]) -> None:
        """As `apply`, of what is checked or may be refused: that is told in `refused`."""
        if objects:
            self.kernel.cause = 0  # a person's wish: nothing in the run led to it
            self.admin.do(ApplyAll(tuple(objects)))
            self.kernel.kick()

    def _check_object(self, obj: Mapping[str, Any]) -> None:
        """InputError for what no server would take for an object of a kind that there is, or may be soon."""
        if not isinstance(obj, Mapping):
            raise InputError(f"an object is a mapping, not {obj!r:.40}")
        for field in ("apiVersion", "kind"):
            if not isinstance(obj.get(field), str):
                raise InputError(f"the object has no {field}")
        metadata = obj.get("metadata")
        if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str):
            raise InputError(f"the {obj['kind']} has no metadata.name")
        version, kinds = obj["apiVersion"], self.scheme.resources
        group = version.rpartition("/")[0]
        if self.scheme.by_kind(version, obj["kind"]) is None and any(one.group == group for one in kinds):
            remedy = kind_remedy(self.scheme, obj["kind"])
            raise InputError(f"there is no kind {obj['kind']} in {version}", "", remedy)

    @property
    def refused(self) -> tuple[str, ...]:
        """What was asked of the admin and came to nothing, and why."""
        return tuple(self.admin.refused)

    def request(self, verb: str, resource: str, namespace: str = "", name: str = "", **more: Any) -> Reply:
        """Ask an API server as the administrator and get the reply at once, at this instant."""
        known = resource_named(self.scheme, resource)
        request = Request(
            verb=verb,
            resource=known.plural,
            group=known.group,
            version=known.version,
            namespace=namespace,
            name=name,
            user=self.admin_user,
            manager="orrery",
            **more,
        )
        return ask(self._server(), request)

    def _server(self) -> ApiServer:
        for server in self.api_servers.values():
            if server.running:
                return server
        raise RuntimeError("no API server is running")

    def list(self, resource: str, namespace: str = "", selector: str = "") -> list[dict[str, Any]]:
        """Objects of a resource as they are stored now."""
        options = {"labelSelector": selector} if selector else {}
        reply = self.request("list", resource, namespace, options=options)
        if reply.code == BAD_REQUEST:
            raise InputError(reply.message)
        if not reply.ok:
            raise RuntimeError(reply.message)
        return [item.obj for item in reply.items or ()]

    def get(self, resource: str, name: str, namespace: str = "default") -> dict[str, Any] | None:
        """One object as it is stored now; None if there is none."""
        known = resource_named(self.scheme, resource)
        reply = self.request("get", resource, namespace if known.namespaced else "", name)
        return reply.obj if reply.ok else None

    def observe(
        self, see: Callable[[Change], None], resources: Sequence[str] | None = None
    ) -> Callable[[], None]:
        """Call `see` at every commit (an omniscient observer, outside the simulation), or those of some resources.

        resources: plurals, with "/NAMESPACE" of one namespace only
        """
        store = self.storage.store
        if resources is None:
            return store.subscribe("", see)
        prefixes = dict[str, None]()
        for plural, _, namespace in (text.partition("/") for text in resources):
            resource_named(self.scheme, plural)  # there is one
            inside = f"{namespace}/" if namespace else ""
            prefixes.update(
                (f"{r.prefix}{inside}", None) for r in self.scheme.resources if r.plural == plural
            )
        parts = [store.subscribe(prefix, see) for prefix in prefixes]

        def cancel() -> None:
            for part in parts:
                part()

        return cancel

    def counts(self) -> dict[str, int]:
        """Nodes, nodes ready, pods, pods running (see `pod_state`): for a progress display."""
        store = self.storage.store
        nodes = store.bucket(self.scheme.resource("nodes").prefix).items
        pods = store.bucket(self.scheme.resource("pods").prefix).items
        ready = sum(is_ready(item.obj) for item in nodes.values())
        running = sum(pod_state(item) == "running" for item in pods.values())
        return {"nodes": len(nodes), "ready": ready, "pods": len(pods), "running": running}

    # --- faults -------------------------------------------------------------------------------------------

    def fail_node(self, name: str, how: str) -> None:
        """One of `sim.app.faults.NODE_FAULTS`: power-loss, shutdown, hang, network-cut, agent-crash, …"""
        if how not in NODE_FAULTS:
            raise InputError(f"no node fails by {how!r}", "", f"one of: {', '.join(NODE_FAULTS)}")
        self.faults.fail("", self._node_named(name), how)

    def heal_node(self, name: str) -> None:
        """End whatever befell a node."""
        self.faults.heal(self._node_named(name))

    def _node_named(self, name: str) -> str:
        if name not in self.nodes:
            remedy = suggestion(name, self.nodes, f"there are {len(self.nodes)} nodes")
            raise InputError(f"there is no node {name!r}", "", remedy)
        return name

    def actor_named(self, name: str) -> str:
        """An actor's name; "controller-manager-leader" and "scheduler-leader" are whoever leads now."""
        if not name.endswith("-leader"):
            return name
        part = name.removesuffix("-leader")
        # not by a request: the lease can be read whether or not anybody serves it
        key = self.scheme.key("leases", self.names.system_namespace, self.names.component(part))
        lease = self.storage.store.get(key)
        found = "" if lease is None else holder_of(lease.obj["spec"]).split("_")[0]
        return found if found in self.supervisor.actors else f"{part}-0"

    def drop_watches(self, resource: str, client: str) -> None:
        """Break watches off ("": of every resource, every client)."""
        for server in self.api_servers.values():
            server.drop_watches(resource, client)

    def compact(self, keep_us: int = 0) -> None:
        """Forget all history but that of the latest time."""
        store = self.storage.store
        store.compact(store.revision_at(self.kernel.now_us - keep_us))


@contextmanager
def no_collection() -> Iterator[None]:
    """Let the cyclic garbage collector rest while a simulation runs.

    What a cluster keeps (objects, history) is acyclic, and a running one leaves no cycles at all
    (`tests/cluster/faults/test_garbage.py`): only a process that dies does, and that stays until the end.  To look through each
    object once took 4 % of a run's time, again and again a fifth.
    """
    before = gc.isenabled()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if before:
            gc.enable()


@contextmanager
def young_collections() -> Iterator[None]:
    """Let the cyclic garbage collector look at young objects only while a cluster is served.

    A full collection looks at each object of the cluster: 280 to 480 ms every few seconds with 4,000 pods.  Neither a
    cluster nor a request leaves cycles (`tests/cluster/faults/test_garbage.py`); those of a library are mostly found young.
    """
    before = gc.get_threshold()
    gc.set_threshold(before[0], before[1], NEVER_FULL)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _plain_plan(
    nodes: int, naming: str, boot: str | int, established: Sequence[Mapping[str, Any]]
) -> ClusterPlan:
    """What the library is asked for without a plan.  Raises InputError."""
    if not isinstance(nodes, int) or not 0 <= nodes <= NODES_MAX:
        raise InputError(f"{nodes!r} is no number of nodes from 0 to {NODES_MAX}")
    if naming not in NAMES:
        raise InputError(f"there is no naming {naming!r}", "", f"one of: {', '.join(NAMES)}")
    return ClusterPlan(
        naming=naming, nodes=plain_nodes(nodes), boot_us=_us(boot), established=tuple(established)
    )


def plain_nodes(count: int, taken: Container[str] = ()) -> tuple[NodePlan, ...]:
    """That many equal nodes, node-0 and on, but for names that are taken."""
    names = (name for n in numbers() if (name := f"node-{n}") not in taken)
    capacity = {"cpu": "8", "memory": "32Gi"}
    flags: dict[str, Any] = {}
    return tuple(NodePlan(name, "", "", capacity, {}, (), Runtime(), flags) for name in islice(names, count))


def profile_of(runtime: Runtime) -> RuntimeProfile:
    """A scenario's runtime settings as the node agent's profile: one for all nodes that have the same."""
    return _profile(runtime.image_pull, runtime.start, runtime.exit_after, runtime.exit_code)


@lru_cache(maxsize=64)
def _profile(image_pull: str, start: str, exit_after: str | None, exit_code: int) -> RuntimeProfile:
    pull_us, start_us = parse_duration_us(image_pull), parse_duration_us(start)
    rules: tuple[Rule, ...] = ()
    if exit_after is not None:
        rules = (Rule(ContainerBehaviour(exit_after_us=parse_duration_us(exit_after), exit_code=exit_code)),)
    return RuntimeProfile(start_us=start_us, warm=not pull_us, pull_us=pull_us, rules=rules)


def _seed(seed: SupportsIndex) -> int:
    """A seed, of whatever kind of whole number.  Raises InputError."""
    if isinstance(seed, SupportsIndex) and not isinstance(seed, bool) and 0 <= whole(seed) <= JSON_WHOLE_MAX:
        return whole(seed)
    raise InputError(f"{seed!r} is no seed", "", "a whole number from 0 to 2^53 - 1")


def _us(duration: str | int) -> int:
    """Microseconds of "10m", or so many.  Raises InputError."""
    try:
        found = duration if isinstance(duration, int) else parse_duration_us(duration)
    except (TypeError, ValueError):
        found = -1
    if found < 0:
        raise InputError(
            f"{duration!r} is no duration", "", "write it as 90s, 5m or 1h30m, or as microseconds"
        )
    return found


__all__ = ["NEVER_US", "Cluster", "no_collection", "plain_nodes", "profile_of", "young_collections"]
