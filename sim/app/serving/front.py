"""The HTTP front of a running cluster, and what it reads of the cluster.

Turns a cluster, its users and its certificates into the `Front` that answers requests: health,
metrics, discovery, authentication and audit read the cluster when a request needs them.

Mirrors  nothing upstream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from time import time_ns
from typing import Any, NamedTuple

from sim.api.fairness.state import debug_page
from sim.api.types import UserInfo
from sim.app.cluster import Cluster
from sim.app.serving.data_dir import Keys
from sim.app.serving.identities import (
    Files,
    aggregator_pair,
    issuer_documents,
    make_authenticator,
    make_certificate_reader,
    published_authorities,
)
from sim.app.serving.journal import JournalFile
from sim.app.serving.metrics_page import metrics_text
from sim.app.serving.profiler import Profiler
from sim.app.serving.version import version
from sim.app.steering.routes import Steering
from sim.kernel import unheard
from sim.units import Wall
from sim.wire.http.chain.audited import HttpAudit
from sim.wire.http.chain.authentication import Identification
from sim.wire.http.chain.front import Front
from sim.wire.http.documents import Documents
from sim.wire.http.gateway import Gateway
from sim.wire.http.measures.counts import Counts
from sim.wire.http.pages.health import checks_of, failing
from sim.wire.http.routing import parse_query


class Entrance(NamedTuple):
    """Where requests enter a cluster, and what counts them."""

    gateway: Gateway
    counts: Counts


class Own(NamedTuple):
    """What a server that a command runs has besides.

    steering: answers the control API
    entrance: of the cluster, which has it already
    keys: of the server
    """

    steering: Steering
    entrance: Entrance
    keys: Keys


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
    about = version()
    names, options = cluster.names, cluster.options.api_server
    pair, aggregator_ca = aggregator_pair(cluster.options.authentication, made=front_proxy)
    journalled = isinstance(cluster.kernel.gate.journal, JournalFile)
    checks = checks_of(names, bool(options.seats), options.gates, proxied=bool(pair), journalled=journalled)
    issuer = issuer_documents(cluster, files, address)
    documents = Documents(
        partial(gateway.scheme, cluster.scheme),
        address,
        partial(_failing_checks, cluster, gateway),
        partial(metrics_text, cluster, gateway, counts, about),
        about,
        checks,
        issuer,
        partial(_debug, gateway),
        gateway.listed,
        gateway.aggregated,
        logs=options.logs_handler,
        profiling=options.profiling,
        gates=options.gates,
    )

    def look(resource: str, namespace: str, name: str) -> Any:
        item = cluster.storage.store.get(cluster.scheme.key(resource, namespace, name))
        return None if item is None else item.obj

    # The journal holds the key, so that a replay makes the same tokens.
    post = cluster.kernel.gate.post if own is None or own.keys.fresh else lambda *_: None
    post("service-account-key", files.signing.pem.decode(), unheard)
    cluster.api_programs.client_pair = pair
    published = published_authorities(files, cluster.options.authentication, authorities, aggregator_ca)
    post("client-authorities", published, unheard)
    authenticator, remote = make_authenticator(cluster, files, tokens, look, gateway.wall_us, outside_us)
    cluster.identities.authenticator = authenticator
    return Front(
        cluster.scheme,
        gateway,
        Identification(authenticator, make_certificate_reader(files, authorities), remote.answer),
        cluster.authorization,
        cluster.authorization.covers,
        documents,
        counts,
        _audit(cluster, gateway),
        gates=options.gates,
        added=options.added_headers,
        profile=Profiler().profile if options.profiling else None,
        known=() if own is None else (own.steering,),
        unknown=() if own is None else (own.steering.page,),
    )


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
        stored=cluster.storage.prompt,
        graced=server is not None and now_us - server.started_us < grace_us,
        kept=cluster.kernel.gate.kept,
    )


def outside_us() -> Wall:
    """Return the real time, since connections are outside of the simulation."""
    return Wall(time_ns() // 1000)
