"""Fields of pod specs that belong to features which are off by default.

Turns (spec, stored spec, gates that are on) into the spec without the fields of the other gates,
unless the stored spec has them already; the same object if there is nothing to drop.

Mirrors  kubernetes v1.25 pkg/api/pod/util.go (dropDisabledFields).
Differs  fields of volumes and networks are kept although their features are off: nothing reads
         them.
"""

from __future__ import annotations

from collections.abc import Collection

from sim.api.types import Obj
from sim.options.gates import MATCH_LABEL_KEYS, MIN_DOMAINS, NODE_INCLUSION

_EMPTY: Obj = {}

_OF_SPREAD = {
    "minDomains": MIN_DOMAINS,
    "nodeAffinityPolicy": NODE_INCLUSION,
    "nodeTaintsPolicy": NODE_INCLUSION,
    "matchLabelKeys": MATCH_LABEL_KEYS,
}

_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


def without_disabled_fields(spec: Obj, before: Obj, gates: Collection[str]) -> Obj:
    """The spec without the fields of features that are off, unless `before` has them."""
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
