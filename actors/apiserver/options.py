"""The options of an API server replica, as values."""

from __future__ import annotations

from sim.api.admission.configuration import Configuration
from sim.api.admission.plugins.pods.default_tolerations import Defaults
from sim.api.audit.settings import AuditSettings
from sim.api.auth.abac import Policy
from sim.api.auth.webhook_authorizer import WebhookSettings
from sim.api.schema.resource import Resource
from sim.dataclass import dataclass
from sim.options.apiserver.server import ReplicaFlags

UPSTREAM, PLAIN = Defaults(), Configuration()
# pkg/kubeapiserver/default_storage_factory_builder.go: DefaultWatchCacheSizes
UNCACHED = ("events",)


@dataclass(frozen=True, slots=True)
class ApiServerOptions(ReplicaFlags):
    """The options of one replica: those of `ReplicaFlags`, and what follows from the other flags.

    seats: number of seats of priority and fairness, for which requests wait while requests take
        time; 0: priority and fairness is off
    max_...: limits of requests in flight, beyond which new ones get 429.  None by default, since
        seats take their place.
    replicas: number of servers of the cluster, with this one
    admission: the configuration of admission plugins
    checks_fields: True if clients may request validation of unknown fields
    gates: feature gates with another value than their default
    cached, uncached: resources (as PLURAL.GROUP) with a cache although they have none by default,
        and without one although they have one by default
    audit: which requests are recorded, and how; None: none
    authorization_modes, policies: the authorizers in order, and the policies of the mode ABAC
    authorization_webhook: settings of the mode Webhook; None without it
    cache_lag_us: how far the watch caches are behind the storage
    capacity_nano: the server's processors, in thousand millionths; 0: requests cost no time
    """

    seats: int = 600
    max_requests_inflight: int | None = None
    max_mutating_requests_inflight: int | None = None
    admission: Configuration = PLAIN
    tolerations: Defaults = UPSTREAM
    replicas: int = 1
    checks_fields: bool = True
    gates: tuple[str, ...] = ()
    cached: frozenset[str] = frozenset()
    uncached: frozenset[str] = frozenset()
    audit: AuditSettings | None = None
    authorization_modes: tuple[str, ...] = ("AlwaysAllow",)
    policies: tuple[Policy, ...] = ()
    authorization_webhook: WebhookSettings | None = None
    # From the storage to the replica: the middle of sim.kernel.network's default link.
    cache_lag_us: int = 500
    capacity_nano: int = 0

    @property
    def added_headers(self) -> tuple[tuple[str, str], ...]:
        """Headers of all answers."""
        secured = "; ".join(self.transport_security)
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
