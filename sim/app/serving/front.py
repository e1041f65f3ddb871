"""The HTTP front of a running cluster, and what it reads of the cluster.

Turns a cluster, its users and its certificates into the `Front` that answers requests: health,
metrics, discovery, authentication and audit read the cluster when a request needs them.

Mirrors  nothing upstream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from time import time_ns
from typing import Any

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from sim.api.audit.policy import LEVEL_TEXTS
from sim.api.fairness.state import debug_page
from sim.api.types import UserInfo
from sim.app.audit.outputs import AuditOutputs
from sim.app.cluster import Cluster
from sim.app.serving.identities import (
    Files,
    aggregator_pair,
    issuer_documents,
    make_authenticator,
    make_certificate_reader,
    published_authorities,
)
from sim.app.version import version
from sim.wire.http.app import Front
from sim.wire.http.audited import HttpAudit
from sim.wire.http.documents import Documents
from sim.wire.http.flow_metrics import flow_families
from sim.wire.http.gateway import Gateway
from sim.wire.http.identification import Identification
from sim.wire.http.metrics import Counts, text_format
from sim.wire.http.pages.health import checks_of, failing
from sim.wire.http.routing import parse_query


def make_front(
    cluster: Cluster,
    tokens: Mapping[str, UserInfo],
    address: str,
    files: Files,
    authorities: Sequence[bytes] = (),
) -> Front:
    """The HTTP front of a running cluster.

    tokens: users in addition to those of the options
    files: the contents of the files that the options of authentication name
    authorities: PEM certificates that are trusted in addition to those of the options
    """
    gateway = Gateway(cluster.kernel, cluster.api_servers)

    counts = Counts()

    def metrics() -> str:
        fairness = gateway.fairness()
        flows = () if fairness is None else flow_families(fairness.state())
        audited = () if cluster.audit is None else _audit_metrics(cluster.audit)
        return text_format((*_metrics(cluster), *flows, *audited, *counts.families()))

    def debug(name: str, query: str) -> str | None:
        fairness = gateway.fairness()
        if fairness is None:
            return None
        return debug_page(name, parse_query(query), fairness.state(), cluster.kernel.epoch_us)

    names = cluster.names
    checks = checks_of(names, fairness=bool(cluster.options.api_server.seats))
    scheme = partial(gateway.scheme, cluster.scheme)
    issuer = issuer_documents(cluster, files, address)
    documents = Documents(
        scheme,
        address,
        partial(_failing_checks, cluster, gateway),
        metrics,
        version(),
        checks,
        issuer,
        debug,
        gateway.delegated,
    )

    def look(resource: str, namespace: str, name: str) -> Any:
        item = cluster.storage.store.get(cluster.scheme.key(resource, namespace, name))
        return None if item is None else item.obj

    # The journal holds the key, so that a replay makes the same tokens.
    cluster.kernel.gate.post("service-account-key", files.signing.pem.decode(), lambda _: None)
    pair, aggregator_ca = aggregator_pair(cluster.options.authentication)
    cluster.api_programs.client_pair = pair
    published = published_authorities(files, cluster.options.authentication, authorities, aggregator_ca)
    cluster.kernel.gate.post("client-authorities", published, lambda _: None)
    authenticator, remote = make_authenticator(cluster, files, tokens, look, gateway.wall_us, outside_us)
    cluster.identities.authenticator = authenticator
    certificates = make_certificate_reader(files, authorities)
    audit = None
    if cluster.audit is not None and cluster.audit_settings is not None:
        audit = HttpAudit(names, cluster.audit_settings, cluster.audit, gateway.wall_us)
    return Front(
        cluster.scheme,
        gateway,
        Identification(authenticator, certificates, remote.answer),
        cluster.authorization,
        documents,
        counts,
        audit,
    )


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
    )


def outside_us() -> int:
    """Return the real time, since connections are outside of the simulation."""
    return time_ns() // 1000


def _metrics(cluster: Cluster) -> Iterator[Metric]:
    """The metric families of the simulation itself."""
    kernel, store = cluster.kernel, cluster.storage.store
    yield CounterMetricFamily(
        "orrery_virtual_time_seconds", "Virtual time since the start of the run.", kernel.now_us / 1e6
    )
    yield CounterMetricFamily(
        "orrery_work_units", "Units of work that the simulation has done.", kernel.steps
    )
    objects = GaugeMetricFamily(
        "apiserver_storage_objects",
        "Number of stored objects at the time of the last check.",
        labels=("resource",),
    )
    # A store has one series: objects served by several groups or versions are counted once, under
    # the
    # first of them.
    stored = {r.prefix: r for r in reversed(cluster.scheme.resources) if "get" in r.verbs}
    for prefix, resource in sorted(stored.items(), key=lambda pair: pair[1].group_resource):
        objects.add_metric((resource.group_resource,), len(store.bucket(prefix).items))
    yield objects


def _audit_metrics(audit: AuditOutputs) -> Iterator[Metric]:
    """The metric families of the audit (apiserver pkg/audit/metrics.go)."""
    text = "[ALPHA] Counter of audit events generated and sent to the audit backend."
    yield CounterMetricFamily("apiserver_audit_event", text, audit.sent)
    levels = CounterMetricFamily(
        "apiserver_audit_level",
        "[ALPHA] Counter of policy levels for audit events (1 per request).",
        labels=("level",),
    )
    for level, count in audit.levels.items():
        if count:
            levels.add_metric((LEVEL_TEXTS[level],), count)
    yield levels
    text = "[ALPHA] Counter of apiserver requests rejected due to an error in audit logging backend."
    yield CounterMetricFamily("apiserver_audit_requests_rejected", text, audit.refused)
