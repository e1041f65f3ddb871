"""The processes of a control plane, made from the parts of their cluster.

Makes API servers, and the main functions of controller managers and schedulers, and connects them
to what is outside of the control plane: nodes, webhooks, aggregated APIs, metrics, the cloud.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from actors.apiserver.authorization import make_authorization
from actors.apiserver.server import ApiServer
from actors.apiserver.surroundings import Surroundings
from actors.controllers.shared.metrics_api import Metrics, NoMetrics
from actors.node.clients import NodeClients, Nowhere
from actors.node.requests import user_of
from sim.api.auth.webhook_authorizer import WebhookAuthorizer
from sim.app.agents.certificates import Connect, Doors, Identity
from sim.app.agents.pods import AgentCalls, agent_listens
from sim.app.dialling.dials import Backends, PodCalls
from sim.app.metrics import MetricsServer
from sim.app.options import files_of, read_receivers
from sim.app.parts.agent_access import agent_identities
from sim.app.parts.api_services import ApiPrograms, ReachedApis
from sim.app.parts.metrics import apis as metrics_apis
from sim.app.parts.metrics.apis import DelegatedMetrics, MetricsApis
from sim.app.parts.overview import probed
from sim.app.parts.services import Services
from sim.app.parts.webhooks import WebhookPrograms
from sim.kernel import Context

if TYPE_CHECKING:
    from actors.node.programs.network.fabric import Network
    from actors.node.runtime.machine import Machine
    from sim.api.kinds.core.component_status import Answer
    from sim.api.types import Obj, UserInfo
    from sim.app.parts.ports import BuiltCluster
    from sim.client import Channel
    from sim.options.node.agent import NodeAgentOptions

Main = Callable[[Context], Any]


def _channels_to(connect: Callable[[Context], list[Channel]], server: str, ctx: Context) -> list[Channel]:
    """An actor's channels to one server only."""
    return [channel for channel in connect(ctx) if channel.target == server]


class ControlPlane:
    """Makes the processes of one control plane."""

    def __init__(self, cluster: BuiltCluster) -> None:
        self._cluster = cluster
        self._tokens = cluster.options.tokens if cluster.plan.certificates.pod_tokens else None
        self._node_clients = NodeClients(cluster.scheme, cluster.names, cluster.connect, tokens=self._tokens)
        self.receivers = read_receivers(cluster.options, files_of(cluster.plan.api_server))
        settings = cluster.options.api_server
        webhook = None
        if settings.authorization_webhook is not None:
            webhook = WebhookAuthorizer(cluster.names, settings.authorization_webhook, self._wall_us)
        self.authorization = make_authorization(
            cluster.scheme,
            cluster.storage.store,
            settings.authorization_modes,
            settings.policies,
            cluster.kernel.standing.moved,
            webhook,
        )

    # --- processes --------------------------------------------------------------------------------

    def api_server(self, name: str, address: str) -> ApiServer:
        """An API server with its connections."""
        cluster = self._cluster
        process = partial(self._process, name)
        agents = AgentCalls(cluster.nodes, cluster.options.nodes, process, cluster.names)
        network = partial(self._network, address, name)
        backends = Backends(process, partial(network, at_once=True))
        calls = PodCalls(process, partial(network, at_once=False), cluster.pod_network.has_programs)
        around = Surroundings(
            log=agents.log,
            stream=agents.stream,
            dial=backends.dial,
            probed=self._probed,
            agent_listens=partial(agent_listens, cluster.nodes, cluster.options.nodes),
            identities=cluster.identities,
            addons=self._addons,
            ask=partial(self.webhooks.ask, calls=calls),
            backends=ReachedApis(
                self.api_programs,
                PodCalls(process, partial(network, at_once=True), cluster.pod_network.has_programs),
            ),
            audit_sink=cluster.audit,
            client_address=partial(self._address_of, address),
        )
        return ApiServer(
            name,
            cluster.kernel,
            cluster.storage,
            cluster.scheme,
            cluster.options.api_server,
            self.authorization,
            address,
            around,
        )

    def _network(self, address: str, name: str, *, at_once: bool) -> Network:
        """The sockets of the host of an API server."""
        return self._cluster.pod_network.fabric().server(address, name, at_once=at_once)

    def _process(self, name: str) -> Context:
        """The process of an API server, which runs."""
        life = self._cluster.api_servers[name].life
        assert life is not None
        return life.ctx

    def manager_main(self) -> Main:
        """The main function of a controller manager."""
        from actors.controllers.manager import controller_manager_main

        cluster = self._cluster
        metrics: Metrics = NoMetrics(cluster.names, self._api_service)
        connect, only = self._by_certificate(), cluster.options.controller_manager.server
        if only:
            connect = partial(_channels_to, connect, only)
        if self._metrics_server is not None:
            metrics = DelegatedMetrics(self._metrics_server, cluster.names, self._api_service)
        return controller_manager_main(
            cluster.scheme,
            connect,
            cluster.options.controller_manager,
            root_ca=cluster.root_ca,
            metrics=metrics,
            cloud=cluster.cloud,
            sign_token=cluster.identities.token_of_controllers,
            signing=cluster.signing.of,
        )

    def scheduler_main(self, name: str) -> Main:
        """The main function of a scheduler: the first, or a further one by its name."""
        from actors.scheduler.actor import scheduler_main

        cluster = self._cluster
        options = cluster.options.schedulers.get(name, cluster.options.scheduler)
        connect, only = self._by_certificate(), options.server
        if only:
            connect = partial(_channels_to, connect, only)
        return scheduler_main(
            options,
            cluster.scheme,
            cluster.names,
            connect,
            cluster.scheduler_plugins,
        )

    def _by_certificate(self) -> Connect:
        """Connections of a process of the control plane, which has a certificate."""
        cluster = self._cluster
        return cluster.files.known(cluster.connect, cluster.admin_user, cluster.api_servers)

    def node_clients(
        self, options: NodeAgentOptions, machine: Machine
    ) -> tuple[NodeClients, NodeClients | None]:
        """The clients of an agent, and of its bootstrap configuration, if it has certificates.

        The clients of all, unless it has a server of its own, or none.
        """
        cluster = self._cluster
        if options.standalone:
            return NodeClients(cluster.scheme, cluster.names, lambda _: [Nowhere()]), None
        identities: list[Identity] = []
        if options.keeps_certificates or cluster.plan.certificates.agents_us:
            identities += agent_identities(cluster, options, machine)
        elif not options.server:
            return self._node_clients, None
        own = user_of(cluster.names, machine.spec.name)
        doors: list[Doors | None] = [Doors(cluster.api_servers, each, own) for each in identities]
        clients = []
        for each in doors or [None]:
            connect = partial(cluster.connect, doors=each)
            if options.server:
                connect = partial(_channels_to, connect, options.server)
            clients.append(
                NodeClients(
                    cluster.scheme, cluster.names, connect, tokens=self._tokens, programs=cluster.connect
                )
            )
        return clients[0], clients[1] if identities else None

    # --- what they reach --------------------------------------------------------------------------

    @cached_property
    def webhooks(self) -> WebhookPrograms:
        """The servers behind admission webhooks."""
        cluster = self._cluster
        serves = cluster.machine_watch.serves
        return WebhookPrograms(
            cluster.kernel, cluster.names, self._services, cluster.faults, self.receivers, serves
        )

    @cached_property
    def api_programs(self) -> ApiPrograms:
        """The servers behind APIServices."""
        return ApiPrograms(self._cluster.kernel, self._services, self._cluster.pod_network)

    @cached_property
    def _services(self) -> Services:
        cluster = self._cluster
        return Services(cluster.kernel, cluster.scheme, cluster.storage.store)

    @cached_property
    def _metrics_server(self) -> MetricsServer | None:
        """The source of measurements; None if the cluster has none."""
        cluster = self._cluster
        if not cluster.plan.metrics:
            return None
        return MetricsServer(cluster.kernel, cluster.nodes, cluster.stated_metrics, cluster.scheme)

    @cached_property
    def _addons(self) -> Sequence[tuple[str, Obj]]:
        """The objects by which the metrics APIs are delegated, which are answered from now on."""
        if self._metrics_server is None:
            return ()
        cluster = self._cluster
        store = cluster.storage.store
        apis = MetricsApis(self._metrics_server, cluster.scheme, store, self._wall_us)
        service = f"{cluster.names.system_namespace}/{metrics_apis.SERVICE}"
        self.api_programs.add(service, apis.serve, metrics_apis.LATENCY_US)
        return tuple(metrics_apis.objects(cluster.names))

    def _api_service(self, name: str) -> Obj | None:
        item = self._cluster.storage.store.get(self._cluster.scheme.key("apiservices", "", name))
        return None if item is None else item.obj

    def _wall_us(self) -> int:
        return self._cluster.kernel.epoch_us + self._cluster.kernel.now_us

    def _probed(self) -> dict[str, Answer]:
        cluster = self._cluster
        return probed(
            cluster.names, cluster.plan, cluster.options, cluster.supervisor, cluster.storage.healthy
        )

    def _address_of(self, own: str, user: UserInfo) -> str:
        """The address of a client: that of its node, or of the host of the control plane."""
        node = self._cluster.nodes.get(user.name.removeprefix(self._cluster.names.user_node_prefix))
        return own if node is None else node.machine.spec.address
