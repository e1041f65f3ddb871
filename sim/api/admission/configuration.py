"""Configuration of admission plugins: an AdmissionConfiguration document becomes `Configuration`.

The document names plugins, each with a configuration of its own kind.  `ValueError` says what is
wrong and where in the document.

Mirrors  kubernetes v1.25 apiserver pkg/admission/config.go, pkg/apis/apiserver/v1; the
         configuration kinds of PodSecurity, PodNodeSelector, PodTolerationRestriction,
         EventRateLimit and ResourceQuota with their defaults and validation.
Differs  a plugin that takes no configuration is refused if it is given one; upstream ignores that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from sim.api.admission.plugins.event_rate_limit import EventLimit
from sim.api.admission.plugins.pods.image_policy import NAME as IMAGE_POLICY
from sim.api.admission.plugins.pods.image_policy import ImagePolicy
from sim.api.admission.plugins.pods.node_selector import SelectorMistake, labels_of_selector
from sim.api.admission.plugins.pods.security import (
    Exemptions,
    PodSecurityLimits,
    Standard,
    is_version,
)
from sim.api.admission.plugins.pods.security_standards import LEVELS
from sim.api.admission.plugins.pods.tolerations import TolerationLimits
from sim.api.admission.quota import LimitedResource
from sim.api.types import Obj
from sim.api.validation import text
from sim.errors import suggestion_or_all
from sim.ident import Names
from sim.units import MS, SECOND

EVENT_RATE_LIMIT = "EventRateLimit"
BACKOFF_MAX_US, TTL_MAX_US = 300 * SECOND, 1800 * SECOND  # imagepolicy/config.go


class Configuration(msgspec.Struct, frozen=True):
    """What the plugins go by, each by its own default.

    node_selectors: of PodNodeSelector, by namespace
    limited: of ResourceQuota, what may be used only if a quota covers it
    """

    pod_security: PodSecurityLimits = PodSecurityLimits()
    node_selectors: Mapping[str, str] = msgspec.field(default_factory=dict)
    tolerations: TolerationLimits = TolerationLimits()
    event_limits: tuple[EventLimit, ...] = ()
    limited: tuple[LimitedResource, ...] = ()
    image_policy: ImagePolicy = ImagePolicy()


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    path: str = ""
    configuration: Obj | None = None


class _Document(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    api_version: str
    kind: str
    plugins: list[_Entry] = []


class _Levels(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    enforce: str = LEVELS[0]
    enforce_version: str = "latest"
    audit: str = LEVELS[0]
    audit_version: str = "latest"
    warn: str = LEVELS[0]
    warn_version: str = "latest"


class _Exempt(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    usernames: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    runtime_classes: tuple[str, ...] = ()


class _PodSecurity(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    api_version: str
    kind: str
    defaults: _Levels = _Levels()
    exemptions: _Exempt = _Exempt()


class _NodeSelectors(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    pod_node_selector_plugin_config: dict[str, str]


class _Tolerations(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    api_version: str
    kind: str
    default: tuple[Obj, ...] = ()
    whitelist: tuple[Obj, ...] = ()


class _EventLimits(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    api_version: str
    kind: str
    limits: tuple[EventLimit, ...]


class _Quota(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    api_version: str
    kind: str
    limited_resources: tuple[LimitedResource, ...] = ()


class _ImagePolicy(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    kube_config_file: str
    allow_ttl: int = msgspec.field(name="allowTTL", default=0)
    deny_ttl: int = msgspec.field(name="denyTTL", default=0)
    retry_backoff: int = 0
    default_allow: bool = False


class _ImagePolicyConfig(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    image_policy: _ImagePolicy


def read_configuration(document: Any, names: Names) -> Configuration:
    """The configuration in an AdmissionConfiguration; raises ValueError."""
    whole = _converted(document, _Document, "")
    _check_kind(whole, names, "AdmissionConfiguration", ("apiserver.config/v1", "apiserver/v1alpha1"), "")
    found: dict[str, Any] = {}
    for index, entry in enumerate(whole.plugins):
        place = f"plugins[{index}]"
        read = READERS.get(entry.name)
        if read is None:
            remedy = suggestion_or_all(entry.name, [*READERS])
            raise ValueError(f"{place}.name: no plugin {entry.name!r} takes a configuration; {remedy}")
        if entry.configuration is None:
            if entry.path:
                raise ValueError(f"{place}.path: the file was not read; write its content as configuration")
            continue
        # Upstream uses the first entry of a plugin.
        for field, value in read(entry.configuration, names, f"{place}.configuration").items():
            found.setdefault(field, value)
    return Configuration(**found)


def _converted(value: Any, kind: Any, place: str) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        message, _, inner = str(error).partition(" - at `$")
        where = f"{place}{inner.removesuffix('`')}".strip(".")
        raise ValueError(f"{where}: {message}" if where else message) from None


def _check_kind(value: Any, names: Names, kind: str, versions: tuple[str, ...], place: str) -> None:
    """Raises ValueError for another kind.  versions: short group and version."""
    known = []
    for entry in versions:
        group, _, version = entry.partition("/")
        known.append(names.api_version(group, version))
    if value.kind != kind or value.api_version not in known:
        where = f"{place}: " if place else ""
        given = f"{value.api_version} {value.kind}"
        raise ValueError(f"{where}is {given}, wanted {kind} of {' or '.join(known)}")


def _pod_security(value: Obj, names: Names, place: str) -> dict[str, Any]:
    found = _converted(value, _PodSecurity, place)
    group = "pod-security.admission.config"
    versions = (f"{group}/v1", f"{group}/v1beta1", f"{group}/v1alpha1")
    _check_kind(found, names, "PodSecurityConfiguration", versions, place)
    defaults = {}
    for mode in ("enforce", "audit", "warn"):
        level, version = getattr(found.defaults, mode), getattr(found.defaults, f"{mode}_version")
        if level not in LEVELS:
            raise ValueError(f"{place}.defaults.{mode}: is {level!r}, must be one of {', '.join(LEVELS)}")
        if not is_version(version):
            raise ValueError(f'{place}.defaults.{mode}-version: is {version!r}, must be "latest" or "v1.x"')
        defaults[mode] = Standard(level, version)
    exempt = found.exemptions
    for field, entries, check in (
        ("namespaces", exempt.namespaces, text.label),
        ("runtimeClasses", exempt.runtime_classes, text.subdomain),
        ("usernames", exempt.usernames, _username),
    ):
        _check_entries(entries, check, f"{place}.exemptions.{field}")
    exemptions = Exemptions(exempt.usernames, exempt.namespaces, exempt.runtime_classes)
    return {"pod_security": PodSecurityLimits(defaults, exemptions)}


def _username(name: str) -> Sequence[str]:
    return [] if name else ["username must not be empty"]


def _check_entries(entries: tuple[str, ...], check: Callable[[str], Sequence[str]], place: str) -> None:
    for index, entry in enumerate(entries):
        problems = check(entry)
        if problems:
            raise ValueError(f"{place}[{index}]: is {entry!r}, {', '.join(problems)}")
        if entry in entries[:index]:
            raise ValueError(f"{place}[{index}]: {entry!r} is there twice")


def _node_selectors(value: Obj, names: Names, place: str) -> dict[str, Any]:
    found = _converted(value, _NodeSelectors, place)
    for namespace, selector in found.pod_node_selector_plugin_config.items():
        try:
            labels_of_selector(selector)
        except SelectorMistake as mistake:
            raise ValueError(f"{place}.podNodeSelectorPluginConfig.{namespace}: {mistake}") from None
    return {"node_selectors": found.pod_node_selector_plugin_config}


def _tolerations(value: Obj, names: Names, place: str) -> dict[str, Any]:
    found = _converted(value, _Tolerations, place)
    _check_kind(found, names, "Configuration", ("podtolerationrestriction.admission/v1alpha1",), place)
    return {"tolerations": TolerationLimits(found.default, found.whitelist)}


def _event_limits(value: Obj, names: Names, place: str) -> dict[str, Any]:
    found = _converted(value, _EventLimits, place)
    _check_kind(found, names, "Configuration", ("eventratelimit.admission/v1alpha1",), place)
    if not found.limits:
        raise ValueError(f"{place}.limits: must not be empty")
    for index, limit in enumerate(found.limits):
        where = f"{place}.limits[{index}]"
        for field, amount in (("burst", limit.burst), ("qps", limit.qps)):
            if amount <= 0:
                raise ValueError(f"{where}.{field}: is {amount}, must be positive")
        if limit.type != "Server" and limit.cache_size < 0:
            raise ValueError(f"{where}.cacheSize: is {limit.cache_size}, must not be negative")
    return {"event_limits": found.limits}


def _quota(value: Obj, names: Names, place: str) -> dict[str, Any]:
    found = _converted(value, _Quota, place)
    if found.kind == "ResourceQuotaConfiguration":
        _check_kind(found, names, "ResourceQuotaConfiguration", ("apiserver.config/v1",), place)
    else:
        group = "resourcequota.admission"
        versions = (f"{group}/v1beta1", f"{group}/v1alpha1")
        _check_kind(found, names, "Configuration", versions, place)
    for index, limited in enumerate(found.limited_resources):
        if not limited.resource:
            raise ValueError(f"{place}.limitedResources[{index}].resource: must not be empty")
    return {"limited": found.limited_resources}


def _image_policy(value: Obj, names: Names, place: str) -> dict[str, Any]:
    found = _converted(value, _ImagePolicyConfig, place).image_policy
    where = f"{place}.imagePolicy"
    if not found.kube_config_file:
        raise ValueError(f"{where}.kubeConfigFile: must not be empty")
    _normalized(found.retry_backoff, MS, BACKOFF_MAX_US, 500 * MS, f"{where}.retryBackoff")
    allow = _normalized(found.allow_ttl, SECOND, TTL_MAX_US, 300 * SECOND, f"{where}.allowTTL")
    deny = _normalized(found.deny_ttl, SECOND, TTL_MAX_US, 30 * SECOND, f"{where}.denyTTL")
    return {"image_policy": ImagePolicy(found.kube_config_file, allow, deny, found.default_allow)}


def _normalized(value: int, scale_us: int, max_us: int, default_us: int, place: str) -> int:
    """A time of ImagePolicyWebhook: -1 is none, 0 the default (config.go: normalizeConfigDuration)."""
    if value == -1:
        return 0
    if value == 0:
        return default_us
    if not 0 < value * scale_us <= max_us:
        raise ValueError(f"{place}: is {value}, must be from 1 to {max_us // scale_us}, 0 or -1")
    return value * scale_us


# The plugins that take a configuration.
READERS: Mapping[str, Callable[[Obj, Names, str], dict[str, Any]]] = {
    "PodSecurity": _pod_security,
    "PodNodeSelector": _node_selectors,
    "PodTolerationRestriction": _tolerations,
    EVENT_RATE_LIMIT: _event_limits,
    "ResourceQuota": _quota,
    IMAGE_POLICY: _image_policy,
}
