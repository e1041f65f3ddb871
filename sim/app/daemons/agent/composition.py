"""A node agent that runs alone.

Turns its options into a process with a simulated machine, its agent, which registers it with an API
server over HTTPS, and the agent's servers on ports of the user's machine.

Holds: SIGTERM ends the process at once, or after the shutdown of its pods where
`shutdown-grace-period` or its kin are given.

Mirrors  kubernetes v1.25 cmd/kubelet/app/server.go (Run).
Differs  the process is the machine as well: with it end its containers, and a new process is a
         machine with another boot id and an empty disk. Programs in pods reach only pods of the
         same machine; they know the names of all Services. Until the first serving
         certificate is issued (`rotate-server-certificates`), the main server does not listen.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import trio

from actors.node.agent import node_agent_main
from actors.node.clients import ASK_US, NodeClients, Nowhere, account_of
from actors.node.heartbeat.node_status import VERSION, host_addresses
from actors.node.node import Node
from actors.node.runtime.machine import Machine
from actors.node.server.exchange import Port
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj, UserInfo
from sim.app.agents.requests import AgentDoors
from sim.app.daemons.agent.access import Connected, certificate_of, connected, with_newest
from sim.app.daemons.agent.certificates import Folder, KeptCertificates
from sim.app.daemons.agent.machine import connect_pods, machine_of, plan_of
from sim.app.daemons.agent.manifests import begin_manifests
from sim.app.daemons.agent.services import OF_AGENT, OF_PROXY, follow_services
from sim.app.daemons.clock import following_of
from sim.app.daemons.connection import access_named, credentials_of, is_packed
from sim.app.daemons.options import options_in, split, with_documents
from sim.app.daemons.process import FAREWELL_S, Alone, run_process
from sim.app.daemons.serving_tls import ServingTls
from sim.app.serving.agent_ports import Connect, listeners_of, serve_agent
from sim.client.client import Client
from sim.files import read_bounded
from sim.ident import Names
from sim.kernel import Context
from sim.kernel.actor import Main
from sim.klog import STDERR, STDOUT
from sim.options.groups.listening import CertificateFlags
from sim.options.node.agent import NodeAgentOptions
from sim.options.node.alone import MachineSettings
from sim.units import SECOND, Wall
from sim.version import __version__
from sim.wire.http.gateway import Gateway
from sim.wire.rest.access import Access, AccessError, Credentials
from sim.wire.rest.transport import OPERATION, RestClients

BOOTSTRAP = f"{OPERATION}-bootstrap"


def run(names: Names, values: Mapping[str, object], _: Callable[[int], None]) -> int:
    """Run a node agent; returns the exit status.  Raises InputError, OSError."""
    config = f"{names.short}config"
    settings: MachineSettings = options_in(MachineSettings, values, names)
    folder = Folder(Path(str(values.get("cert-dir") or f"/var/lib/{names.node_agent}/pki")), names.node_agent)
    access = connected(names, values, folder)
    own = split(NodeAgentOptions, values, names)
    own[config] = access.document
    plan, options = plan_of(names, settings, with_documents(NodeAgentOptions, own, names))
    if access.main is not None:
        packed = is_packed(names, options.api_content_type)
        accepted = f"{names.media_protobuf},{names.media_json}" if packed else ""
        access = access._replace(main=replace(access.main, packed=packed, accepted=accepted))
    if settings.machine_proxy_config:
        option = "--machine-proxy-config"
        access = access._replace(proxy=access_named(names, option, settings.machine_proxy_config))
    machine = machine_of(names, plan, "" if access.main is None else access.main.server)
    machine.log = _write_log
    reached = access.bootstrap or access.main
    following = following_of(names, values, reached, machine.spec.name)
    return run_process(names, AgentProcess(names, folder, options, machine, access).make, following)


class AgentClients(NodeClients):
    """The clients of an agent.

    programs: the requests of programs, with tokens of their own: they must not act as the agent
    """

    has_tokens = True

    def __init__(self, scheme: Scheme, names: Names, agent: RestClients, programs: RestClients) -> None:
        super().__init__(scheme, names, lambda ctx: [agent.transport(ctx)])
        self._programs = programs

    def account(self, ctx: Context, pod: Obj) -> Client:
        """The client of a program in a pod."""
        names, meta = self._names, pod["metadata"]
        user = UserInfo(
            names.service_account_user(meta["namespace"], account_of(pod)),
            extra={names.extra_pod_name: (meta["name"],), names.extra_pod_uid: (meta["uid"],)},
        )
        transport = self._programs.transport(ctx)
        return Client(ctx, self.scheme, [transport], user, agent="program", timeout_us=ASK_US)


class AgentProcess:
    """One node agent with its machine.  access: to the API server"""

    def __init__(
        self, names: Names, folder: Folder, options: NodeAgentOptions, machine: Machine, access: Connected
    ) -> None:
        self._names, self._folder, self._options = names, folder, options
        self._machine, self._access = machine, access
        self._nodes: dict[str, Node] = {}
        self._issued = trio.Event()  # the first serving certificate
        machine.boots = int(time.time())  # every process is another boot

    async def make(self, alone: Alone) -> Main:
        """The agent's main function, once its servers listen.  Raises AccessError."""
        options, machine = self._options, self._machine
        name = alone.host = machine.spec.name
        delay_us = sum(grace_us for _, grace_us in options.shutdown_groups) + machine.spec.profile.shutdown_us
        alone.farewell_s = FAREWELL_S + delay_us / SECOND
        services = connect_pods(alone.kernel, alone.scheme, self._nodes, machine, options)
        await self._listen(alone)
        if options.pod_manifest_path:
            path = options.pod_manifest_path
            begin_manifests(alone.nursery, alone.kernel, alone.scheme, path, machine, self._nodes)
        clients, bootstrap = self._clients(alone)
        begin = node_agent_main(machine, clients, options, self._names, bootstrap=bootstrap)

        access, read = self._access.proxy or self._access.main, OF_PROXY if self._access.proxy else OF_AGENT
        proxy = (
            None if access is None else self._requests(alone, credentials_of(access), f"{OPERATION}-proxy")
        )

        def main(ctx: Context) -> None:
            assert alone.actor is not None
            node = self._nodes[name] = Node(alone.kernel, machine, alone.actor)
            if options.shutdown_groups:
                ctx.on_terminate(partial(_shut_down, node, ctx))
            begin(ctx)
            if proxy is not None:
                follow_services(ctx, alone.scheme, proxy.transport(ctx), services, read)

        return main

    # --- the API server ---------------------------------------------------------------------------

    def _clients(self, alone: Alone) -> tuple[NodeClients, NodeClients | None]:
        """The clients of the agent, and of its bootstrap configuration, if it has certificates."""
        names, options, main = self._names, self._options, self._access.main
        if main is None:
            return NodeClients(alone.scheme, names, lambda _: [Nowhere()]), None
        keeps, bootstrap = options.keeps_certificates, None
        if keeps:
            bootstrap = self._client(alone, self._access.bootstrap or main, BOOTSTRAP)[0]
            main = with_newest(main, self._folder)
        clients, credentials = self._client(alone, main, OPERATION)
        if keeps:
            certificates = KeptCertificates(self._folder, partial(self._changed, credentials))
            certificates.client = certificate_of(main)
            self._machine.certificates = certificates
        return clients, bootstrap

    def _client(self, alone: Alone, access: Access, operation: str) -> tuple[NodeClients, Credentials]:
        credentials = credentials_of(access)
        agent = self._requests(alone, credentials, operation)
        programs = self._requests(alone, credentials, f"{operation}-programs", own_accounts=True)
        return AgentClients(alone.scheme, self._names, agent, programs), credentials

    def _requests(
        self, alone: Alone, credentials: Credentials, operation: str, *, own_accounts: bool = False
    ) -> RestClients:
        """Requests to the API server.  own_accounts: with tokens of the pods' service accounts"""
        return RestClients(
            alone.kernel,
            alone.scheme,
            alone.nursery,
            credentials,
            agent=f"{VERSION} orrery/{__version__}",
            own_accounts=own_accounts,
            operation=operation,
            following=alone.following,
        )

    # --- its servers ------------------------------------------------------------------------------

    async def _listen(self, alone: Alone) -> None:
        """Listen where the options say.  Raises InputError, AccessError."""
        options = self._options
        doors = AgentDoors(Gateway(alone.kernel, {}), self._nodes)
        serve = partial(self._serve, alone.nursery, partial(doors.open, self._machine.spec.name))
        rotates = options.rotate_server_certificates
        for listener in listeners_of(options):
            if listener[0] is Port.MAIN and rotates and self._folder.held("server") is None:
                alone.nursery.start_soon(self._serve_later, partial(serve, listener))
            else:
                await serve(listener)

    async def _serve_later(self, serve: Callable[[], Awaitable[None]]) -> None:
        """Serve once there is a certificate."""
        await self._issued.wait()
        await serve()

    async def _serve(self, nursery: trio.Nursery, connect: Connect, listener: tuple[Port, str, int]) -> None:
        options, (port, host, number) = self._options, listener
        file = options.client_ca_file
        trusted = read_bounded(Path(file), place="--client-ca-file") if file else b""
        context = self._tls().context if port is Port.MAIN else None
        try:
            await serve_agent(
                nursery, connect, listener, self._names.group_domain, (context, trusted), _outside_us
            )
        except OSError as error:
            raise AccessError(f"failed to listen on {host}:{number}: {error.strerror or error}") from None

    def _tls(self) -> ServingTls:
        """TLS of the main server, which follows its certificates and the authorities of clients."""
        options, machine = self._options, self._machine
        certificate, key, authorities = options.tls_cert_file, options.tls_private_key_file, None
        if options.rotate_server_certificates:
            certificate = key = str(self._folder.current("server"))
        if options.client_ca_file:
            authorities = partial(read_bounded, Path(options.client_ca_file))
        flags = CertificateFlags(
            cert_dir=options.cert_dir,
            tls_cert_file=certificate,
            tls_private_key_file=key,
            tls_cipher_suites=options.tls_cipher_suites,
            tls_min_version=options.tls_min_version,
        )
        hosts = (machine.spec.name, "localhost", "127.0.0.1", *host_addresses(machine, options))
        return ServingTls(flags, self._names.node_agent, hosts, authorities)

    def _changed(self, credentials: Credentials, use: str) -> None:
        """A new pair is in the folder."""
        if use == "client":
            credentials.use(with_newest(credentials.access, self._folder))
        else:
            self._issued.set()


def _shut_down(node: Node, ctx: Context) -> None:
    """End the pods as in a shutdown of the machine, and then the process."""
    wait_us = node.machine.spec.profile.shutdown_us  # until the machine is off, as in a cluster

    def end() -> None:
        ctx.call_later_us(wait_us, lambda _: ctx.exit("terminated"))

    node.machine.agent.shutdown.begin(end)


def _outside_us() -> Wall:
    """The real time, by which connections are judged."""
    return Wall(time.time_ns() // 1000)


def _write_log(name: str, text: str | None) -> None:
    """Write what the agent logs to a stream or a file; None empties the file."""
    if name in (STDERR, STDOUT):
        (sys.stderr if name == STDERR else sys.stdout).write(text or "")
        return
    with Path(name).open("w" if text is None else "a", encoding="utf-8", errors="replace") as file:
        file.write(text or "")
