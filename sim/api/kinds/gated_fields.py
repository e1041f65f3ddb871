"""Fields of features that are off by default: taken out of what is written unless the object has them already.

Turns (new object, old object, gates that are on) into the new object without the fields of the others, and an object
into one with the defaults of features that are on; the same object if there is nothing to do.

Mirrors  kubernetes v1.25 pkg/api/pod/util.go (dropDisabledFields), pkg/registry/apps/statefulset/strategy.go
         (dropStatefulSetDisabledFields), pkg/registry/batch/job/strategy.go, pkg/apis/apps/v1/defaults.go,
         pkg/registry/autoscaling/horizontalpodautoscaler/strategy.go (dropDisabledFields).
Differs  fields of volumes and networks whose features are off are kept: nothing here reads them.
"""

from __future__ import annotations

from collections.abc import Collection

from sim.api.kinds.defaults.parts import fill, within
from sim.api.objects import get_in, remove_in, replace_in
from sim.api.types import Obj
from sim.options.gates import (
    CLAIM_RETENTION,
    CONTAINER_METRICS,
    FAILURE_POLICY,
    MATCH_LABEL_KEYS,
    MAX_UNAVAILABLE,
    MIN_DOMAINS,
    NODE_INCLUSION,
)

_EMPTY: Obj = {}
_TEMPLATE = ("spec", "template", "spec")
POD_SPECS: dict[str, tuple[str, ...]] = {  # where each kind holds the spec of its pods
    "pods": ("spec",),
    "podtemplates": ("template", "spec"),
    "replicasets": _TEMPLATE,
    "replicationcontrollers": _TEMPLATE,
    "deployments": _TEMPLATE,
    "statefulsets": _TEMPLATE,
    "daemonsets": _TEMPLATE,
    "jobs": _TEMPLATE,
    "cronjobs": ("spec", "jobTemplate", *_TEMPLATE),
}
_OTHERS: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {  # by kind: gate, field
    "statefulsets": (
        (CLAIM_RETENTION, ("spec", "persistentVolumeClaimRetentionPolicy")),
        (MAX_UNAVAILABLE, ("spec", "updateStrategy", "rollingUpdate", "maxUnavailable")),
    ),
    "jobs": ((FAILURE_POLICY, ("spec", "podFailurePolicy")),),
}
_OF_SPREAD = {
    "minDomains": MIN_DOMAINS,
    "nodeAffinityPolicy": NODE_INCLUSION,
    "nodeTaintsPolicy": NODE_INCLUSION,
    "matchLabelKeys": MATCH_LABEL_KEYS,
}
_METRICS = ("spec", "metrics")
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


def without_disabled(plural: str, new: Obj, old: Obj = _EMPTY, gates: Collection[str] = ()) -> Obj:
    """`old`: what is stored, if this is an update."""
    if plural == "horizontalpodautoscalers" and CONTAINER_METRICS not in gates:
        return _without_container_metrics(new, old)
    path = POD_SPECS.get(plural)
    if path is None:
        return new
    spec, before = get_in(new, path), get_in(old, path)
    if isinstance(spec, dict) and spec is not before:
        kept = _pod_spec(spec, before or _EMPTY, gates)
        if kept is not spec:
            new = replace_in(new, path, kept)
    for gate, place in _OTHERS.get(plural, ()):
        if gate not in gates and get_in(new, place) is not None and get_in(old, place) is None:
            new = remove_in(new, place)
    return new


def with_gated_defaults(plural: str, obj: Obj, gates: Collection[str]) -> Obj:
    """An object with the defaults of its fields whose gates are on, beside those that its kind always has."""
    if plural != "statefulsets":
        return obj
    spec = obj["spec"]
    if MAX_UNAVAILABLE in gates:
        spec = within(spec, "updateStrategy", _counted)
    if CLAIM_RETENTION in gates:
        spec = fill(spec, {"persistentVolumeClaimRetentionPolicy": {}})
        spec = within(spec, "persistentVolumeClaimRetentionPolicy", lambda policy: fill(policy, _RETAIN))
    return obj if spec is obj["spec"] else {**obj, "spec": spec}


def _without_container_metrics(new: Obj, old: Obj) -> Obj:
    metrics = get_in(new, _METRICS) or ()
    if not any("containerResource" in metric for metric in metrics):
        return new
    if any(metric.get("containerResource") is not None for metric in get_in(old, _METRICS) or ()):
        return new
    kept = [{k: v for k, v in metric.items() if k != "containerResource"} for metric in metrics]
    return replace_in(new, _METRICS, kept)


_RETAIN = {"whenDeleted": "Retain", "whenScaled": "Retain"}


def _counted(strategy: Obj) -> Obj:
    if strategy.get("type") != "RollingUpdate":
        return strategy
    return within(strategy, "rollingUpdate", lambda rolling: fill(rolling, {"maxUnavailable": 1}))


def _pod_spec(spec: Obj, before: Obj, gates: Collection[str]) -> Obj:
    # UserNamespacesStatelessPodsSupport
    if spec.get("hostUsers") is not None and before.get("hostUsers") is None:
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
    return _proc_mounts(spec, before)


def _proc_mounts(spec: Obj, before: Obj) -> Obj:
    """ProcMountType: the kind of mount goes back to the default one."""
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
