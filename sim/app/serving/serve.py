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
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager, closing
from math import inf
from pathlib import Path
from ssl import SSLContext
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import NamedTuple

import trio
from msgspec import structs

from sim.api.types import UserInfo
from sim.app.agents.requests import AgentDoors
from sim.app.audit.outputs import refuse_existing
from sim.app.cluster import Cluster
from sim.app.control.session import Control
from sim.app.options import files_of
from sim.app.possible import expectations_of
from sim.app.process.garbage import collect_when_idle, young_collections
from sim.app.process.interrupts import ending_signals
from sim.app.process.small_parts import in_small_parts
from sim.app.serving.configs.clients import ClientConfig, write_client_config
from sim.app.serving.data_dir import DataDir, Keys, new_keys
from sim.app.serving.front import Own, begin_outside, make_entrance, make_front, outside_us, read_files
from sim.app.serving.identities import (
    TOKEN_FILE,
    Files,
    key_of_controllers,
    read_users,
    signing_authorities,
)
from sim.app.serving.job_notes import tell_of_endless_jobs
from sim.app.serving.journal import End, Journal, JournalFile, Session
from sim.app.serving.registration import wait_for_nodes
from sim.app.serving.repeating import repeat
from sim.app.serving.request_log import OUTPUT, RequestLog
from sim.app.serving.snapshots import keeper
from sim.app.serving.version import version
from sim.app.steering.assembly import make_steering
from sim.app.steering.routes import Api, Keep
from sim.app.timetable import BEGIN, await_beginning, header_of
from sim.errors import InputError, only_of
from sim.ident import NAMES
from sim.kernel import NEVER_US, POSITION, Kernel, NoJournal, Trace, unheard
from sim.scenario.plan.plan import Plan
from sim.scenario.read.option_file import OptionFile
from sim.wire.authority import Authority
from sim.wire.descriptors import connections_below, descriptor_limit, raise_descriptor_limit
from sim.wire.http.app import Application
from sim.wire.http.fronts.server import serve_at
from sim.wire.tls import server_context

NOTED_S = 1.0  # real seconds
# Names in a server certificate in addition to the host of the command line.
LOCAL = ("localhost", "127.0.0.1", "::1")


class _Forgotten(NoJournal):
    """Replaces the journal of a server that writes none, so that a long-lived server does not grow
    by it.
    """

    def follow(self, _: Trace) -> None:
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
    data = None if arguments.data_dir is None else DataDir(arguments.data_dir)
    earlier = None if data is None else data.earlier(session)
    if earlier is not None:
        session = earlier.head.session
        earlier.plan()  # raises InputError if the scenario has changed
    elif not (scenario or arguments.naming or arguments.profile):
        # Only now: a default would count as what is asked for of a cluster that is continued.
        session = structs.replace(session, naming="kubernetes")
    plan = session.plan()
    if plan.cluster.own_programs:
        problem = f"a served cluster does not run {plan.cluster.own_programs[0]!r}"
        raise InputError(problem, plan.file, "take ownPrograms out, and run it as a client of the server")
    keys = None if data is None else data.keys(NAMES[plan.cluster.naming])
    users = OptionFile(TOKEN_FILE, str(arguments.token_auth_file or ""))
    tokens = read_users(users) if users.path else {}
    version()  # reads the sources, which a server without free descriptors could not
    raise_descriptor_limit()
    _check_connections(arguments.max_connections)
    # The busy loop would starve worker threads otherwise: this is below the kernel's time slice.
    sys.setswitchinterval(0.0005)
    # The trace answers why something happened; it is gone with the server.
    with TemporaryDirectory(prefix="orrery-", ignore_cleanup_errors=True) as folder, young_collections():
        file = Path(folder) / "serve.trace"
        with closing(Trace(file, header_of(plan, plan.seed), needed=False)) as trace:
            trio.run(_main, arguments, _Start(session, plan, tokens, trace, data, earlier, keys))
    return 0


class _Start(NamedTuple):
    """What a server begins with.

    tokens: users of the token file
    data: its folder, None for none; earlier: the journal that it continues; keys: from the folder
    """

    session: Session
    plan: Plan
    tokens: dict[str, UserInfo]
    trace: Trace
    data: DataDir | None
    earlier: Journal | None
    keys: Keys | None

    def cluster(self, arguments: argparse.Namespace) -> Cluster:
        """The cluster, with the operations that it is to repeat."""
        earlier = self.earlier
        return Cluster(
            self.plan.cluster,
            seed=self.plan.seed,
            trace=self.trace,
            epoch_us=outside_us() if earlier is None else earlier.head.epoch_us,
            replay=None if earlier is None else earlier.operations,
            replaces_log=arguments.force,
            agent_logs=arguments.agent_logs,
        )

    def keep(self, kernel: Kernel) -> Keep | None:
        """What makes snapshots of the running server."""
        return None if self.data is None else keeper(self.data.folder, kernel.gate)

    def journal(self, arguments: argparse.Namespace, cluster: Cluster) -> JournalFile | _Forgotten:
        """The journal of the cluster, which is about to begin or to continue."""
        kernel, file = cluster.kernel, arguments.journal
        if self.data is not None and self.keys is not None:
            for config in arguments.client_config or ():
                self.keys.token(config)
            self.data.keep(self.keys)
            file = self.data.journal_file
        journal: JournalFile | _Forgotten
        if self.earlier is not None:
            journal = JournalFile.resumed(file, self.earlier)
        elif file is None:
            journal = _Forgotten()
        else:
            journal = JournalFile(file, self.session, self.plan, kernel.epoch_us, force=arguments.force)
            journal.follow(kernel.trace)
        return journal


def _request_log(arguments: argparse.Namespace, kernel: Kernel) -> RequestLog | None:
    """The log of requests that is asked for."""
    if arguments.log is None:
        return None
    place, form = str(arguments.log), arguments.log_format
    return RequestLog(place, form, kernel.epoch_us, outside_us, force=arguments.force)


def _check_connections(most: int | None) -> None:
    """Raises InputError if the limit of connections is beyond the limit of file descriptors."""
    limit = descriptor_limit()
    if most is not None and most > connections_below(limit):
        raise InputError(
            f"{most} connections need more file descriptors than this process may have ({limit})",
            "--max-connections",
            f"at most {connections_below(limit)}, or raise ulimit -n",
        )


async def _main(arguments: argparse.Namespace, start: _Start) -> None:
    cluster, plan = start.cluster(arguments), start.plan
    kernel = cluster.kernel
    refuse_existing(cluster.audit_settings, force=arguments.force)
    journal, requests = start.journal(arguments, cluster), _request_log(arguments, kernel)
    with trio.open_signal_receiver(signal.SIGINT, *ending_signals()) as signals:
        async with cluster:
            entrance = make_entrance(cluster)
            control = Control(cluster, plan, expectations_of(plan, alone=False))
            cluster.clients.turns.wait_for(arguments.wait_for_clocks)
            steering = make_steering(control, start.session.document, start.keep(kernel))
            await_beginning(cluster, plan)
            if start.earlier is not None:
                await repeat(kernel, start.earlier)
            kernel.gate.journal = journal
            # Keys come when the instant 0 is over, as in a run.
            await cluster.run_until(kernel.now_us)
            tell_of_endless_jobs(cluster, plan)
            where, most = (arguments.host, arguments.port), arguments.max_connections
            agents: dict[str, dict[str, str]] | None = {} if arguments.expose_agents else None
            goes_on = True

            async def ready() -> None:
                # A client that virtual time waits for needs its configuration before the nodes.
                nonlocal goes_on
                if start.earlier is None:
                    kernel.gate.post(BEGIN, None, unheard)
                else:
                    entrance.gateway.leave()
                if arguments.pace:
                    kernel.set_goal(NEVER_US)
                if arguments.pace and arguments.client_config and not _waits(arguments):
                    goes_on = await wait_for_nodes(cluster, signals)

            if start.data is not None:
                entrance.gateway.before_news = lambda _: kernel.gate.note_position()
                control.before_news = lambda: kernel.gate.post(POSITION, None, unheard)
            async with (
                _discarded_unless_served(journal if start.earlier is None else _Forgotten()) as begun,
                served(
                    cluster,
                    arguments.client_config,
                    arguments.pace or 1.0,
                    where,
                    start.tokens,
                    most,
                    dict(arguments.service_address),
                    front_proxy=arguments.front_proxy,
                    wait_for_client=arguments.wait_for_client,
                    reaction=arguments.reaction,
                    ready=ready,
                    agents=agents,
                    own=Own(steering, entrance, start.keys or new_keys(cluster.names), requests),
                ) as url,
            ):
                begun.set()
                print(f"orrery: serving {url}", flush=True)
                _tell_agents(agents or {})
                link = f"{url}/#code={steering.page.code()}"
                print(f"orrery: live page, for one login: {link}", flush=True)
                _tell_next(arguments)
                entry = start.tokens or cluster.options.authentication.admits_users
                _tell_hints(known=bool(arguments.client_config or entry), audited=bool(cluster.audit))
                if goes_on:
                    await _served_on(steering.calls, start, signals, shown=str(arguments.log) != OUTPUT)
            end_us = kernel.outside_now_us()
            kernel.set_rate(inf)
            await kernel.run_until(end_us)
            journal.end(End(kernel.now_us, kernel.steps, kernel.trace.sha256()))
            _tell_verdicts(control)


def _waits(arguments: argparse.Namespace) -> bool:
    """True if time rests until programs outside have begun."""
    return bool(arguments.wait_for_client or arguments.wait_for_clocks)


async def _served_on(api: Api, start: _Start, signals: AsyncIterator[int], *, shown: bool) -> None:
    """Serve until a signal or the key `q` comes; show the cluster if the output is a terminal.

    shown: False if requests are listed there
    """
    cluster = api.control.cluster
    async with trio.open_nursery() as nursery:
        nursery.start_soon(collect_when_idle, lambda: cluster.clients.works)
        if start.data is not None:
            nursery.start_soon(_note_positions, cluster.kernel)

        async def show() -> None:
            from sim.app.screen.console import PlainConsole, has_room
            from sim.app.screen.follow import follow

            if has_room(console := PlainConsole()):
                await follow(api.control, console, lambda: api.changes.counts)
                nursery.cancel_scope.cancel()

        if sys.stdout.isatty() and shown:
            nursery.start_soon(show)
        await anext(signals)
        nursery.cancel_scope.cancel()


async def _note_positions(kernel: Kernel) -> None:
    """Keep now and then how far a cluster without clients has come."""
    while True:
        await trio.sleep(NOTED_S)
        kernel.gate.note_position()


def _tell_agents(agents: Mapping[str, Mapping[str, str]]) -> None:
    for name, urls in agents.items():
        shown = ", ".join(f"{port} {each}" for port, each in urls.items())
        print(f"orrery: agent of {name}: {shown}", flush=True)


def _tell_verdicts(control: Control) -> None:
    """Print what expectations have come to, in a terminal."""
    if sys.stdout.isatty() and control.has_expectations:
        from sim.app.inspect.run_terminal import print_verdicts

        print_verdicts(control.verdicts(control.cluster.kernel.now_us))


def _tell_next(arguments: argparse.Namespace) -> None:
    """Say how the cluster is reached, and how time is let pass."""
    if arguments.client_config:
        file = arguments.client_config[0].path
        print(f"orrery: kubectl --kubeconfig {file} get nodes", flush=True)
        if not arguments.pace:
            print(f"orrery: time rests: orrery ctl --client-config {file} resume", flush=True)
    elif not arguments.pace:
        print("orrery: time rests until the live page resumes it", flush=True)


def _tell_hints(*, known: bool, audited: bool) -> None:
    for hint in hints(known=known, audited=audited):
        print(f"orrery: {hint}", file=sys.stderr)


def hints(*, known: bool, audited: bool) -> Iterator[str]:
    """What the user of a served cluster may not expect.  known: True if anybody can log in"""
    if not known:
        yield (
            "no user can log in but on the live page "
            "(give --token-auth-file, or --client-config FILE to write a client configuration)"
        )
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
    own: Own | None = None,
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
    own: of a server that is a command's
    """
    cluster.kernel.set_rate(pace)
    names = cluster.names
    keys = new_keys(names) if own is None else own.keys
    with_token = {keys.token(each): each for each in _configs(config)}
    page = None if own is None or own.steering is None else own.steering.page
    users = {} if page is None else {page.token: cluster.admin_user}
    users |= {token: each.user(names) for token, each in with_token.items()}
    files, authority = read_files(cluster, keys), keys.authority
    _post_keys(cluster, keys)
    context = _tls_context(authority, (where[0], *LOCAL, names.apiserver_service), files)
    listeners = await _listening(*where)
    address = f"{reached_at(where[0])}:{listeners[0].socket.getsockname()[1]}"
    try:
        trusted, entry = (authority.pem,), {**tokens, **users}
        front = make_front(cluster, entry, address, files, trusted, front_proxy=front_proxy, own=own)
        async with trio.open_nursery() as nursery:
            if own is None or own.enters:
                await begin_outside(cluster, nursery, service_addresses)
            _begin_waits(cluster, nursery, float(reaction), int(wait_for_client), own)
            most = connections_max, cluster.options.api_server.http2_streams_max
            await nursery.start(serve_at, Application(front.answer), listeners, context, *most)
            await _expose(cluster, AgentDoors(front.gateway, cluster.nodes), authority, nursery, agents)
            with cluster.kernel.aside.on_threads(), in_small_parts(cluster.kernel, cluster.storage.store):
                await ready()
                for token, each in with_token.items():
                    write_client_config(each.path, users[token], f"https://{address}", authority, token)
                yield f"https://{address}"
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise only_of(group) from None  # so that a test shows its failed assertion itself
    finally:
        for listener in listeners:
            listener.socket.close()
        cluster.kernel.outside.end()


def _configs(config: Path | Sequence[ClientConfig] | None) -> Sequence[ClientConfig]:
    """The client configurations to write."""
    return (ClientConfig(config),) if isinstance(config, Path) else config or ()


def _tls_context(authority: Authority, hosts: Sequence[str], files: Files) -> SSLContext:
    """The server's certificate, and the authorities of clients."""
    trusted = authority.pem + files.client_ca + files.front_proxy_ca
    return server_context(authority.server(tuple(dict.fromkeys(hosts))), trusted)


def _post_keys(cluster: Cluster, keys: Keys) -> None:
    """Hand the certificate and the keys of a server to its controllers."""
    if not keys.fresh:
        return
    authority = keys.authority
    manager, gate = cluster.options.controller_manager, cluster.kernel.gate
    files = files_of(cluster.plan.controller_manager)
    if not manager.root_ca_file:
        gate.post("root-ca", authority.pem.decode(), lambda _: None)
    if manager.service_account_private_key_file:
        key = key_of_controllers(manager.service_account_private_key_file, files)
        gate.post("key-of-controllers", key, lambda _: None)
    # The journal holds these keys too, so that a replay signs the same certificates.
    signing = signing_authorities(manager, cluster.names, authority.signing_pem, files)
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


def _begin_waits(
    cluster: Cluster, nursery: trio.Nursery, reaction_s: float, watches: int, own: Own | None
) -> None:
    """Let virtual time wait for clients, and the log of requests be written."""
    if own is not None and own.requests is not None:
        nursery.start_soon(own.requests.run)
    cluster.clients.reaction_s = reaction_s
    nursery.start_soon(cluster.clients.keep_reacting)
    if watches:
        nursery.start_soon(cluster.clients.hold, watches)


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
