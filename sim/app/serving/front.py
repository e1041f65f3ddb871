"""The HTTP front of a running cluster, and what it reads of the cluster.

Turns a cluster, its users and its certificates into the `Front` that answers requests: health,
metrics, discovery, authentication and audit read the cluster when a request needs them.

Mirrors  nothing upstream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from time import time_ns
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from sim.api.fairness.state import debug_page
from sim.app.audit.webhook import Webhook
from sim.app.options import files_of
from sim.app.parts.services import ADDRESSES
from sim.app.serving.identities import (
    Files,
    aggregator_pair,
    issuer_documents,
    make_authenticator,
    make_certificate_reader,
    published_authorities,
)
from sim.app.serving.journal import JournalFile
from sim.app.serving.profiler import Profiler
from sim.app.serving.version import version
from sim.kernel import unheard
from sim.options.apiserver.audit import BATCH
from sim.units import Wall
from sim.wire.http.certificates import CertificateReader
from sim.wire.http.chain.audited import HttpAudit
from sim.wire.http.chain.authentication import Identification
from sim.wire.http.chain.front import Front
from sim.wire.http.documents import Documents
from sim.wire.http.gateway import Gateway
from sim.wire.http.measures.counts import Counts
from sim.wire.http.pages.health import checks_of, failing
from sim.wire.http.routing import parse_query
from sim.wire.outside.calls import OutsideSender

if TYPE_CHECKING:
    from sim.api.types import UserInfo
    from sim.app.cluster import Cluster
    from sim.app.serving.data_dir import Keys
    from sim.app.serving.request_log import RequestLog
    from sim.app.steering.routes import Stage
    from sim.wire.http.chain.request import HttpRequest


class Entrance(NamedTuple):
    """Where requests enter a cluster, and what counts them."""

    gateway: Gateway
    counts: Counts


class Own(NamedTuple):
    """What a server that a command runs has besides.

    steering: answers the control API; None for a server without one
    entrance: of the cluster, which has it already
    keys: of the server
    requests: the log of requests, None for none
    enters: False if nothing of the server enters the simulation by itself
    note: called with each answered request, the code and the real seconds that it took
    ident: makes the ids of requests, None for a series that a replay repeats
    reader: of client certificates; None for one of the options' files
    """

    steering: Stage | None
    entrance: Entrance
    keys: Keys
    requests: RequestLog | None = None
    enters: bool = True
    note: Callable[[HttpRequest, int, float], None] | None = None
    ident: Callable[[], str] | None = None
    reader: CertificateReader | None = None


def make_entrance(cluster: Cluster) -> Entrance:
    """The entrance of a cluster, once each.  A replay needs it before virtual time passes."""
    counts = Counts()
    meters, clients = counts.meters, cluster.clients
    return Entrance(Gateway(cluster.kernel, cluster.api_servers, meters=meters, clients=clients), counts)


def make_front(
    cluster: Cluster,
    tokens: Mapping[str, UserInfo],
    address: str,
    files: Files,
    authorities: Sequence[bytes] = (),
    *,
    front_proxy: bool = False,
    own: Own | None = None,
) -> Front:
    """The HTTP front of a running cluster.

    tokens: users in addition to those of the options
    files: the contents of the files that the options of authentication name
    authorities: PEM certificates that are trusted in addition to those of the options
    front_proxy: make the certificate by which aggregated servers know this one
    own: of a server that is a command's
    """
    gateway, counts = make_entrance(cluster) if own is None else own.entrance
    names, options = cluster.names, cluster.options.api_server
    pair, aggregator_ca = aggregator_pair(
        cluster.options.authentication, files_of(cluster.plan.api_server), made=front_proxy
    )
    journalled = isinstance(cluster.kernel.gate.journal, JournalFile)
    checks = checks_of(names, bool(options.seats), options.gates, proxied=bool(pair), journalled=journalled)
    issuer = issuer_documents(cluster, files, address)
    documents = Documents(
        partial(gateway.scheme, cluster.scheme),
        address,
        partial(_failing_checks, cluster, gateway),
        partial(_metrics, cluster, gateway, counts),
        partial(_about, cluster, gateway),
        checks,
        issuer,
        partial(_debug, gateway),
        gateway.listed,
        gateway.aggregated,
        logs=options.logs_handler,
        profiling=options.profiling,
        gates=options.gates,
    )
    # The journal holds the key, so that a replay makes the same tokens.
    post = cluster.kernel.gate.post if own is None or own.keys.fresh else lambda *_: None
    post("service-account-key", files.signing.pem.decode(), unheard)
    cluster.api_programs.client_pair = pair
    published = published_authorities(files, cluster.options.authentication, authorities, aggregator_ca)
    post("client-authorities", published, unheard)
    reader = (None if own is None else own.reader) or make_certificate_reader(files, authorities)
    authenticator, remote = make_authenticator(
        cluster, files, tokens, partial(_object, cluster), gateway.wall_us, outside_us
    )
    cluster.identities.authenticator = authenticator
    return Front(
        cluster.scheme,
        gateway,
        Identification(authenticator, reader, remote.answer),
        cluster.authorization,
        cluster.authorization.covers,
        documents,
        counts,
        _audit(cluster, gateway),
        gates=options.gates,
        added=options.added_headers,
        profile=Profiler().profile if options.profiling else None,
        known=(own.steering,) if own and own.steering else (),
        unknown=(own.steering.page,) if own and own.steering and own.steering.page else (),
        note=_note(own),
        goaway=_leaving(options.goaway_chance),
        ident=None if own is None else own.ident,
    )


def _metrics(cluster: Cluster, gateway: Gateway, counts: Counts, process: str) -> str:
    """The page of metrics; a server without a reader of it needs no package for metrics."""
    from sim.app.serving.metrics_page import metrics_text

    return metrics_text(cluster, gateway, counts, version(), process)


def _leaving(chance: float) -> Callable[[], bool] | None:
    """What decides that a connection ends with a request; None if none does."""
    draw = Random().random
    return (lambda: draw() < chance) if chance else None


def _note(own: Own | None) -> Callable[[HttpRequest, int, float], None] | None:
    """What takes note of requests."""
    if own is None:
        return None
    return own.requests.note if own.requests is not None else own.note


def _object(cluster: Cluster, resource: str, namespace: str, name: str) -> Any:
    """A stored object, None if there is none."""
    item = cluster.storage.store.get(cluster.scheme.key(resource, namespace, name))
    return None if item is None else item.obj


def _debug(gateway: Gateway, name: str, query: str) -> str | None:
    """A page about priority and fairness; None while it is off."""
    fairness = gateway.fairness()
    if fairness is None:
        return None
    return debug_page(name, parse_query(query), fairness.state(), gateway.kernel.epoch_us)


def _audit(cluster: Cluster, gateway: Gateway) -> HttpAudit | None:
    """The audit of requests; None without one."""
    if cluster.audit is None or cluster.audit_settings is None:
        return None
    return HttpAudit(cluster.names, cluster.audit_settings, cluster.audit, gateway.wall_us)


def _about(cluster: Cluster, gateway: Gateway) -> Mapping[str, str]:
    """The fields of /version, of the server that answers."""
    serving = gateway.serving()
    given = next((server.version for server in cluster.api_servers.values() if server is serving), "")
    return {**version(), "minor": given.split(".")[1], "gitVersion": given} if given else version()


def _failing_checks(cluster: Cluster, gateway: Gateway, what: str) -> tuple[str, ...]:
    """The checks of a health path that fail now."""
    server = gateway.serving()
    now_us, grace_us = cluster.kernel.outside_now_us(), cluster.options.api_server.livez_grace_us
    return failing(
        cluster.names,
        what,
        running=server is not None,
        ready=server is not None and server.ready,
        synced=server is not None and server.synced,
        stored=cluster.storage.healthy,
        graced=server is not None and now_us - server.started_us < grace_us,
        kept=cluster.kernel.gate.kept,
    )


def outside_us() -> Wall:
    """Return the real time, since connections are outside of the simulation."""
    return Wall(time_ns() // 1000)


def read_files(cluster: Cluster, keys: Keys) -> Files:
    """The contents of the files that the options of authentication name.  Raises InputError."""
    return Files.read(cluster.options.authentication, keys.signing, files_of(cluster.plan.api_server))


async def begin_outside(
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
