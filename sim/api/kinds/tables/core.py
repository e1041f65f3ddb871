"""Tables: the rows kubectl prints, made by the server.

Turns objects into the `Table` of meta.k8s.io/v1: upstream's columns of the kind, one row of cells an object.

Mirrors  kubernetes v1.25 pkg/printers/internalversion/printers.go, apimachinery pkg/api/meta/table.
Differs  columns carry a description only where it is that of a field of the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from sim.api.crd import tables as tables_custom
from sim.api.crd.served import CustomResource
from sim.api.kinds.forms.conversion import form_of
from sim.api.kinds.tables import batch as tables_batch
from sim.api.kinds.tables import network as tables_network
from sim.api.kinds.tables.pods import age, pod_cells
from sim.api.objects import (
    TERMINAL,
    condition_status,
    controller_of,
    get_in,
    is_deleting,
    labels_of,
    metadata_of,
    name_of,
)
from sim.api.schema.field_schemas import definition_name, description
from sim.api.schema.scheme import Resource
from sim.api.selectors import format_labels, format_selector
from sim.ident import Names
from sim.units import human_duration, parse_time

Obj = dict[str, Any]
Cells = list[Any]

# "Name", "*Wide" (priority 1), "Count:integer", "Flag:boolean"; a path after "=" is the described field.
_NAME, _AGE = "Name=metadata.name", "Age=metadata.creationTimestamp"
_WIDE = ("*Containers", "*Images")
_COLUMNS: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "Pod"): (_NAME, "Ready", "Status", "Restarts", _AGE, "*IP=status.podIP", "*Node=spec.nodeName",
                  "*Nominated Node=status.nominatedNodeName", "*Readiness Gates=spec.readinessGates"),
    ("", "ReplicationController"): (_NAME, "Desired:integer=spec.replicas", "Current:integer=status.replicas",
                                    "Ready:integer=status.readyReplicas", _AGE, *_WIDE, "*Selector=spec.selector"),
    ("apps", "ReplicaSet"): (_NAME, "Desired:integer=spec.replicas", "Current:integer=status.replicas",
                             "Ready:integer=status.readyReplicas", _AGE, *_WIDE, "*Selector=spec.selector"),
    ("apps", "Deployment"): (_NAME, "Ready", "Up-to-date=status.updatedReplicas",
                             "Available=status.availableReplicas", _AGE, *_WIDE, "*Selector=spec.selector"),
    ("apps", "StatefulSet"): (_NAME, "Ready", _AGE, *_WIDE),
    ("apps", "DaemonSet"): (_NAME, "Desired:integer=status.desiredNumberScheduled",
                            "Current:integer=status.currentNumberScheduled", "Ready:integer=status.numberReady",
                            "Up-to-date:integer=status.updatedNumberScheduled",
                            "Available:integer=status.numberAvailable",
                            "Node Selector=spec.template", _AGE, *_WIDE, "*Selector=spec.selector"),
    ("apps", "ControllerRevision"): (_NAME, "Controller", "Revision=revision", _AGE),
    ("", "Service"): (_NAME, "Type=spec.type", "Cluster-IP=spec.clusterIP", "External-IP=spec.externalIPs",
                      "Port(s)=spec.ports", _AGE, "*Selector=spec.selector"),
    ("", "Endpoints"): (_NAME, "Endpoints=subsets", _AGE),
    ("discovery", "EndpointSlice"): (_NAME, "AddressType=addressType", "Ports=ports", "Endpoints=endpoints", _AGE),
    ("", "Node"): (_NAME, "Status", "Roles", _AGE, "Version=status.nodeInfo.kubeletVersion",
                   "*Internal-IP=status.addresses", "*External-IP=status.addresses",
                   "*OS-Image=status.nodeInfo.osImage", "*Kernel-Version=status.nodeInfo.kernelVersion",
                   "*Container-Runtime=status.nodeInfo.containerRuntimeVersion"),
    ("", "Event"): ("Last Seen=lastTimestamp", "Type=type", "Reason=reason", "Object=involvedObject", "*Subobject",
                    "*Source=source", "Message=message", "*First Seen=firstTimestamp", "*Count=count",
                    "*Name=metadata.name"),
    ("", "Namespace"): (_NAME, "Status", _AGE),
    ("coordination", "Lease"): (_NAME, "Holder=spec.holderIdentity", _AGE),
    ("", "ServiceAccount"): (_NAME, "Secrets=secrets", _AGE),
    ("", "Secret"): (_NAME, "Type=type", "Data=data", _AGE),
    ("", "ConfigMap"): (_NAME, "Data=data", _AGE),
    ("", "PersistentVolumeClaim"): (_NAME, "Status=status.phase", "Volume=spec.volumeName",
                                    "Capacity=status.capacity", "Access Modes=status.accessModes",
                                    "StorageClass=spec.storageClassName", _AGE, "*VolumeMode=spec.volumeMode"),
    ("policy", "PodDisruptionBudget"): (_NAME, "Min Available=spec.minAvailable",
                                        "Max Unavailable=spec.maxUnavailable", "Allowed Disruptions:integer", _AGE),
    ("scheduling", "PriorityClass"): (_NAME, "Value:integer=value", "Global-Default:boolean=globalDefault", _AGE),
    **tables_batch.COLUMNS,
    **tables_network.COLUMNS,
    ("flowcontrol.apiserver", "FlowSchema"): (_NAME, "PriorityLevel=spec.priorityLevelConfiguration",
                                              "MatchingPrecedence=spec.matchingPrecedence",
                                              "DistinguisherMethod=spec.distinguisherMethod", _AGE, "MissingPL"),
    ("flowcontrol.apiserver", "PriorityLevelConfiguration"): (
        _NAME, "Type=spec.type", "AssuredConcurrencyShares=spec.limited.assuredConcurrencyShares",
        "Queues=spec.limited.limitResponse.queuing.queues",
        "HandSize=spec.limited.limitResponse.queuing.handSize",
        "QueueLengthLimit=spec.limited.limitResponse.queuing.queueLengthLimit", _AGE),
}  # fmt: skip
_OTHERS = (_NAME, "Created At:date=metadata.creationTimestamp")


@lru_cache(maxsize=128)
def columns(resource: Resource) -> list[Obj]:
    """columnDefinitions of a kind."""
    if isinstance(resource, CustomResource):
        return tables_custom.columns(resource)
    texts = _COLUMNS.get(_kind(resource), _OTHERS)
    name = definition_name(resource.upstream_group, resource.version, resource.kind)
    if resource.kind == "Event":
        name = definition_name("", "v1", "Event")
    elif resource.kind == "HorizontalPodAutoscaler":
        name = definition_name(resource.upstream_group, "v2", resource.kind)
    return [_column(text, name) for text in texts]


def _kind(resource: Resource) -> tuple[str, str]:
    """Both kinds of Event are printed in their stored, core form."""
    return ("" if resource.kind == "Event" else resource.short_group, resource.kind)


def _column(text: str, definition: str) -> Obj:
    title, _, path = text.partition("=")
    title, _, type = title.partition(":")
    wide = title.startswith("*")
    title = title.removeprefix("*")
    return {
        "name": title,
        "type": type or "string",
        "format": "name" if title == "Name" else "",
        "description": description(definition, tuple(path.split("."))) if path else "",
        "priority": 1 if wide else 0,
    }


def cells(resource: Resource, obj: Obj, now_us: int, names: Names) -> Cells:
    """The cells of one object."""
    if isinstance(resource, CustomResource):
        return tables_custom.cells(resource, obj, now_us)
    printer = _PRINTERS.get(_kind(resource))
    if printer is None:
        return [name_of(obj), metadata_of(obj).get("creationTimestamp")]
    form = form_of(resource, names)
    return printer(obj if form is None else form.stored(obj), now_us, names)


def row(resource: Resource, obj: Obj, now_us: int, names: Names) -> Obj:
    """One row without its object; a pod that has ended is marked so."""
    made: Obj = {"cells": cells(resource, obj, now_us, names)}
    phase = get_in(obj, ("status", "phase"))
    if resource.kind == "Pod" and phase in TERMINAL:
        failed = phase == "Failed"
        made["conditions"] = [
            {
                "type": "Completed",
                "status": "True",
                "reason": phase,
                "message": "The pod failed." if failed else "The pod has completed successfully.",
            }
        ]
    return made


# --- parts of cells ---------------------------------------------------------------------------------------


def _none(text: str) -> str:
    return text or "<none>"


def _cut(texts: Sequence[str], limit: int) -> str:
    shown = ",".join(texts[:limit])
    return f"{shown} + {len(texts) - limit} more..." if len(texts) > limit else shown


def _containers(obj: Obj) -> Cells:
    found = get_in(obj, ("spec", "template", "spec", "containers"), [])
    return [",".join(c["name"] for c in found), ",".join(c.get("image", "") for c in found)]


def _count(obj: Obj, *path: str) -> int:
    return int(get_in(obj, path, 0))


# --- kinds ------------------------------------------------------------------------------------------------


def _replication_controller(obj: Obj, now_us: int, names: Names) -> Cells:
    return [*_replica_set(obj, now_us, names)[:-1], format_labels(get_in(obj, ("spec", "selector")))]


def _replica_set(obj: Obj, now_us: int, _: Names) -> Cells:
    numbers = [
        _count(obj, "spec", "replicas"),
        _count(obj, "status", "replicas"),
        _count(obj, "status", "readyReplicas"),
    ]
    return [
        name_of(obj),
        *numbers,
        age(obj, now_us),
        *_containers(obj),
        format_selector(get_in(obj, ("spec", "selector"))),
    ]


def _deployment(obj: Obj, now_us: int, _: Names) -> Cells:
    ready = f"{_count(obj, 'status', 'readyReplicas')}/{_count(obj, 'spec', 'replicas')}"
    numbers = [_count(obj, "status", "updatedReplicas"), _count(obj, "status", "availableReplicas")]
    selector = format_selector(get_in(obj, ("spec", "selector")))
    shown = "" if selector == "<none>" else selector
    return [name_of(obj), ready, *numbers, age(obj, now_us), *_containers(obj), shown]


def _stateful_set(obj: Obj, now_us: int, _: Names) -> Cells:
    ready = f"{_count(obj, 'status', 'readyReplicas')}/{_count(obj, 'spec', 'replicas')}"
    return [name_of(obj), ready, age(obj, now_us), *_containers(obj)]


def _daemon_set(obj: Obj, now_us: int, _: Names) -> Cells:
    counters = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady")
    rollout = ("updatedNumberScheduled", "numberAvailable")
    numbers = [_count(obj, "status", counter) for counter in (*counters, *rollout)]
    selector = format_labels(get_in(obj, ("spec", "template", "spec", "nodeSelector")))
    shown = format_selector(get_in(obj, ("spec", "selector")))
    return [name_of(obj), *numbers, selector, age(obj, now_us), *_containers(obj), shown]


def _revision(obj: Obj, now_us: int, _: Names) -> Cells:
    owner = controller_of(obj)
    controller = "<none>"
    if owner is not None:
        group = owner["apiVersion"].rpartition("/")[0]
        kind = owner["kind"].lower()
        controller = f"{kind}.{group}/{owner['name']}" if group else f"{kind}/{owner['name']}"
    return [name_of(obj), controller, _count(obj, "revision"), age(obj, now_us)]


def _external_ip(obj: Obj) -> str:
    spec = obj.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    listed = list(spec.get("externalIPs") or ())
    if spec.get("type") == "LoadBalancer":
        ingress = get_in(obj, ("status", "loadBalancer", "ingress"), [])
        found = sorted({i.get("ip") or i.get("hostname", "") for i in ingress})
        return ",".join([*found, *listed]) or "<pending>"
    return _none(",".join(listed))


def _service(obj: Obj, now_us: int, _: Names) -> Cells:
    spec = obj.get("spec") or {}
    ports = []
    for port in spec.get("ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port['port']}{node}/{port.get('protocol', 'TCP')}")
    ips = spec.get("clusterIPs") or [spec.get("clusterIP") or "<none>"]
    head = [name_of(obj), spec.get("type", ""), ips[0], _external_ip(obj), _none(",".join(ports))]
    return [*head, age(obj, now_us), format_labels(spec.get("selector"))]


def _endpoints(obj: Obj, now_us: int, _: Names) -> Cells:
    found: list[str] = []
    for subset in obj.get("subsets") or ():
        addresses = [a["ip"] for a in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        found += [f"{a}:{p['port']}" for p in ports for a in addresses] if ports else addresses
    return [name_of(obj), _none(_cut(found, 3)), age(obj, now_us)]


def _endpoint_slice(obj: Obj, now_us: int, _: Names) -> Cells:
    ports = [
        str(p["port"]) if p.get("port") is not None else p.get("name") or "*" for p in obj.get("ports") or ()
    ]
    addresses = [a for e in obj.get("endpoints") or () for a in e.get("addresses") or ()]
    shown = [_cut(ports, 3) or "<unset>", _cut(addresses, 3) or "<unset>"]
    return [name_of(obj), obj.get("addressType", ""), *shown, age(obj, now_us)]


def _node(obj: Obj, now_us: int, names: Names) -> Cells:
    ready = {"True": "Ready", "": "Unknown"}.get(condition_status(obj, "Ready"), "NotReady")
    if get_in(obj, ("spec", "unschedulable")):
        ready += ",SchedulingDisabled"
    roles = set()
    for label, value in labels_of(obj).items():
        if label.startswith(names.label_node_role_prefix):
            roles.add(label.removeprefix(names.label_node_role_prefix))
        elif label == names.label_role and value:
            roles.add(value)
    info = get_in(obj, ("status", "nodeInfo"), {})

    def address(type: str) -> str:
        found = get_in(obj, ("status", "addresses"), [])
        return next((str(a["address"]) for a in found if a["type"] == type), "<none>")

    texts = [info.get(f) or "<unknown>" for f in ("osImage", "kernelVersion", "containerRuntimeVersion")]
    head = [name_of(obj), ready, _none(",".join(sorted(r for r in roles if r))), age(obj, now_us)]
    return [*head, info.get("kubeletVersion", ""), address("InternalIP"), address("ExternalIP"), *texts]


def _event(obj: Obj, now_us: int, _: Names) -> Cells:
    def since(*fields: tuple[str, ...]) -> str:
        text = next((t for t in (get_in(obj, f) for f in fields) if t), None)
        return human_duration(now_us - parse_time(text)) if text else "<unknown>"

    last = since(("series", "lastObservedTime"), ("lastTimestamp",), ("eventTime",))
    first = since(("firstTimestamp",), ("eventTime",))
    involved, source = obj.get("involvedObject") or {}, obj.get("source") or {}
    kind = str(involved.get("kind", "")).lower()
    target = f"{kind}/{involved['name']}" if involved.get("name") else kind
    origin = [
        source.get("component") or obj.get("reportingComponent") or "",
        source.get("host") or obj.get("reportingInstance") or "",
    ]
    count = get_in(obj, ("series", "count")) or obj.get("count") or 1
    head = [last, obj.get("type", ""), obj.get("reason", ""), target, involved.get("fieldPath", "")]
    tail = [
        ", ".join(t for t in origin if t),
        str(obj.get("message", "")).strip(),
        first,
        count,
        name_of(obj),
    ]
    return [*head, *tail]


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _claim(obj: Obj, now_us: int, _: Names) -> Cells:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    phase = "Terminating" if is_deleting(obj) else status.get("phase", "")
    bound = spec.get("volumeName", "")
    capacity = get_in(status, ("capacity", "storage"), "") if bound else ""
    modes = ",".join(_MODES[m] for m in _MODES if m in status.get("accessModes", ())) if bound else ""
    head = [name_of(obj), phase, bound, capacity, modes, spec.get("storageClassName") or ""]
    return [*head, age(obj, now_us), spec.get("volumeMode") or "<unset>"]


def _budget(obj: Obj, now_us: int, _: Names) -> Cells:
    limits = [get_in(obj, ("spec", field)) for field in ("minAvailable", "maxUnavailable")]
    shown = ["N/A" if limit is None else str(limit) for limit in limits]
    return [name_of(obj), *shown, _count(obj, "status", "disruptionsAllowed"), age(obj, now_us)]


_Printer = Callable[[Obj, int, Names], Cells]


def _priority_level(o: Obj, now: int, _: Names) -> Cells:
    limited = get_in(o, ("spec", "limited"), {})
    queuing = get_in(limited, ("limitResponse", "queuing"), {})
    shown = [queuing.get(name, "<none>") for name in ("queues", "handSize", "queueLengthLimit")]
    shares = limited.get("assuredConcurrencyShares", "<none>")
    return [name_of(o), get_in(o, ("spec", "type"), ""), shares, *shown, age(o, now)]


_PRINTERS: dict[tuple[str, str], _Printer] = {
    ("", "Pod"): lambda o, now, _: pod_cells(o, now),
    ("", "ReplicationController"): _replication_controller,
    ("apps", "ReplicaSet"): _replica_set,
    ("apps", "Deployment"): _deployment,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("apps", "ControllerRevision"): _revision,
    ("", "Service"): _service,
    ("", "Endpoints"): _endpoints,
    ("discovery", "EndpointSlice"): _endpoint_slice,
    ("", "Node"): _node,
    ("", "Event"): _event,
    ("", "Namespace"): lambda o, now, _: [name_of(o), get_in(o, ("status", "phase"), ""), age(o, now)],
    ("coordination", "Lease"): lambda o, now, _: [
        name_of(o),
        get_in(o, ("spec", "holderIdentity"), ""),
        age(o, now),
    ],
    ("", "ServiceAccount"): lambda o, now, _: [name_of(o), len(o.get("secrets") or ()), age(o, now)],
    ("", "Secret"): lambda o, now, _: [name_of(o), o.get("type", ""), len(o.get("data") or ()), age(o, now)],
    ("", "ConfigMap"): lambda o, now, _: [
        name_of(o),
        len(o.get("data") or ()) + len(o.get("binaryData") or ()),
        age(o, now),
    ],
    ("", "PersistentVolumeClaim"): _claim,
    ("", "ResourceQuota"): tables_batch.quota,
    **tables_network.PRINTERS,
    ("autoscaling", "HorizontalPodAutoscaler"): tables_batch.autoscaler,
    ("batch", "CronJob"): tables_batch.cron_job,
    ("batch", "Job"): tables_batch.job,
    ("policy", "PodDisruptionBudget"): _budget,
    ("scheduling", "PriorityClass"): lambda o, now, _: [
        name_of(o),
        _count(o, "value"),
        bool(o.get("globalDefault")),
        age(o, now),
    ],
    ("flowcontrol.apiserver", "FlowSchema"): lambda o, now, _: [
        name_of(o),
        get_in(o, ("spec", "priorityLevelConfiguration", "name"), ""),
        get_in(o, ("spec", "matchingPrecedence"), 0),
        get_in(o, ("spec", "distinguisherMethod", "type"), "<none>"),
        age(o, now),
        condition_status(o, "Dangling") or "?",
    ],
    ("flowcontrol.apiserver", "PriorityLevelConfiguration"): _priority_level,
}
