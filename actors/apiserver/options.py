"""The options of an API server replica, as values."""

from __future__ import annotations

from dataclasses import dataclass

from sim.api.admission.configuration import Configuration
from sim.api.admission.plugins.pods.default_tolerations import Defaults
from sim.api.audit.settings import AuditSettings
from sim.api.auth.abac import Policy
from sim.api.auth.webhook_authorizer import WebhookSettings
from sim.api.schema.resource import Resource
from sim.units import SECOND

UPSTREAM, PLAIN = Defaults(), Configuration()
# pkg/kubeapiserver/default_storage_factory_builder.go: DefaultWatchCacheSizes
UNCACHED = ("events",)


@dataclass(frozen=True, slots=True)
class ApiServerOptions:
    """The options of one replica; `sim.options.apiserver.server` reads them from flags.

    seats: number of seats of priority and fairness, for which requests wait while requests take
    time;
        0: priority and fairness is off
    max_...: limits of requests in flight, beyond which new ones get 429.  None by default, since
    seats
        take their place.
    compaction_interval_us, event_ttl_us: 0 means never
    replicas: number of servers of the cluster, with this one
    disabled_admission, enabled_admission: names of admission plugins; admission: their
    configuration
    collects: True if deletions may wait for the garbage collector
    checks_fields: True if clients may request validation of unknown fields
    gates: feature gates with another value than their default
    shutdown_delay_us: how long the server continues to serve after SIGTERM
    sends_retry_after: True if it then refuses new requests with Retry-After
        (`actors.apiserver.lifecycle.graceful_termination`)
    watch_cache: True if there are watch caches
    cached, uncached: resources (as PLURAL.GROUP) with a cache although they have none by default,
    and
        without one although they have one by default
    goaway_chance: probability that a reply ends its connection (`goaway`)
    audit: which requests are recorded, and how; None: none
    authorization_modes, policies: the authorizers in order, and the policies of the mode ABAC
    authorization_webhook: settings of the mode Webhook; None without it
    cache_lag_us: how far the watch caches are behind the storage
    profiling, logs_handler: True if /debug/pprof and /logs are served
    http2_streams_max: requests at a time on one connection of HTTP/2; 0: upstream's default
    livez_grace_us: time after a start in which /livez counts hooks as passed
    identity_lease_s, identity_renew_us: duration and renewal of the lease of a server's identity
    transport_security: the header Strict-Transport-Security of all answers; "" for none
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
    authorization_webhook: WebhookSettings | None = None
    # From the storage to the replica: the middle of sim.kernel.network's default link.
    cache_lag_us: int = 500
    livez_grace_us: int = 0
    http2_streams_max: int = 0
    profiling: bool = True
    logs_handler: bool = True
    identity_lease_s: int = 3600
    identity_renew_us: int = 10 * SECOND
    transport_security: str = ""

    @property
    def added_headers(self) -> tuple[tuple[str, str], ...]:
        """Headers of all answers."""
        secured = self.transport_security
        return (("Strict-Transport-Security", secured),) if secured else ()

    @property
    def asks(self) -> bool:
        """True if a service outside may have to judge a request."""
        return self.authorization_webhook is not None or bool(self.admission.image_policy.kubeconfig)

    def has_cache(self, resource: Resource) -> bool:
        """True if a resource has a watch cache; the storage answers its lists and watches if not."""
        if resource.custom or not self.watch_cache:
            return self.watch_cache
        name = resource.group_resource
        return name in self.cached if resource.rule in UNCACHED else name not in self.uncached
