"""`orrery serve`: a simulated cluster behind the real API, on TLS, for kubectl and client
libraries.

Turns a scenario and command-line arguments into a running cluster and its HTTP front; stops cleanly
on SIGINT, SIGTERM and SIGHUP; writes a client configuration when its nodes are registered, and a
journal (`sim.app.serving.journal`) while it runs.  `served` does this for a cluster that a
library user runs.

Holds: virtual time begins at the present of the wall clock, so that ages are shown right (for the
library, at the instant that its user chooses).  Actions of clients enter only through the gate.

Differs  A client configuration holds both a token and a client certificate of its user.
"""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path
from types import MappingProxyType

import trio

from sim.api.types import UserInfo
from sim.app.agent_requests import AgentDoors
from sim.app.audit.outputs import refuse_existing
from sim.app.audit.webhook import Webhook
from sim.app.cluster import Cluster
from sim.app.director import Director
from sim.app.parts.services import ADDRESSES
from sim.app.possible import zones_of
from sim.app.process.garbage import collect_when_idle, young_collections
from sim.app.process.interrupts import ending_signals
from sim.app.process.small_parts import in_small_parts
from sim.app.serving.client_configs import ClientConfig, write_client_config
from sim.app.serving.front import make_front, outside_us
from sim.app.serving.identities import (
    Files,
    key_of_controllers,
    read_users,
    signing_authorities,
)
from sim.app.serving.job_notes import tell_of_endless_jobs
from sim.app.serving.journal import End, JournalFile, Session
from sim.app.serving.registration import wait_for_nodes
from sim.errors import InputError
from sim.kernel import NEVER_US, Operation, Trace
from sim.options.apiserver.audit import BATCH
from sim.scenario.plan.plan import Plan
from sim.wire.authority import Authority
from sim.wire.descriptors import connections_below, descriptor_limit, raise_descriptor_limit
from sim.wire.http.app import Application
from sim.wire.http.fronts.server import serve_at
from sim.wire.outside.calls import OutsideSender
from sim.wire.tls import server_context

TOKEN_BYTES = 24
# Names in a server certificate in addition to the host of the command line.
LOCAL = ("localhost", "127.0.0.1", "::1")


class _Forgotten:
    """Replaces the journal of a server that writes none, so that a long-lived server does not grow
    by it.
    """

    def follow(self, _: Trace) -> None:
        return None

    def append(self, _: Operation) -> None:
        return None

    def end(self, _: End) -> None:
        return None

    def discard(self) -> None:
        return None


def serve(arguments: argparse.Namespace) -> int:
    """Run until a signal ends the server.  Raises InputError."""
    scenario = str(arguments.scenario.absolute()) if arguments.scenario is not None else ""
    session = Session(
        scenario,
        tuple(arguments.set),
        arguments.naming or "",
        arguments.nodes or 0,
        arguments.seed,
        arguments.adopt_nodes,
    )
    plan = session.plan()
    tokens = read_users(arguments.token_auth_file) if arguments.token_auth_file else {}
    raise_descriptor_limit()
    _check_connections(arguments.max_connections)
    # The busy loop would starve worker threads otherwise: this is below the kernel's time slice.
    sys.setswitchinterval(0.0005)
    with young_collections():
        trio.run(_main, arguments, session, plan, tokens)
    return 0


def _check_connections(most: int | None) -> None:
    """Raises InputError if the limit of connections is beyond the limit of file descriptors."""
    limit = descriptor_limit()
    if most is not None and most > connections_below(limit):
        raise InputError(
            f"{most} connections need more file descriptors than this process may have ({limit})",
            "--max-connections",
            f"at most {connections_below(limit)}, or raise ulimit -n",
        )


async def _main(
    arguments: argparse.Namespace, session: Session, plan: Plan, tokens: dict[str, UserInfo]
) -> None:
    epoch_us = outside_us()
    cluster = Cluster(
        plan.cluster,
        seed=plan.seed,
        epoch_us=epoch_us,
        replaces_log=arguments.force,
        agent_logs=arguments.agent_logs,
    )
    kernel = cluster.kernel
    refuse_existing(cluster.audit_settings, force=arguments.force)
    journal = (
        _Forgotten()
        if arguments.journal is None
        else JournalFile(arguments.journal, session, plan, epoch_us, force=arguments.force)
    )
    journal.follow(kernel.trace)
    kernel.gate.journal = journal
    with trio.open_signal_receiver(signal.SIGINT, *ending_signals()) as signals:
        async with cluster:
            Director(cluster, lambda name, kind, at_us: None, zones_of(plan)).schedule(plan.steps)
            cluster.apply(*plan.objects)
            tell_of_endless_jobs(cluster, plan)
            kernel.set_goal(NEVER_US)
            where, most = (arguments.host, arguments.port), arguments.max_connections
            agents: dict[str, dict[str, str]] | None = {} if arguments.expose_agents else None
            goes_on = True

            async def ready() -> None:
                # A client that virtual time waits for needs its configuration before the nodes.
                nonlocal goes_on
                if arguments.client_config and not arguments.wait_for_client:
                    goes_on = await wait_for_nodes(cluster, signals)

            async with (
                _discarded_unless_served(journal) as begun,
                served(
                    cluster,
                    arguments.client_config,
                    arguments.pace,
                    where,
                    tokens,
                    most,
                    dict(arguments.service_address),
                    front_proxy=arguments.front_proxy,
                    wait_for_client=arguments.wait_for_client,
                    reaction=arguments.reaction,
                    ready=ready,
                    agents=agents,
                ) as url,
            ):
                begun.set()
                print(f"orrery: serving {url}", flush=True)
                for name, urls in (agents or {}).items():
                    shown = ", ".join(f"{port} {each}" for port, each in urls.items())
                    print(f"orrery: agent of {name}: {shown}", flush=True)
                known = tokens or cluster.options.authentication.admits_users
                for hint in hints(known=bool(arguments.client_config or known), audited=bool(cluster.audit)):
                    print(f"orrery: {hint}", file=sys.stderr)
                if goes_on:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(collect_when_idle, lambda: cluster.clients.works)
                        await anext(signals)
                        nursery.cancel_scope.cancel()
            end_us = kernel.outside_now_us()
            kernel.set_rate(inf)
            await kernel.run_until(end_us)
            journal.end(End(kernel.now_us, kernel.steps, kernel.trace.sha256()))


def hints(*, known: bool, audited: bool) -> Iterator[str]:
    """What the user of a served cluster may not expect.  known: True if anybody can log in"""
    if not known:
        yield "no user can log in (give --token-auth-file, or --client-config FILE to write a client configuration)"
    if audited:
        yield "the cluster's own requests are audited one by one, so that they take no fast paths"


@asynccontextmanager
async def _discarded_unless_served(journal: JournalFile | _Forgotten) -> AsyncIterator[trio.Event]:
    """Remove the new journal, which would block the next start, if an error occurs before the event
    that
    is yielded is set.
    """
    begun = trio.Event()
    try:
        yield begun
    except BaseException:
        if not begun.is_set():
            journal.discard()
        raise


@asynccontextmanager
async def served(
    cluster: Cluster,
    config: Path | Sequence[ClientConfig] | None = None,
    pace: float = inf,
    where: tuple[str, int] = (LOCAL[1], 0),
    tokens: Mapping[str, UserInfo] = MappingProxyType({}),
    connections_max: int | None = None,
    service_addresses: Mapping[str, tuple[str, int]] = MappingProxyType({}),
    front_proxy: bool = False,
    wait_for_client: int = 0,
    reaction: float = 0,
    ready: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
    agents: MutableMapping[str, dict[str, str]] | None = None,
) -> AsyncIterator[str]:
    """Serve a running cluster to programs of any kind, and yield the URL.  Raises InputError.

    config: client configurations to write; a path means one for the administrator
    pace: virtual seconds for each real second while the cluster is run; requests are answered also
        while it is not run
    where: host, and port (0: any)
    tokens: further users by token
    connections_max: limit of open connections (None: what the limit of file descriptors allows)
    service_addresses: host and port of servers outside, by the Service that they stand for, as
        "namespace/name"
    front_proxy: make the certificate by which aggregated servers know this one
    wait_for_client: number of watches until which virtual time rests; 0: it passes at once
    reaction: real seconds for which virtual time rests after each request of a client outside, and
        after each event that it is given; 0: it does not rest
    ready: waited for, while requests are answered, before client configurations are written
    agents: serve the nodes' agents too, on ports of their own; it is filled with their URLs by node
        and "main", "read-only" or "healthz"
    """
    host, port = where
    cluster.kernel.set_rate(pace)
    names = cluster.names
    configs = (ClientConfig(config),) if isinstance(config, Path) else tuple(config or ())
    with_token = {secrets.token_urlsafe(TOKEN_BYTES): each for each in configs}
    everyone = {**tokens, **{token: each.user(names) for token, each in with_token.items()}}
    files = Files.read(cluster.options.authentication)
    authority = Authority(names.component("ca"))
    _post_keys(cluster, authority)
    hosts = tuple(dict.fromkeys((host, *LOCAL, names.apiserver_service)))
    trusted = authority.pem + files.client_ca + files.front_proxy_ca
    context = server_context(authority.server(hosts), trusted)
    listeners = await _listening(host, port)
    address = f"{reached_at(host)}:{listeners[0].socket.getsockname()[1]}"
    try:
        front = make_front(cluster, everyone, address, files, (authority.pem,), front_proxy=front_proxy)
        async with trio.open_nursery() as nursery:
            await _begin_outside(cluster, nursery, service_addresses)
            _begin_waits(cluster, nursery, float(reaction), int(wait_for_client))
            app, streams_max = Application(front), cluster.options.api_server.http2_streams_max
            await nursery.start(serve_at, app, listeners, context, connections_max, streams_max)
            doors = AgentDoors(front.gateway, cluster.nodes)
            await _expose(cluster, doors, authority, nursery, agents)
            url = f"https://{address}"
            with cluster.kernel.aside.on_threads(), in_small_parts(cluster.kernel, cluster.storage.store):
                await ready()
                for token, each in with_token.items():
                    write_client_config(each.path, each.user(names), url, authority, token)
                yield url
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        if len(group.exceptions) > 1:
            raise
        raise group.exceptions[0] from None  # so that a test shows its failed assertion itself
    finally:
        for listener in listeners:
            listener.socket.close()
        cluster.kernel.outside.end()


def _post_keys(cluster: Cluster, authority: Authority) -> None:
    """Hand the certificate and the keys of a server to its controllers."""
    manager, gate = cluster.options.controller_manager, cluster.kernel.gate
    if not manager.root_ca_file:
        gate.post("root-ca", authority.pem.decode(), lambda _: None)
    if manager.service_account_private_key_file:
        key = key_of_controllers(manager.service_account_private_key_file)
        gate.post("key-of-controllers", key, lambda _: None)
    # The journal holds these keys too, so that a replay signs the same certificates.
    signing = signing_authorities(manager, cluster.names, authority.signing_pem)
    gate.post("signing-authorities", signing, lambda _: None)


async def _expose(
    cluster: Cluster,
    doors: AgentDoors,
    authority: Authority,
    nursery: trio.Nursery,
    urls: MutableMapping[str, dict[str, str]] | None,
) -> None:
    """Serve the nodes' agents on ports of their own, unless `urls` is None."""
    if urls is None:
        return
    from sim.app.serving.exposed import expose_agents

    await expose_agents(cluster, doors, authority, nursery, urls)


def _begin_waits(cluster: Cluster, nursery: trio.Nursery, reaction_s: float, watches: int) -> None:
    """Let virtual time wait for clients."""
    cluster.clients.reaction_s = reaction_s
    nursery.start_soon(cluster.clients.keep_reacting)
    if watches:
        nursery.start_soon(cluster.clients.hold, watches)


async def _begin_outside(
    cluster: Cluster, nursery: trio.Nursery, service_addresses: Mapping[str, tuple[str, int]]
) -> None:
    """Send the cluster's calls of servers outside, and the events of its audit."""
    if (webhook := make_webhook(cluster)) is not None:
        nursery.start_soon(webhook.run)
    kernel = cluster.kernel
    sender = OutsideSender(kernel.gate, cluster.receivers, lambda: kernel.pace.is_still(kernel.now_us))
    await nursery.start(sender.run)
    settings = {ADDRESSES: {name: list(each) for name, each in service_addresses.items()}}
    cluster.kernel.outside.begin(sender, settings)


async def _listening(host: str, port: int) -> Sequence[trio.SocketListener]:
    """Listeners at an address.  Raises InputError."""
    try:
        return await trio.open_tcp_listeners(port, host=host)
    except OSError as error:
        raise InputError(f"cannot listen: {error.strerror}", f"{host}:{port}") from None


def reached_at(host: str) -> str:
    """The host in the URL of a server that listens on `host`; "all addresses" become the local one."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{host}]" if ":" in host else host


def make_webhook(cluster: Cluster) -> Webhook | None:
    """The audit webhook of a cluster that is served; None if the options name none.

    Raises InputError.
    """
    settings = cluster.audit_settings
    if settings is None or not settings.webhook.config or cluster.audit is None:
        return None
    webhook = Webhook(settings.webhook, cluster.names)
    cluster.audit.forward_to = webhook.put
    if settings.webhook.batching.mode != BATCH:
        cluster.audit.first = webhook.send_first
    return webhook
