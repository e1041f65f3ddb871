"""The composition root: a whole cluster from a plan, and the library's class `Cluster`.

    async with Cluster(nodes=10) as c:
        c.apply({...})
        await c.run_for("10m")
        c.list("pods")

Makes the kernel, the storage, API servers, controller managers, schedulers and node agents as
supervised actors, and the channels between them. Scenarios and tests act on a cluster through this
object.

Holds: actors are added in a fixed order, so the same plan and seed give the same run; objects that
    are applied or read here go through the request pipeline of the API servers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, SupportsIndex

import trio

from actors.apiserver.outside_time import ask
from actors.node.runtime.profile import NodeSpec, Override
from actors.storage import Storage
from actors.users import Admin, ApplyAll
from sim.api.audit.settings import LogSettings
from sim.api.auth.users import user_named
from sim.api.crd.served import Latest
from sim.api.scheme.scheme import Scheme
from sim.api.types import BAD_REQUEST, Endpoint, Reply, Request, UserInfo, Verb
from sim.api.verbs.call import Identities
from sim.app.agents.certificates import CertificateFiles
from sim.app.agents.logs import logs_in
from sim.app.audit.outputs import AuditOutputs
from sim.app.audit.posting import Posting
from sim.app.cloud import SimulatedCloud
from sim.app.metrics import Sharing, StatedMetrics
from sim.app.options import check_options, files_of, node_agent_options
from sim.app.parts.adoption import Adoption
from sim.app.parts.api_services import ApiHandle, ApiPrograms, ServeApi
from sim.app.parts.boots import Boots
from sim.app.parts.changes import Chronicle
from sim.app.parts.control_plane import ControlPlane
from sim.app.parts.credentials import accept_credentials, published_authority
from sim.app.parts.given import check_object, checked_plugins, node_spec
from sim.app.parts.machine_watch import MachineWatch
from sim.app.parts.observers import present, subscribed
from sim.app.parts.overview import counted, named, overview
from sim.app.parts.pod_network import PodNetwork
from sim.app.parts.refused_leases import refused_leases
from sim.app.parts.resting import until_steady
from sim.app.parts.signing import SigningAuthorities
from sim.app.parts.storage import add_drivers
from sim.app.parts.traffic import traffic_of
from sim.app.parts.webhooks import Convert, Decide, converting
from sim.app.plain_plan import checked_seed, checked_us, plain_plan
from sim.app.process.large_pages import OF_THIS_PROCESS
from sim.app.steps import Steps
from sim.client import DEFAULT_QPS, Channel, Client
from sim.client.election.record import holder_of
from sim.errors import InputError, suggestion
from sim.faults import ASPECTS
from sim.faults.machines.fail import WAYS, fail_node
from sim.faults.shared.ledger import Ledger
from sim.faults.shared.processes import process_started
from sim.ident import NAMES
from sim.kernel import DEFAULT_EPOCH_US, Actor, Context, Kernel, Operation, Supervisor, Trace
from sim.kernel.fast import PLAIN, FastPaths
from sim.options.apiserver.audit import WEBHOOK as AUDIT_WEBHOOK
from sim.options.features.gates import OPENAPI_ENUMS, is_on
from sim.options.storage_drivers import StorageDrivers
from sim.scenario.plan.components import first_objects
from sim.scenario.plan.own_kinds import resource_named
from sim.units import SECOND, Virtual, Wall
from sim.version import __version__
from sim.wire.clients import Clients
from sim.wire.patience import Deadline

if TYPE_CHECKING:
    from actors.apiserver.authorization import Authorization
    from actors.apiserver.server import ApiServer
    from actors.node.node import Node
    from actors.scheduler.plugins import SchedulerPlugin
    from sim.api.store import Change, Item
    from sim.app.measured.components import ComponentMetrics
    from sim.scenario.plan.plan import ClusterPlan, ComponentPlan, NodePlan
    from sim.wire.outside.receiver import Receiver

# The node agent restarts a controller manager or scheduler that exits after about a second of
# back-off and start-up; a real component is healthy some seconds after its start.
RESTART_US = 2 * SECOND
AGENT_RESTART_US = 10 * SECOND  # kubeadm's unit of systemd: RestartSec


class Cluster:
    """A running cluster, an async context manager; only `run_*` advance virtual time.

    plan: the cluster of a scenario; without it the parameters nodes, naming, boot, established and
        storage describe a cluster of equal nodes
    boot: machines boot at random instants within this time; 0 boots all of them at once, so that
        their loops have the same phases under every seed
    established: objects that run already when the run begins
    storage: storage drivers, each as in `cluster.storage` of a scenario
    trace: a trace, or the path of its file, which is complete when the cluster has ended
    epoch_us: Unix time at which virtual time begins
    replay: operations from outside to repeat
    fast: the fast paths to take (`FastPaths`); without them the run is the same, and slower
    scheduler_plugins: rules of your own for the choice of nodes (see `actors.scheduler.plugins`)
    audited: False drops the events of the audit that the options ask for
    replaces_log: True replaces a file that is in the place of the audit log
    agent_logs: a folder for what node agents log, as their options say
    profile: "envtest" for an API server alone, as the envtest of controller-runtime has it

    Size: each attribute is a part of the cluster that is made once, in an order on which the run
    depends; programs of users and faults reach two thirds of them by these names.
    """

    supervisor: Supervisor
    container_override = staticmethod(Override)

    def __init__(
        self,
        plan: ClusterPlan | None = None,
        *,
        nodes: int = 0,
        seed: SupportsIndex = 0,
        naming: str = "orch",
        boot: str | int = 0,
        established: Sequence[Mapping[str, Any]] = (),
        storage: Sequence[Mapping[str, Any]] = (),
        trace: Trace | Path | str | None = None,
        epoch_us: Wall = DEFAULT_EPOCH_US,
        replay: list[Operation] | None = None,
        fast: bool | FastPaths = True,
        scheduler_plugins: Sequence[SchedulerPlugin] = (),
        audited: bool = True,
        replaces_log: bool = False,
        profile: str = "",
        agent_logs: Path | str | None = None,
    ) -> None:
        seed = checked_seed(seed)
        self.scheduler_plugins = checked_plugins(scheduler_plugins)
        if plan is None:
            plan = plain_plan(nodes, naming, boot, established, storage, profile)
        self.plan = plan
        self.names = NAMES[plan.naming]
        self.options = check_options(plan)
        self.audit: AuditOutputs | None = None
        self.audit_settings = self.options.api_server.audit
        self._agent_logs = logs_in(agent_logs, force=replaces_log)
        self._log_use = audited, replaces_log
        self.scheme = Scheme(
            self.names, self.options.off, enums=is_on(self.options.api_server.gates, OPENAPI_ENUMS)
        )
        for obj in established:
            check_object(self.scheme, obj)
        self._own_trace: Trace | None = None
        if isinstance(trace, Path | str):
            header = {"seed": seed, "version": __version__, "naming": plan.naming}
            try:
                trace = self._own_trace = Trace(Path(trace), header)
            except OSError as error:
                raise InputError(f"cannot be written: {error.strerror}", str(trace)) from None
        noted = self.audit_settings is not None or self.options.api_server.asks  # fast paths omit
        fast = PLAIN if noted else FastPaths.of(fast)
        self.kernel = Kernel(seed, trace=trace, epoch_us=epoch_us, replay=replay, fast=fast)
        self.kernel.after_slice = OF_THIS_PROCESS.look
        self.clients = Clients(self.kernel)
        self.kernel.network.arrange(plan.arrivals, plan.latency_us)
        self.storage = self.make_storage()
        self._follow_definitions()
        elections = self.options.election_leases.values()
        namespaces = sorted({self.names.system_namespace, *(namespace for namespace, _ in elections)})
        Chronicle(self.kernel, self.scheme, self.storage.store.subscribe, namespaces)
        self.api_servers: dict[str, ApiServer] = {}
        self.nodes: dict[str, Node] = {}
        self.disks: dict[str, Any] = {}  # the files of persistent volumes, which nodes share
        self.storage_drivers = StorageDrivers(one.driver for one in plan.storage)
        self.faults = Ledger(self, ASPECTS)
        self.stated_metrics = StatedMetrics()
        self._sharing = Sharing(self.storage.store, self.scheme)
        self._take_in_outside()
        self.admin_user = UserInfo("admin", (self.names.group_masters, self.names.group_authenticated))
        self.admin = Admin(self.kernel, self.scheme, self.names, self.connect, self.admin_user)
        self._boots = Boots(self.kernel, plan.boot_us, is_held=bool(plan.established))
        self._made, self._alive = 0, False
        self._refused_leases: list[str] = []
        self.machine_watch = MachineWatch(self.kernel, self.nodes, self.faults)
        self._plane = ControlPlane(self)
        self._adoption = None if plan.adoption is None else Adoption(self, plan.adoption)

    def make_storage(self) -> Storage:
        """The storage process.  Subclasses may have another one."""
        return Storage(self.kernel)

    def _take_in_outside(self) -> None:
        """Make what is outside of the processes: the cloud, authorities and keys."""
        manager = self.options.controller_manager
        self.cloud = SimulatedCloud(self.faults, self.nodes, manager.cloud_settings)
        self.root_ca = published_authority(manager.root_ca_file, files_of(self.plan.controller_manager))
        self.signing = SigningAuthorities(self.kernel, self.names)
        self.identities = Identities(self.options.tokens)
        self.files = CertificateFiles(self.kernel, self.plan.certificates, self.nodes, self.api_servers)
        self.certify = self.files.issue
        accept_credentials(self.kernel, self.root_ca, self.identities, self.api_servers)

    def _follow_definitions(self) -> None:
        """Let the scheme know the kinds that are defined during the run."""
        definitions = Latest()
        self.scheme.more = definitions
        self.storage.store.subscribe(self.scheme.prefix("customresourcedefinitions"), definitions.see)

    # --- life -------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self.audit_settings is not None:
            audited, replaces_log = self._log_use
            self.audit = AuditOutputs(
                self.audit_settings.log if audited else LogSettings(), force=replaces_log
            )
            receiver = self.receivers.get(AUDIT_WEBHOOK)
            if receiver is not None:
                webhook = self.audit_settings.webhook
                self.audit.posting = Posting(self.kernel, webhook, self.names, receiver.url)
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
            return False  # the error of the caller is raised as itself, as a failed assertion
        finally:
            if self._own_trace is not None:
                self._own_trace.close()

    @asynccontextmanager
    async def _live(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            try:
                self.supervisor = Supervisor(self.kernel, nursery)
                self.supervisor.on_start = partial(process_started, self.faults)
                self._refused_leases = refused_leases(self.kernel)
                self._start()
                nursery.start_soon(self.kernel.run)
                self._alive = True
                yield
            finally:
                self._alive = False
                self._close_audit()
                self.kernel.stop()
                nursery.cancel_scope.cancel()

    def _close_audit(self) -> None:
        """Write the events that wait, and close the log."""
        for server in self.api_servers.values():
            if server.life is not None and server.life.audit is not None:
                server.life.audit.flush()
        if self.audit is not None:
            self.audit.close()

    def _start(self) -> None:
        supervisor, plan = self.supervisor, self.plan
        shared = ["storage", *(f"apiserver-{index}" for index in range(plan.api_server.replicas))]
        standing = self.kernel.standing
        standing.shared, standing.doors = dict.fromkeys(shared), dict.fromkeys(shared[1:])
        supervisor.add("storage", self.storage.main)
        for index in range(plan.api_server.replicas):
            server = self.api_server(index)
            self.api_servers[server.name] = server
            supervisor.add(server.name, server.main)
        supervisor.add("admin", self.admin.main)
        self._add_replicas("controller-manager", plan.controller_manager, self.manager_main)
        for name, part in (("scheduler", plan.scheduler), *plan.schedulers.items()):
            self._add_replicas(name, part, partial(self._plane.scheduler_main, name))
        for process in add_drivers(self):
            self._boots.add(process, process.start)
        for node in plan.nodes:
            self.add_node(node)
        if self._adoption is not None:
            self.storage.store.subscribe(self.scheme.prefix("nodes"), self._adoption.see)
        self.hand_in(first_objects(plan, self.names))
        if plan.established:
            from sim.app.established import Established

            Established(self, self._boots.release).begin()

    def api_server(self, index: int) -> ApiServer:
        """One of the API servers.  Subclasses may connect it otherwise."""
        address = f"172.16.250.{index + 1}"  # no node has this address: see node_spec
        return self._plane.api_server(f"apiserver-{index}", address)

    def manager_main(self) -> Callable[[Context], Any]:
        """The main function of a controller manager.  Subclasses may add controllers."""
        return self._plane.manager_main()

    def _add_replicas(
        self, name: str, component: ComponentPlan, main: Callable[[], Callable[[Context], Any]]
    ) -> None:
        for index in range(component.replicas):
            actor = self.supervisor.add(f"{name}-{index}", main(), restart_us=RESTART_US, start=False)
            self._boots.add(actor, actor.start)

    def node_spec(self, plan: NodePlan) -> NodeSpec:
        """The machine that a plan describes."""
        self._made += 1
        spec = node_spec(self.names, plan, self._made)
        return replace(spec, pod_cidr=None) if self.options.controller_manager.gives_ranges else spec

    def add_node(self, plan: NodePlan) -> Node:
        """Add a node: its machine, and its agent, which registers it."""
        from actors.node.agent import node_agent_main
        from actors.node.node import Node
        from actors.node.runtime.machine import Machine

        machine = Machine(self.node_spec(plan))
        machine.disks = self.disks
        machine.sharing = self._sharing.of
        machine.log = None if self._agent_logs is None else self._agent_logs.of(plan.name)
        machine.fabric = self.pod_network.fabric
        options = self.options.nodes.get(plan.name)
        if options is None:  # added later than the plan
            options = self.options.nodes[plan.name] = node_agent_options(plan, self.names)
        clients = self._plane.node_clients(options, machine)
        main = node_agent_main(machine, clients[0], options, self.names, self.storage_drivers, clients[1])
        again_us = None if options.runonce else AGENT_RESTART_US
        actor = self.supervisor.add(plan.name, main, start=False, restart_us=again_us)
        node = self.nodes[plan.name] = Node(self.kernel, machine, actor)
        self.machine_watch.add(plan.name, node)
        self._boots.add(actor, node.start_agent)
        if self.plan.kube_proxy is not None:
            self.traffic.proxies.add(node, self._boots)
        return node

    def add_program(
        self,
        name: str,
        main: Callable[[Client], Awaitable[object]],
        *,
        qps: float = DEFAULT_QPS,
        burst: int = 10,
        user: str = "",
        groups: Sequence[str] = (),
    ) -> Actor:
        """Run a program of the caller, such as a controller, as a process that steps may name.

        An exception of the program ends the run and is raised by `run_*`. A request for objects of
        an unknown definition raises `NoResource`, a KeyError.

        user, groups: of its requests; by default an administrator with the name of the process
        """
        if name in self.supervisor.actors:
            raise InputError(f"there is a process {name!r}", "", "give it another name")
        sender = user_named(self.names, user or name, tuple(groups) if user else (self.names.group_masters,))

        async def run(ctx: Context) -> None:
            await main(Client(ctx, self.scheme, self.connect(ctx), sender, qps=qps, burst=burst, agent=name))

        actor = self.supervisor.add(name, run, restart_us=RESTART_US, start=False)
        self._boots.add(actor, actor.start)
        self.name_programs(name)
        return actor

    def name_programs(self, *names: str) -> None:
        """Let steps name programs of the caller, also before `add_program` adds them."""
        self.plan = replace(self.plan, own_programs=(*dict.fromkeys((*self.plan.own_programs, *names)),))

    def metrics(self) -> ComponentMetrics:
        """The metrics of API servers, controller managers and schedulers from the first call on.

        `metrics().text("scheduler")` is what Prometheus would read, in virtual time, and
        `metrics().value("scheduler_schedule_attempts_total", result="scheduled")` one number.
        """
        from sim.app.measured.components import ComponentMetrics

        return ComponentMetrics(self)

    def add_webhook(self, address: str, decide: Decide, *, latency: str | int = "2ms") -> None:
        """Answer admission webhooks, or a service that an option names, with a function.

        `decide` gets an AdmissionReview and returns the fields of its response, such as
        `{"allowed": False, "status": {"message": "no"}}`; a patch may be a list of JSON patch
        operations. For a service of the mode Webhook or of ImagePolicyWebhook it gets their review,
        and returns the fields of its status. A run repeats if the answer depends on the review
        alone.

        address: a URL as a configuration names it, or a Service as "namespace/name", which then has
            to exist with a ready endpoint
        latency: how long an answer takes, in virtual time
        """
        self._plane.webhooks.add(address, decide, checked_us(latency))

    def add_conversion(self, address: str, convert: Convert, *, latency: str | int = "2ms") -> None:
        """Answer conversion webhooks of custom resources at an address with a function.

        `convert` gets an object and the wanted `apiVersion`, and returns the object in that
        version; its name, namespace and uid must stay the same. It refuses by raising a ValueError,
        which becomes the message of the failure. `address` and `latency` are as in `add_webhook`.
        """
        self._plane.webhooks.add(address, converting(convert), checked_us(latency))

    def add_api_service(self, service: str, serve: ServeApi, *, latency: str | int = "2ms") -> ApiHandle:
        """Answer the aggregated APIs behind a Service with a function.

        `serve` gets an `ApiRequest` for each request that an APIService delegates to the Service,
        and returns the code and the JSON object of the answer. It also gets the request for the
        discovery document, `/apis/GROUP/VERSION`, by which the API server checks whether it is
        available, and while the cluster is served those for the documents `/openapi/v2` and
        `/openapi/v3`. Simulated controllers watch resources with the verbs list and watch by lists;
        `changed` of the result lets them list at once.

        service: as "namespace/name"; it needs ready endpoints, unless its type is ExternalName
        latency: how long an answer takes, in virtual time
        """
        self._plane.api_programs.add(service, serve, checked_us(latency))
        namespace, _, name = service.partition("/")

        def look() -> None:
            for server in self.api_servers.values():
                server.aggregator.look(namespace, name)

        return ApiHandle(look)

    @property
    def api_programs(self) -> ApiPrograms:
        """The servers behind APIServices."""
        return self._plane.api_programs

    @property
    def receivers(self) -> Mapping[str, Receiver]:
        """The services outside that judge requests."""
        return self._plane.receivers

    @property
    def authorization(self) -> Authorization:
        """Judges what users may do."""
        return self._plane.authorization

    def connect(
        self, ctx: Context, doors: Mapping[str, Endpoint] | None = None, host: str = ""
    ) -> list[Channel]:
        """Channels from an actor to every API server.

        The first is the server on the actor's own host, or one that its name chooses.

        doors: the servers as the actor reaches them; host: of the actor, by default of its name
        """
        servers, tail = list(self.api_servers), ctx.name.rsplit("-", 1)[-1]
        start = int(tail) % len(servers) if tail.isdigit() else 0
        reached = self.files.verified(doors or self.api_servers)
        return [Channel(ctx, host or ctx.name, reached, each) for each in servers[start:] + servers[:start]]

    # --- time -------------------------------------------------------------------------------------

    async def run_for(self, duration: str | int) -> None:
        """Run for a duration of virtual time ("10m", or microseconds)."""
        await self.run_until(self.kernel.now_us + checked_us(duration))

    async def wait_for_client(self, limit_s: float = 120, watches: int = 1) -> None:
        """Wait in real time until programs outside have opened so many watches of a served cluster.

        Virtual time does not pass.  Raises TooSlowError of Trio after so many real seconds.
        """
        with Deadline(limit_s) as deadline, deadline.bounded():
            await self.clients.wait(watches)

    async def run_until(self, at: str | int) -> None:
        """Run until an instant of virtual time.  Raises DeadlockError if no event is left."""
        until_us = checked_us(at)
        if not self._alive:
            raise InputError("the cluster is not running", "", "use it within: async with Cluster(...) as c")
        await self.kernel.run_until(Virtual(until_us))
        self.kernel.check_deadlock()

    async def run_while(
        self, going: Callable[[], bool], limit: str | int = "1h", step: str | int = "1s"
    ) -> bool:
        """Run while `going()`, called after each `step`, is true; False if the limit came first."""
        end_us = self.kernel.now_us + checked_us(limit)
        while going():
            if self.kernel.now_us >= end_us:
                return False
            await self.run_for(step)
        return True

    run_until_steady = until_steady
    traffic = cached_property(traffic_of)
    send_requests = property(lambda self: self.traffic.begin)
    # --- objects ----------------------------------------------------------------------------------

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Create or replace objects as the admin, one after the other, beginning now.

        Raises InputError for a value that is no object; `refused` lists what the API refuses.
        """
        for obj in objects:
            check_object(self.scheme, obj)
        self.hand_in(objects)

    def hand_in(self, objects: Sequence[Mapping[str, Any]]) -> None:
        """Apply objects without a check; `refused` lists what the API refuses."""
        if objects:
            self.kernel.follow(0)  # the action of a person: no record of the run is its cause
            self.admin.do(ApplyAll(tuple(objects)))
            self.kernel.kick()

    @property
    def refused(self) -> tuple[str, ...]:
        """Commands of the admin and leases of candidates for leader that were refused, and why."""
        return (*self.admin.refused, *self._refused_leases)

    def election_lease(self, component: str) -> tuple[str, str]:
        """Namespace and name of the Lease by which the replicas of a component elect their leader."""
        return self.options.election_leases[component]

    def request(self, verb: Verb, resource: str, namespace: str = "", name: str = "", **more: Any) -> Reply:
        """The reply of an API server to a request of the administrator, at this instant."""
        entry = resource_named(self.scheme, resource)
        request = Request(
            verb=verb,
            resource=entry.plural,
            group=entry.group,
            version=entry.version,
            namespace=namespace,
            name=name,
            user=self.admin_user,
            manager="orrery",
            **more,
        )
        return ask(self._server(), request)

    def _server(self) -> ApiServer:
        if server := next((one for one in self.api_servers.values() if one.running), None):
            return server
        raise RuntimeError("no API server is running")

    def list(self, resource: str, namespace: str = "", selector: str = "") -> list[dict[str, Any]]:
        """The stored objects of a resource."""
        options = {"labelSelector": selector} if selector else {}
        reply = self.request("list", resource, namespace, options=options)
        if reply.code == BAD_REQUEST:
            raise InputError(reply.message)
        if not reply.ok:
            raise RuntimeError(reply.message)
        return [item.obj for item in reply.items or ()]

    def get(self, resource: str, name: str, namespace: str = "default") -> dict[str, Any] | None:
        """One stored object; None if it does not exist."""
        entry = resource_named(self.scheme, resource)
        reply = self.request("get", resource, namespace if entry.namespaced else "", name)
        return reply.obj if reply.ok else None

    def observe(
        self, see: Callable[[Change], None], resources: Sequence[str] | None = None
    ) -> Callable[[], None]:
        """Call `see` at every commit, from outside of the simulation; the result ends it.

        resources: plurals, with "/NAMESPACE" for one namespace only; default all
        """
        return subscribed(self.storage.store, self.scheme, see, resources)

    def watch_machines(self, see: Callable[[str, bool, int], None]) -> None:
        """Call `see` with node, whether it serves, and the time, when its machine begins or ceases."""
        self.machine_watch.watch(see)

    def counts(self) -> dict[str, int]:
        """The numbers of nodes, ready nodes, pods and running pods (`pod_state`), for a progress
        display.
        """
        return counted(*self._nodes_and_pods())

    def _nodes_and_pods(self) -> tuple[Collection[Item], Collection[Item]]:
        bucket, resource = self.storage.store.bucket, self.scheme.resource
        return bucket(resource("nodes").prefix).items.values(), bucket(resource("pods").prefix).items.values()

    def _repr_html_(self) -> str:
        return overview(self.names, self.kernel.now_us, *self._nodes_and_pods())

    def existing(self, plural: str) -> Sequence[tuple[str, str]]:
        """Namespace and name of every stored object of a kind, as the checks of steps take them."""
        keys = (
            key
            for resource in self.scheme.resources
            if resource.plural == plural
            for key in self.storage.store.bucket(resource.prefix).items
        )
        return named(self.names, keys)

    def present(self, resources: Sequence[str]) -> Iterator[Change]:
        """The stored objects of some resources as changes that made them, for a late observer."""
        return present(self.storage.store, self.scheme, resources, self.kernel.now_us)

    # --- faults -----------------------------------------------------------------------------------

    @cached_property
    def pod_network(self) -> PodNetwork:
        """The network between the programs of pods."""
        return PodNetwork(
            self.kernel,
            self.names,
            self.scheme,
            self.storage.store,
            self.nodes,
            self.options.nodes,
            self.plan.pods.servers,
            enforces=self.plan.pods.enforces,
        )

    @cached_property
    def do(self) -> Steps:
        """Every fault and action of scenarios as a method: `do.partition(between=[...])`."""
        return Steps(self)

    def fail_node(self, name: str, how: str) -> None:
        """Make a node fail in one of `sim.faults.machines.fail.WAYS`: power-loss, shutdown, hang, …"""
        for way in WAYS:
            if way == how:
                return fail_node(self.faults, "", self._node_named(name), way)
        raise InputError(f"no node fails by {how!r}", "", f"one of: {', '.join(WAYS)}")

    def heal_node(self, name: str) -> None:
        """End all faults of a node."""
        self.faults.heal(self._node_named(name))

    def _node_named(self, name: str) -> str:
        if name not in self.nodes:
            remedy = suggestion(name, self.nodes, f"there are {len(self.nodes)} nodes")
            raise InputError(f"there is no node {name!r}", "", remedy)
        return name

    def actor_named(self, name: str) -> str:
        """Name of a process; "controller-manager-leader" and "scheduler-leader" give the leader."""
        if not name.endswith("-leader"):
            return name
        part = name.removesuffix("-leader")
        # The lease is read from the storage: perhaps no API server runs.
        lease = self.storage.store.get(self.scheme.key("leases", *self.election_lease(part)))
        holder = "" if lease is None else holder_of(lease.obj["spec"]).split("_")[0]
        return holder if holder in self.supervisor.actors else f"{part}-0"

    def drop_watches(self, resource: str, client: str) -> None:
        """End watches: of a resource, of clients that match a glob ("" means all)."""
        for server in self.api_servers.values():
            server.drop_watches(resource, client)

    def compact(self, keep_us: int = 0) -> None:
        """Remove all history but that of the latest time."""
        store = self.storage.store
        store.compact(store.revision_at(self.kernel.now_us - keep_us))
