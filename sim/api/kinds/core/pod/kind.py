"""Pods.

Mirrors  kubernetes v1.25 pkg/registry/core/pod/strategy.go, pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from sim.api.kinds.common.cells import AGE, NAME
from sim.api.kinds.common.fill import each_of, present, within
from sim.api.kinds.common.pods.annotations import with_seccomp_fields
from sim.api.kinds.common.pods.defaults import fill_pod_spec
from sim.api.kinds.common.pods.warnings import template_warnings
from sim.api.kinds.common.status import PROBE_TIMES, fill_conditions, with_members
from sim.api.kinds.core.pod.quota import QUOTA
from sim.api.kinds.core.pod.table import pod_cells, row_conditions
from sim.api.kinds.core.pod.validation import (
    validate_ephemeral,
    validate_pod_create,
    validate_pod_status,
    validate_pod_update,
)
from sim.api.objects import with_field, with_metadata
from sim.api.scheduling import qos_class
from sim.api.schema.kind import NOTHING, STATUS, Cells, Deletion, Kind, Row, Strategy, Sub
from sim.api.types import Obj
from sim.ident import Names

# --- defaults -------------------------------------------------------------------------------------

CONTAINER_STATUS: Mapping[str, Any] = {
    "state": {},
    "lastState": {},
    "ready": False,
    "restartCount": 0,
    "image": "",
    "imageID": "",
}

_STATUS: Mapping[str, Any] = {"status": {}}


_STARTED: Mapping[str, Any] = {"startedAt": None}
_ENDED: Mapping[str, Any] = {"exitCode": 0, "startedAt": None, "finishedAt": None}


def _fill_states(container: Obj) -> Obj:
    for name in ("state", "lastState"):
        if container[name]:
            container = within(container, name, _fill_state)
    return container


def _fill_state(state: Obj) -> Obj:
    state = within(state, "running", lambda running: present(running, _STARTED))
    return within(state, "terminated", lambda ended: present(ended, _ENDED))


def _fill_status(status: Obj) -> Obj:
    if not status:
        return status
    status = fill_conditions(status, PROBE_TIMES)
    for field in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        items = status.get(field)
        if items and (whole := each_of(with_members(items, CONTAINER_STATUS), _fill_states)) is not items:
            status = {**status, field: whole}
    address = status.get("podIP")
    listed = status.get("podIPs")
    if address and (not listed or listed[0].get("ip") != address):  # podIP wins over podIPs
        return {**status, "podIPs": [{"ip": address}]}
    return {**status, "podIP": listed[0].get("ip", "")} if listed and not address else status


def _fill_defaults(pod: Obj) -> Obj:
    pod = pod if "spec" in pod else {**pod, "spec": {}}
    return within(within(present(pod, _STATUS), "status", _fill_status), "spec", fill_pod_spec)


# --- strategy -------------------------------------------------------------------------------------


def _prepare_create(obj: Obj, names: Names) -> Obj:
    status = {"phase": "Pending", "qosClass": qos_class(obj.get("spec") or {})}
    return with_seccomp_fields({**obj, "status": status}, names)


def _prepare_status(new: Obj, old: Obj, _: Names) -> Obj:
    owners = old["metadata"].get("ownerReferences")
    if new["metadata"].get("ownerReferences") != owners:
        new = with_metadata(new, ownerReferences=owners)
    return new


def _prepare_ephemeral(new: Obj, old: Obj, _: Names) -> Obj:
    """A write to /ephemeralcontainers changes that list and nothing else."""
    listed = (new.get("spec") or NOTHING).get("ephemeralContainers")
    before = old.get("spec") or NOTHING
    if listed == before.get("ephemeralContainers"):
        return old
    return {**old, "spec": with_field(before, "ephemeralContainers", listed)}


def _fill_status_only(pod: Obj) -> Obj:
    """The defaults of a write to /status, which takes the rest from the stored pod."""
    return within(present(pod, _STATUS), "status", _fill_status)


def _cells(pod: Obj, now_us: int, _: Names) -> Cells:
    return pod_cells(pod, now_us)


KIND = Kind(
    rows=(
        Row(
            "",
            "v1",
            "pods",
            "Pod",
            short=("po",),
            categories=("all",),
            subs=(
                Sub("attach", "cg", "PodAttachOptions"),
                Sub("binding", "c", "Binding"),
                Sub("ephemeralcontainers", "gpu"),
                Sub("eviction", "c", "Eviction", "policy", "v1"),
                Sub("exec", "cg", "PodExecOptions"),
                Sub("log", "g"),
                Sub("portforward", "cg", "PodPortForwardOptions"),
                Sub("proxy", "cdgpu", "PodProxyOptions"),
                STATUS,
            ),
        ),
    ),
    deletion=Deletion(returns_object=True),
    strategy=Strategy(
        status=True,
        graceful=True,
        prepare_create=_prepare_create,
        prepare_status=_prepare_status,
        prepare_subresource={"ephemeralcontainers": _prepare_ephemeral},
    ),
    defaults=_fill_defaults,
    status_defaults=_fill_status_only,
    validate_create=validate_pod_create,
    validate_update={
        "": validate_pod_update,
        "ephemeralcontainers": validate_ephemeral,
        "status": validate_pod_status,
    },
    pod_spec=("spec",),
    columns=(
        NAME,
        "Ready",
        "Status",
        "Restarts",
        AGE,
        "*IP=status.podIP",
        "*Node=spec.nodeName",
        "*Nominated Node=status.nominatedNodeName",
        "*Readiness Gates=spec.readinessGates",
    ),
    cells=_cells,
    row_conditions=row_conditions,
    client_warnings=partial(template_warnings, path=()),
    quota=QUOTA,
)
