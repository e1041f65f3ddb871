"""Fields of pod specs, and annotations of pods, that belong to features which can be off.

Turns (spec, stored spec, gates with another value than their default) into the spec without the
fields of features that are off, unless the stored spec has them already; the same object if there
is nothing to drop.

Mirrors  kubernetes v1.25 pkg/api/pod/util.go (dropDisabledFields).
Differs  fields of volumes and networks are kept although their features are off: nothing reads
         them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from sim.api.types import Obj
from sim.api.validation.errors import Errors, forbidden
from sim.ident import NAMES
from sim.options.features.gates import (
    APP_ARMOR,
    MATCH_LABEL_KEYS,
    MIN_DOMAINS,
    NODE_INCLUSION,
    PROBE_GRACE,
    PROC_MOUNT,
    USER_NAMESPACES,
    is_on,
)

_EMPTY: Obj = {}

_OF_SPREAD = {
    "minDomains": MIN_DOMAINS,
    "nodeAffinityPolicy": NODE_INCLUSION,
    "nodeTaintsPolicy": NODE_INCLUSION,
    "matchLabelKeys": MATCH_LABEL_KEYS,
}

_VOLUMES_OF_USERS = ("emptyDir", "secret", "downwardAPI", "configMap", "projected")
_GRACED, _GRACE = ("livenessProbe", "startupProbe"), "terminationGracePeriodSeconds"
_APP_ARMOR = tuple(names.annotation_apparmor_prefix for names in NAMES.values())
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


def without_disabled_fields(spec: Obj, before: Obj, gates: Collection[str]) -> Obj:
    """The spec without the fields of features that are off, unless `before` has them."""
    if (
        not is_on(gates, USER_NAMESPACES)
        and spec.get("hostUsers") is not None
        and before.get("hostUsers") is None
    ):
        spec = {k: v for k, v in spec.items() if k != "hostUsers"}
    spread = spec.get("topologySpreadConstraints")
    if spread:
        had = before.get("topologySpreadConstraints") or ()
        off = [
            name
            for name, gate in _OF_SPREAD.items()
            if gate not in gates and all(constraint.get(name) is None for constraint in had)
        ]
        if any(name in constraint for constraint in spread for name in off):
            kept = [{k: v for k, v in constraint.items() if k not in off} for constraint in spread]
            spec = {**spec, "topologySpreadConstraints": kept}
    if not is_on(gates, PROBE_GRACE) and not any(map(_has_probe_grace, _containers(before))):
        spec = _changed_containers(spec, _without_probe_grace)
    return spec if is_on(gates, PROC_MOUNT) else _proc_mounts(spec, before)


def host_user_errors(spec: Obj, field: str) -> Errors:
    """Errors of a pod with users of its own (validateHostUsers), a feature that is off by default."""
    if spec.get("hostUsers") is not False:
        return []
    detail = "volume type not supported when `pod.Spec.HostUsers` is false"
    errors = [
        forbidden(f"{field}.volumes[{i}]", detail)
        for i, volume in enumerate(spec.get("volumes") or ())
        if not any(volume.get(kind) is not None for kind in _VOLUMES_OF_USERS)
    ]
    # Quirk: two of the paths are spelled as in Go.
    for key, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(key):
            errors.append(forbidden(f"{field}.{shown}", "when `pod.Spec.HostUsers` is false"))
    return errors


def without_profiles(annotations: Obj, before: Obj, gates: Collection[str]) -> Obj:
    """Annotations without those that name AppArmor profiles, if that feature is off and `before`
    has none.
    """
    if is_on(gates, APP_ARMOR) or any(key.startswith(_APP_ARMOR) for key in before):
        return annotations
    return {key: value for key, value in annotations.items() if not key.startswith(_APP_ARMOR)}


def _containers(spec: Obj) -> Iterator[Obj]:
    return (container for name in _CONTAINERS for container in spec.get(name) or ())


def _changed_containers(spec: Obj, change: Callable[[Obj], Obj]) -> Obj:
    lists = {name: [change(each) for each in spec[name]] for name in _CONTAINERS if spec.get(name)}
    return {**spec, **lists}


def _has_probe_grace(container: Obj) -> bool:
    return any((container.get(name) or _EMPTY).get(_GRACE) is not None for name in _GRACED)


def _without_probe_grace(container: Obj) -> Obj:
    """The container without a grace period of its own in the probes that can have one."""
    if not _has_probe_grace(container):
        return container
    probes = {name: container[name] for name in _GRACED if container.get(name)}
    kept = {name: {k: v for k, v in probe.items() if k != _GRACE} for name, probe in probes.items()}
    return {**container, **kept}


def _proc_mounts(spec: Obj, before: Obj) -> Obj:
    """ProcMountType: the kind of mount becomes the default one."""
    for name in _CONTAINERS:
        containers = spec.get(name) or ()
        if any(map(_special_mount, containers)) and not any(
            _special_mount(container) for each in _CONTAINERS for container in before.get(each) or ()
        ):
            spec = {**spec, name: [_default_mount(container) for container in containers]}
    return spec


def _special_mount(container: Obj) -> bool:
    context = container.get("securityContext")
    return context is not None and context.get("procMount", "Default") != "Default"


def _default_mount(container: Obj) -> Obj:
    if not _special_mount(container):
        return container
    return {**container, "securityContext": {**container["securityContext"], "procMount": "Default"}}
