"""An API server that runs alone.

Turns its options into a process with one API server and its storage, which clients reach over
HTTPS.

Holds: the port is the server's own before anything is written.

Mirrors  kubernetes v1.25 cmd/kube-apiserver/app/server.go (Run).
"""

from __future__ import annotations

import logging
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

import trio

from sim.app.daemons.apiserver import requests
from sim.app.daemons.apiserver.authorities import ClientAuthorities
from sim.app.daemons.apiserver.composition import ServerAlone, reach_of
from sim.app.daemons.apiserver.ending import FAILED, LAST_S, Ending
from sim.app.daemons.apiserver.listening import listeners_at
from sim.app.daemons.durable import DurableStore
from sim.app.daemons.group_commit import GroupCommit, batches
from sim.app.daemons.options import options_in, split, with_documents
from sim.app.daemons.serving_tls import ServingTls
from sim.app.process.small_parts import in_small_parts
from sim.app.serving.data_dir import Keys, keep_keys, keys_in, new_keys
from sim.app.serving.front import (
    Entrance,
    Own,
    begin_outside,
    make_entrance,
    make_front,
    outside_us,
    read_files,
)
from sim.app.serving.identities import Files
from sim.app.serving.version import GIT_VERSION
from sim.errors import InputError, only_of
from sim.ident import Names
from sim.kernel import NEVER_US
from sim.options.apiserver.alone import ReachFlags
from sim.options.apiserver.server import ApiServerFlags
from sim.options.apiserver.storage import StorageFlags
from sim.options.groups.listening import ListenFlags
from sim.options.groups.logs import LogFlags
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.version import __version__
from sim.wire.http.app import Application
from sim.wire.http.certificates import CertificateReader
from sim.wire.http.fronts.server import serve_at

if TYPE_CHECKING:
    from sim.app.daemons.apiserver.clock import ServerClock
    from sim.units import Wall
    from sim.wire.rest.access import Credentials

LOG = logging.getLogger(__name__)
NONE = ComponentPlan(replicas=0)


class Start(NamedTuple):
    """What a server begins with.

    verbosity: of -v
    folder: for its keys; None to forget them
    following: the clock that it follows; None for the wall clock
    """

    cluster: ServerAlone
    listen: ListenFlags
    durable: DurableStore | None
    verbosity: int
    folder: Path | None
    following: ServerClock | None = None


def run(names: Names, values: Mapping[str, object], _: Callable[[int], None]) -> int:
    """Run an API server; returns the exit status.  Raises InputError."""
    listen: ListenFlags = options_in(ListenFlags, values, names)
    flags = split(ApiServerFlags, with_documents(ApiServerFlags, values, names), names)
    server = ComponentPlan(flags=flags, places={name: f"--{name}" for name in flags})
    plan = ClusterPlan(
        naming=names.naming, api_server=server, controller_manager=NONE, scheduler=NONE, served=True
    )
    reach_flags: ReachFlags = options_in(ReachFlags, values, names)
    reach = reach_of(reach_flags, listen, names.short)
    storage: StorageFlags = options_in(StorageFlags, with_documents(StorageFlags, values, names), names)
    logs: LogFlags = options_in(LogFlags, values, names)
    LOG.info("Version: %s (Orrery %s)", GIT_VERSION, __version__)
    if not reach_flags.external_hostname:
        LOG.info("external host was not specified, using %s", reach.host)
    # As in `serve`: the busy loop would keep threads waiting, that of the disk too.
    sys.setswitchinterval(0.0005)
    clock: Credentials | None = None
    if "clock" in values or "clock-config" in values:
        from sim.app.daemons.clock import clock_of

        clock = clock_of(names, values, None)

    async def serve(seed: int, epoch_us: Wall, following: ServerClock | None = None) -> int:
        common = (seed, epoch_us)
        if storage.etcd_servers:
            from sim.app.daemons.apiserver.etcd import ServerOverEtcd

            cluster = ServerOverEtcd(plan, reach, *common, storage)
            # Tokens that this server has signed are in etcd too.
            folder = None if "service-account-signing-key-file" in flags else Path(listen.cert_dir)
            start = Start(cluster, listen, None, logs.verbosity, folder, following)
            return await cluster.run(partial(_run, start))
        data_dir = Path(storage.data_dir) if storage.data_dir else None
        durable = DurableStore(data_dir, names.naming, epoch_us) if data_dir else None
        alone = ServerAlone(plan, reach, *common)
        return await _run(Start(alone, listen, durable, logs.verbosity, data_dir, following))

    if clock is None:
        return trio.run(serve, secrets.randbits(53), outside_us())
    return trio.run(_follow, clock, serve)


async def _follow(clock: Credentials, serve: Callable[[int, Wall, ServerClock], Awaitable[int]]) -> int:
    """Serve in the time of a clock; returns the exit status.  Raises InputError."""
    from sim.app.daemons.apiserver.clock import ServerClock

    following = ServerClock(clock)
    try:
        async with trio.open_nursery() as nursery:
            status = await serve(*await following.attach(nursery), following)
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise only_of(group) from None
    return status


async def _run(start: Start) -> int:
    async with listeners_at(start.listen) as listeners:
        return await _run_at(start, listeners)


async def _run_at(start: Start, listeners: Sequence[trio.SocketListener]) -> int:
    cluster, durable = start.cluster, start.durable
    service = str(IPv4Network(cluster.options.api_server.service_cidr)[1])
    own = cluster.names.apiserver_service
    hosts = (cluster.reach.address, own, f"{own}.default", f"{own}.default.svc", "localhost", "127.0.0.1")
    folder = start.folder
    keys = new_keys(cluster.names) if folder is None else keys_in(folder, cluster.names)
    files = read_files(cluster, keys)
    authorities = ClientAuthorities(cluster.options.authentication, files)
    trusted = authorities.present if authorities.has_any else None
    tls = ServingTls(start.listen, "apiserver", (*hosts, service), trusted)
    commits = None
    if durable is not None:
        durable.open(cluster.storage.store, cluster.options.api_server.compaction_interval_us)
        commits = GroupCommit(durable)
    if folder is not None:
        if keys.fresh:
            _keep(folder, keys)
        keys.fresh = True  # this process has not been given them
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with cluster:
            entrance = make_entrance(cluster)
            if commits is not None:
                entrance.gateway.before_news = commits.before_news
            await cluster.run_until(cluster.kernel.now_us)
            following = start.following
            if following is not None:
                following.join(cluster.kernel, cluster.clients.turns)
            else:
                cluster.kernel.set_goal(NEVER_US)
                cluster.kernel.set_rate(1)
            retries = cluster.options.api_server.shutdown_send_retry_after
            leave = following.leave if following is not None else lambda: None
            ending = Ending(cluster.supervisor, cluster.server.name, answers=retries, begins=leave)
            own_parts = entrance, keys, files, authorities.reader
            async with (
                batches(commits),
                _served(start, tls, listeners, ending, own_parts),
                trio.open_nursery() as nursery,
            ):
                if following is not None:
                    nursery.start_soon(_live, following, ending)
                await cluster.ready()
                LOG.info("Serving securely on %s:%d", *listeners[0].socket.getsockname()[:2])
                nursery.start_soon(ending.follow, signals)
                await ending.ended.wait()
                nursery.cancel_scope.cancel()
    is_broken = commits is not None and commits.tell_failure()
    if durable is not None:
        durable.close(flushes=not is_broken)
    return FAILED if is_broken else ending.status


async def _live(following: ServerClock, ending: Ending) -> None:
    """Follow a clock, and end with it."""
    if not await following.live():
        ending.ended.set()


def _keep(folder: Path, keys: Keys) -> None:
    """Write the keys of a server.  Raises InputError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        keep_keys(folder, keys)
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}", "--cert-dir", "name another folder") from None


@asynccontextmanager
async def _served(
    start: Start,
    tls: ServingTls,
    listeners: Sequence[trio.SocketListener],
    ending: Ending,
    own: tuple[Entrance, Keys, Files, CertificateReader],
) -> AsyncIterator[None]:
    """Serve until the body ends, and then until clients have their last answers."""
    cluster, (entrance, keys, files, reader) = start.cluster, own
    host, port = cluster.reach.host, start.listen.secure_port
    steering = None if start.following is None else start.following.stage()
    note = requests.note if start.verbosity >= requests.LEVEL else None
    front = make_front(
        cluster,
        {},
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        files,
        own=Own(steering, entrance, keys, note=note, ident=lambda: str(uuid4()), reader=reader),
    )
    done = trio.Event()

    async def serve(task_status: trio.TaskStatus[int]) -> None:
        streams_max = cluster.options.api_server.http2_streams_max
        await serve_at(
            Application(front.answer),
            listeners,
            tls.context,
            None,
            streams_max,
            drain=ending.drains,
            task_status=task_status,
        )
        done.set()

    async with trio.open_nursery() as nursery:
        await begin_outside(cluster, nursery, {})
        await nursery.start(serve)
        with cluster.kernel.aside.on_threads(), in_small_parts(cluster.kernel, cluster.storage.store):
            yield
        with trio.move_on_after(LAST_S):
            await done.wait()
        nursery.cancel_scope.cancel()
    cluster.kernel.outside.end()
