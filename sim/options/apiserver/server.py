"""Options of the API server.

Turns `--name value` pairs into `ApiServerFlags`, by `parse_api_server`.

Holds: every field has the effect it names; an option that would have none as others are set is
refused.

Mirrors  kubernetes v1.25 cmd/kube-apiserver/app/options, apiserver pkg/server/options: defaults of
         v1.25.
Differs  authorization-mode is Node,RBAC by default, as kubeadm sets it; upstream's default is
         AlwaysAllow. allow-privileged is true by default, likewise; upstream's default is false.
         With priority and fairness the two limits count as their sum, in seats, and only while
         requests take time (a slow storage, an overload): otherwise a request is over at the
         instant it comes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import IPv4Network

from sim.dataclass import dataclass
from sim.errors import InputError
from sim.ident import NAMES, Names
from sim.options.apiserver.audit import AuditFlags, check_audit
from sim.options.apiserver.authentication import AuthenticationFlags
from sim.options.base import (
    at_least,
    boolean,
    document,
    duration,
    file_name,
    long_integer,
    more_than,
    not_faster,
    number,
    one_of,
    option,
    parse,
    string,
    strings,
    switches,
    within,
)
from sim.options.features.gates import NO_PRIVILEGED, enabled, feature_gates, of_api_server
from sim.options.groups.access import AccessReviewFlags
from sim.options.groups.metrics import MetricsFlags
from sim.patterns import pattern
from sim.units import MS

WEBHOOK = "Webhook"
MODES = ("AlwaysAllow", "AlwaysDeny", "ABAC", WEBHOOK, "RBAC", "Node")
WEBHOOK_FILE = "authorization-webhook-config-file"
AUTHORIZATION_MODE, POLICY_FILE = "authorization-mode", "authorization-policy-file"
LIMITS = ("max-requests-inflight", "max-mutating-requests-inflight")
FAIRNESS = "enable-priority-and-fairness"


GOAWAY_MAX = 0.02  # apiserver pkg/server/options/server_run_options.go
ADDRESSES_MIN, PREFIX_MIN, PORT_MAX = 8, 12, 65535


def _directives(value: tuple[str, ...]) -> str | None:
    """Mirrors apiserver pkg/server/options/server_run_options.go (validateHSTSDirectives)."""
    for each in value:
        name, sign, age = each.partition("=")
        if each not in ("includeSubDomains", "preload") and (name != "max-age" or not sign or "=" in age):
            return "invalid, allowed values: max-age=expireTime, includeSubDomains, preload"
    return None


def _network(value: str) -> str | None:
    try:
        result = IPv4Network(value)
    except ValueError as problem:
        return f"must be a network such as 10.0.0.0/24: {problem}"
    # pkg/controlplane/services.go, cmd/kube-apiserver/app/options/validation.go
    if result.num_addresses < ADDRESSES_MIN:
        return f"must be at least {ADDRESSES_MIN} IP addresses"
    if result.prefixlen < PREFIX_MIN:
        return f"is too large; for 32-bit addresses, the mask must be >= {PREFIX_MIN}"
    return None


def _sizes(value: object) -> Mapping[str, int]:
    """Numbers by resource, from "pods#0,deployments.apps#0" or a list (etcd.go:
    ParseWatchCacheSizes).
    """
    result = {}
    for entry in strings(value):
        resource, sign, size = entry.partition("#")
        if not sign or not re.fullmatch("[0-9]{1,9}", size):
            raise ValueError("sizes such as pods#0,deployments.apps#0")
        result[resource] = int(size)
    return result


_PORTS = pattern(r"([0-9]{1,5})(?:([-+])([0-9]{1,5}))?")


def _ports(value: object) -> range:
    """The ports of "30000-32767", "30000+100" or one: apimachinery util/net/port_range.go."""
    result = _PORTS.fullmatch(str(value)) if isinstance(value, str | int) else None
    if result is None:
        raise ValueError("ports such as 30000-32767")
    first, number = int(result[1]), int(result[3] or 0)
    last = number if result[2] == "-" else first + number - 1 if result[2] else first
    if last < first:
        raise ValueError("ports such as 30000-32767, of which the last is not before the first")
    if not 0 < first <= last <= PORT_MAX:
        raise ValueError(f"ports from 1 to {PORT_MAX}")
    return range(first, last + 1)


def _known_modes(modes: tuple[str, ...]) -> str | None:
    """Mirrors pkg/kubeapiserver/options/authorization.go (Validate)."""
    if not modes:
        return "at least one authorization-mode must be passed"
    for mode in modes:
        if mode not in MODES:
            return f"{mode!r} is not a valid mode; there are {', '.join(MODES)}"
    if len(set(modes)) != len(modes):
        return f"{','.join(modes)!r} has mode specified more than once"
    return None


@dataclass(frozen=True)  # without slots: it is one of several bases
class ReplicaFlags:
    """The options that a replica acts on as they are given."""

    request_timeout_us: int = option("request-timeout", duration, "1m0s", check=more_than(0))
    min_request_timeout_s: int = option("min-request-timeout", long_integer, 1800, check=at_least(1))
    event_ttl_us: int = option("event-ttl", duration, "1h0m0s")
    compaction_interval_us: int = option(
        "etcd-compaction-interval", duration, "5m0s", check=not_faster(MS, zero=True)
    )
    service_cidr: str = option("service-cluster-ip-range", string, "10.0.0.0/24", check=_network)
    node_ports: range = option("service-node-port-range", _ports, "30000-32767")
    enable_garbage_collector: bool = option("enable-garbage-collector", boolean, True)
    disabled_admission: tuple[str, ...] = option("disable-admission-plugins", strings, "")
    enabled_admission: tuple[str, ...] = option("enable-admission-plugins", strings, "")
    identity_lease_s: int = option("identity-lease-duration-seconds", long_integer, 3600, check=more_than(0))
    identity_renew_s: int = option(
        "identity-lease-renew-interval-seconds", long_integer, 10, check=more_than(0)
    )
    transport_security: tuple[str, ...] = option(
        "strict-transport-security-directives", strings, "", check=_directives
    )
    watch_cache: bool = option("watch-cache", boolean, True)
    goaway_chance: float = option("goaway-chance", number, 0, check=within(0, GOAWAY_MAX))
    profiling: bool = option("profiling", boolean, True)
    logs_handler: bool = option("enable-logs-handler", boolean, True)
    http2_streams_max: int = option(
        "http2-max-streams-per-connection", long_integer, 0, check=within(0, 2**31 - 1)
    )
    livez_grace_us: int = option("livez-grace-period", duration, "0s", check=at_least(0))
    shutdown_delay_us: int = option("shutdown-delay-duration", duration, "0s")
    shutdown_send_retry_after: bool = option("shutdown-send-retry-after", boolean, False)


@dataclass(frozen=True, slots=True)
class ApiServerFlags(AuthenticationFlags, AccessReviewFlags, AuditFlags, MetricsFlags, ReplicaFlags):
    """The options of every API server replica."""

    authorization_modes: tuple[str, ...] = option(
        AUTHORIZATION_MODE, strings, "Node,RBAC", check=_known_modes
    )
    authorization_webhook_file: str = option(WEBHOOK_FILE, file_name, "")
    authorization_webhook_version: str = option(
        "authorization-webhook-version", string, "v1beta1", check=one_of("v1", "v1beta1")
    )
    authorization_policy_file: str = option(POLICY_FILE, file_name, "")
    priority_and_fairness: bool = option(FAIRNESS, boolean, True)
    max_requests_inflight: int = option(LIMITS[0], long_integer, 400, check=at_least(0))
    max_mutating_requests_inflight: int = option(LIMITS[1], long_integer, 200, check=at_least(0))
    admission_configuration: Mapping[str, object] = option("admission-control-config-file", document, {})
    feature_gates: Mapping[str, str] = feature_gates("ApiServerFlags")
    runtime_config: Mapping[str, str] = option("runtime-config", switches, "")
    allow_privileged: bool = option("allow-privileged", boolean, True)
    not_ready_toleration_s: int = option("default-not-ready-toleration-seconds", long_integer, 300)
    unreachable_toleration_s: int = option("default-unreachable-toleration-seconds", long_integer, 300)

    watch_cache_sizes: Mapping[str, int] = option("watch-cache-sizes", _sizes, "")

    @property
    def changed_gates(self) -> tuple[str, ...]:
        """The gates with another value than their default, and what acts like one."""
        gates = of_api_server(self.feature_gates)
        return gates if self.allow_privileged else (*gates, NO_PRIVILEGED)

    @property
    def fair(self) -> bool:
        """True if requests wait for seats: the option and its feature gate are on."""
        return self.priority_and_fairness and enabled(self.feature_gates, "APIPriorityAndFairness")


def parse_api_server(
    given: Mapping[str, object],
    *,
    names: Names = NAMES["orch"],
    place: str = "",
    places: Mapping[str, str] | None = None,
) -> ApiServerFlags:
    """The options from names (with or without `--`) to texts or YAML values; InputError names the
    place.
    """
    flags = parse(ApiServerFlags, given, names=names, place=place, places=places)
    check_audit(flags, given, names, place, places)
    _check_policy_file(flags, places or {}, place)
    if flags.watch_cache_sizes and not flags.watch_cache:
        where = (places or {}).get("watch-cache-sizes", place)
        raise InputError("option watch-cache-sizes has no effect while watch-cache is false", where)
    if flags.fair and not flags.max_requests_inflight + flags.max_mutating_requests_inflight:
        limited = [name for name in given if name.removeprefix("--") in LIMITS]
        where = (places or {}).get(limited[0], place)
        raise InputError(
            f"options {' and '.join(LIMITS)} leave no seats while {FAIRNESS} is true",
            where,
            f"make one more than 0, or set {FAIRNESS}: false",
        )
    return flags


def _check_policy_file(flags: ApiServerFlags, places: Mapping[str, str], place: str) -> None:
    """Mirrors pkg/kubeapiserver/options/authorization.go (Validate)."""
    target = "ABAC" in flags.authorization_modes
    if target and not flags.authorization_policy_file:
        text = f"{AUTHORIZATION_MODE} ABAC's authorization policy file not passed"
        raise InputError(text, places.get(AUTHORIZATION_MODE, place), f"set {POLICY_FILE}")
    if flags.authorization_policy_file and not target:
        text = f"cannot specify {POLICY_FILE} without mode ABAC"
        raise InputError(text, places.get(POLICY_FILE, place), f"{AUTHORIZATION_MODE}: ABAC,Node,RBAC")
    request = WEBHOOK in flags.authorization_modes
    if request and not flags.authorization_webhook_file:
        text = f"{AUTHORIZATION_MODE} Webhook's authorization config file not passed"
        raise InputError(text, places.get(AUTHORIZATION_MODE, place), f"set {WEBHOOK_FILE}")
    if flags.authorization_webhook_file and not request:
        text = f"cannot specify {WEBHOOK_FILE} without mode Webhook"
        raise InputError(text, places.get(WEBHOOK_FILE, place), f"{AUTHORIZATION_MODE}: Node,RBAC,Webhook")
