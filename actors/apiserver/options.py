"""What an API server replica goes by, as values."""

from __future__ import annotations

from dataclasses import dataclass

from sim.api.admission.configuration import Configuration
from sim.api.admission.plugins.default_tolerations import Defaults
from sim.api.audit.settings import AuditSettings
from sim.api.auth.abac import Policy
from sim.api.schema.resource import Resource
from sim.units import SECOND

UPSTREAM, PLAIN = Defaults(), Configuration()
# pkg/kubeapiserver/default_storage_factory_builder.go: DefaultWatchCacheSizes
UNCACHED = ("events",)


@dataclass(frozen=True, slots=True)
class ApiServerOptions:
    """Flags of a replica (sim.options.api_server reads them), and how far its caches are from the
    storage.

    seats: that priority and fairness shares out; beyond them requests wait, if others take time.
        0: it is off.
    max_...: requests in flight beyond which new ones get 429.  None by default: seats take their
        place. compaction_interval_us, event_ttl_us 0: never.
    replicas: servers of the cluster, this one among them.
    disabled_admission, enabled_admission: names of admission plugins; admission: their configuration.
    collects: deletions may wait for the garbage collector.
    checks_fields: clients may ask whether there are fields that nobody knows.
    gates: of features that are on though they are off by default.
    shutdown_delay_us: how long it goes on serving when it is asked to end; sends_retry_after: and
        what it says then (`actors.apiserver.lifecycle.graceful_termination`).
    watch_cache: there are watch caches; cached, uncached: resources (as PLURAL.GROUP) that have one
        though they have none by default, and the other way round.
    goaway_chance: that a reply ends its connection (`goaway`).
    audit: what is recorded of requests, and how; None: nothing is.
    authorization_modes, policies: the authorizers in order, and what the mode ABAC allows.
    """

    seats: int = 600
    max_requests_inflight: int | None = None
    max_mutating_requests_inflight: int | None = None
    compaction_interval_us: int = 300 * SECOND
    service_cidr: str = "10.0.0.0/24"
    disabled_admission: tuple[str, ...] = ()
    enabled_admission: tuple[str, ...] = ()
    admission: Configuration = PLAIN
    event_ttl_us: int = 3600 * SECOND
    request_timeout_us: int = 60 * SECOND
    min_watch_us: int = 1800 * SECOND
    tolerations: Defaults = UPSTREAM
    replicas: int = 1
    collects: bool = True
    checks_fields: bool = True
    gates: tuple[str, ...] = ()
    node_ports: range = range(30000, 32768)
    shutdown_delay_us: int = 0
    sends_retry_after: bool = False
    watch_cache: bool = True
    cached: frozenset[str] = frozenset()
    uncached: frozenset[str] = frozenset()
    goaway_chance: float = 0.0
    audit: AuditSettings | None = None
    authorization_modes: tuple[str, ...] = ("AlwaysAllow",)
    policies: tuple[Policy, ...] = ()
    cache_lag_us: int = 500  # storage to replica: the middle of sim.kernel.network's default link

    def has_cache(self, resource: Resource) -> bool:
        """Whether a resource has a watch cache; else its lists and watches are the storage's."""
        if resource.custom or not self.watch_cache:
            return self.watch_cache
        name = resource.group_resource
        return name in self.cached if resource.rule in UNCACHED else name not in self.uncached
