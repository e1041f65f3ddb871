"""Defaults of the versioned kinds, filled in where a client left a field out.

Turns a decoded object into the same object with upstream's defaults, and with the members that upstream's
encoding writes even when empty (`resources: {}`, a template's `creationTimestamp: null`, counters of a status).

Holds: path copy only; nothing missing means the object itself comes back.  Defaulting twice is defaulting once.
Containers, volumes and whole pod specs are remembered by identity, so pods made from one template share
their defaulted parts and cost a look-up.

Mirrors  kubernetes v1.25 pkg/apis/{core,apps,policy,scheduling,discovery}/v1/defaults.go.
Differs  the namespace's name label is the strategy's work: it depends on the naming set.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from sim.api.crd.definition_form import definition
from sim.api.kinds.defaults import batch
from sim.api.kinds.defaults.flows import flow_schema, priority_level
from sim.api.kinds.defaults.parts import all_of as _all
from sim.api.kinds.defaults.parts import amounts as _amounts
from sim.api.kinds.defaults.parts import each_of as _each
from sim.api.kinds.defaults.parts import fill as _fill
from sim.api.kinds.defaults.parts import fill_zero as _fill_zero
from sim.api.kinds.defaults.parts import present as _present
from sim.api.kinds.defaults.parts import within as _in
from sim.api.memo import IdentityMemo
from sim.api.schema.scheme import Resource

Obj = dict[str, Any]
Fn = Callable[[Any], Any]

MEMO_MAX = 1024  # remembered subtrees of each kind; at the bound all are forgotten at once


class _Memo:
    """Results by the identity of the argument, which is kept alive so that its id stays its own."""

    def __init__(self, fn: Fn) -> None:
        self.fn = fn
        self.known: dict[int, tuple[Any, Any]] = {}

    def __call__(self, value: Any) -> Any:
        found = self.known.get(id(value))
        if found is not None:
            return found[1]
        if len(self.known) >= MEMO_MAX:
            self.known.clear()
        result = self.fn(value)
        self.known[id(value)] = (value, result)
        if result is not value:
            self.known[id(result)] = (result, result)
        return result


# --- containers -------------------------------------------------------------------------------------------

# docker/distribution reference grammar: an image it cannot parse has no tag, so it counts as not latest.
_IMAGE = re.compile(
    r"(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::\d+)?/)?[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"
    r"(?::(?P<tag>[\w][\w.-]{0,127}))?(?P<digest>@[A-Za-z][A-Za-z0-9]*:[0-9a-fA-F]{32,})?"
)
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_HTTP = {"path": "/", "scheme": "HTTP"}
_TCP = {"protocol": "TCP"}


def pull_policy(image: str) -> str:
    """Always for the tag latest, said or implied; IfNotPresent otherwise."""
    match = _IMAGE.fullmatch(image)
    if match is None:
        return "IfNotPresent"
    tag = match["tag"] or ("" if match["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def _probe(probe: Obj) -> Obj:
    probe = _fill_zero(probe, _PROBE)
    probe = _in(probe, "grpc", lambda grpc: _present(grpc, {"service": ""}))
    return _in(probe, "httpGet", lambda get: _fill(get, _HTTP))


def _hook(hook: Obj) -> Obj:
    return _in(hook, "httpGet", lambda get: _fill(get, _HTTP))


def _lifecycle(lifecycle: Obj) -> Obj:
    return _in(_in(lifecycle, "postStart", _hook), "preStop", _hook)


def _env(env: Obj) -> Obj:
    return _in(env, "valueFrom", _field_file)


def _resources(resources: Obj) -> Obj:
    return _in(_in(resources, "limits", _amounts), "requests", _amounts)


def _container(container: Obj) -> Obj:
    container = _fill(
        container,
        {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"},
    )
    if not container.get("imagePullPolicy"):
        container = {**container, "imagePullPolicy": pull_policy(container.get("image") or "")}
    container = _in(_present(container, {"resources": {}}), "resources", _resources)
    container = _all(container, "ports", lambda port: _fill(port, _TCP))
    container = _all(container, "env", _env)
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        container = _in(container, probe, _probe)
    return _in(container, "lifecycle", _lifecycle)


def _requests_from_limits(container: Obj) -> Obj:
    """Of pods only, never of templates."""
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits"), resources.get("requests") or {}
    if not limits or all(name in requests for name in limits):
        return container
    return {**container, "resources": {**resources, "requests": {**limits, **requests}}}


# --- volumes ----------------------------------------------------------------------------------------------

_MODE = {"defaultMode": 420}
_VOLUMES: dict[str, Mapping[str, Any]] = {
    "secret": _MODE,
    "configMap": _MODE,
    "downwardAPI": _MODE,
    "projected": _MODE,
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": False},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}


def _field_file(item: Obj) -> Obj:
    """Of an environment variable as of a file: which field of the pod it shows."""
    item = _in(item, "resourceFieldRef", lambda ref: _present(ref, {"divisor": "0"}))
    return _in(item, "fieldRef", lambda ref: _fill(ref, {"apiVersion": "v1"}))


def _projection(source: Obj) -> Obj:
    source = _in(source, "serviceAccountToken", lambda token: _fill(token, {"expirationSeconds": 3600}))
    return _in(source, "downwardAPI", lambda api: _all(api, "items", _field_file))


def _volume(volume: Obj) -> Obj:
    if len(volume) == 1:  # a name and no source
        return {**volume, "emptyDir": {}}
    for source, defaults in _VOLUMES.items():
        if volume.get(source) is not None:
            volume = _in(volume, source, partial(_fill, defaults=defaults))
    volume = _in(volume, "hostPath", lambda value: _present(value, {"type": ""}))
    volume = _in(volume, "downwardAPI", lambda api: _all(api, "items", _field_file))
    volume = _in(volume, "projected", lambda value: _all(value, "sources", _projection))

    def template(claim: Obj) -> Obj:
        return _in(_in(claim, "metadata", _no_creation), "spec", _claim_spec)

    return _in(
        volume, "ephemeral", lambda value: _in(value, "volumeClaimTemplate", lambda t: template(_in_meta(t)))
    )


# --- pods -------------------------------------------------------------------------------------------------

_POD_SPEC = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
    "securityContext": {},
}


def _host_ports(container: Obj) -> Obj:
    def port(value: Obj) -> Obj:
        return value if value.get("hostPort") else {**value, "hostPort": value.get("containerPort", 0)}

    return _all(container, "ports", port)


_containers = _Memo(lambda items: _each(items, _container))
_volumes = _Memo(lambda items: _each(items, _volume))


def _template_spec(spec: Obj) -> Obj:
    spec = _fill(spec, _POD_SPEC)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:  # the deprecated twin; serviceAccountName wins
        spec = _fill(spec, {"serviceAccountName": account})
        if spec.get("serviceAccount") != account:
            spec = {**spec, "serviceAccount": account}
    for field in ("containers", "initContainers", "ephemeralContainers"):
        spec = _in(spec, field, _containers)
    spec = _in(spec, "overhead", _amounts)
    if spec.get("hostNetwork"):
        for field in ("containers", "initContainers"):
            spec = _all(spec, field, _host_ports)
    return _in(spec, "volumes", _volumes)


def _pod_spec(spec: Obj) -> Obj:
    spec = _fill(_template_spec(spec), {"enableServiceLinks": True})
    for field in ("containers", "initContainers"):
        spec = _all(spec, field, _requests_from_limits)
    return spec


_template_specs = _Memo(_template_spec)
_pod_specs = _Memo(_pod_spec)


def _no_creation(metadata: Obj) -> Obj:
    return _present(metadata, {"creationTimestamp": None})


def _in_meta(obj: Obj) -> Obj:
    return _in(_present(obj, {"metadata": {}}), "metadata", _no_creation)


def _template(template: Obj) -> Obj:
    return _in(_in_meta(_present(template, {"spec": {}})), "spec", _template_specs)


_templates = _Memo(_template)


def _claim_spec(spec: Obj) -> Obj:
    spec = _present(_fill(spec, {"volumeMode": "Filesystem"}), {"resources": {}})
    return _in(spec, "resources", _resources)


def _claim_status(status: Obj) -> Obj:
    status = _in(_fill(status, {"phase": "Pending"}), "capacity", _amounts)
    return _conditions(_in(status, "allocatedResources", _amounts), _PROBED)


def _claim(claim: Obj) -> Obj:
    claim = _in(_present(claim, {"spec": {}, "status": {}}), "spec", _claim_spec)
    return _in(claim, "status", _claim_status)


# --- status -----------------------------------------------------------------------------------------------

# Members of conditions and container statuses that the encoding writes even when nothing is known.
_CHANGED: Mapping[str, Any] = {"lastTransitionTime": None}
_PROBED: Mapping[str, Any] = {"lastProbeTime": None, "lastTransitionTime": None}
_UPDATED: Mapping[str, Any] = {"lastUpdateTime": None, "lastTransitionTime": None}
_BEATEN: Mapping[str, Any] = {"lastHeartbeatTime": None, "lastTransitionTime": None}
CONTAINER_STATUS: Mapping[str, Any] = {
    "state": {},
    "lastState": {},
    "ready": False,
    "restartCount": 0,
    "image": "",
    "imageID": "",
}


_wholes: IdentityMemo[list[Obj]] = IdentityMemo()


def _whole(items: list[Obj], members: Mapping[str, Any]) -> list[Obj]:
    """Members that every item shows; the list itself where each has them all.  Hot: every status write comes here."""
    names = members.keys()
    for item in items:
        if not names <= item.keys():
            known = _wholes.get(items, members)
            if known is None:
                made = [each if names <= each.keys() else {**members, **each} for each in items]
                known = _wholes.put(made, items, members)
            return known
    return items


def _conditions(status: Obj, members: Mapping[str, Any]) -> Obj:
    conditions = status.get("conditions")
    if not conditions:
        return status
    whole = _whole(conditions, members)
    return status if whole is conditions else {**status, "conditions": whole}


def _pod_status(status: Obj) -> Obj:
    if not status:
        return status
    status = _conditions(status, _PROBED)
    for field in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        items = status.get(field)
        if items and (whole := _whole(items, CONTAINER_STATUS)) is not items:
            status = {**status, field: whole}
    address = status.get("podIP")
    listed = status.get("podIPs")
    if address and (not listed or listed[0].get("ip") != address):  # the singular wins
        return {**status, "podIPs": [{"ip": address}]}
    return {**status, "podIP": listed[0].get("ip", "")} if listed and not address else status


def _conditioned(obj: Obj, members: Mapping[str, Any] = _CHANGED) -> Obj:
    return _in(obj, "status", lambda status: _conditions(status, members))


# --- kinds ------------------------------------------------------------------------------------------------


_STATUS: Mapping[str, Any] = {"status": {}}


def _pod(pod: Obj) -> Obj:
    pod = pod if "spec" in pod else {**pod, "spec": {}}
    return _in(_in(_present(pod, _STATUS), "status", _pod_status), "spec", _pod_specs)


def _rolling(spec: Obj, field: str, defaults: Mapping[str, Any]) -> Obj:
    def strategy(value: Obj) -> Obj:
        value = _fill(value, {"type": "RollingUpdate"})
        if value["type"] != "RollingUpdate":
            return value
        return _in(_fill(value, {"rollingUpdate": {}}), "rollingUpdate", lambda r: _fill(r, defaults))

    return _in(_fill(spec, {field: {}}), field, strategy)


def _deployment(obj: Obj) -> Obj:
    def spec(value: Obj) -> Obj:
        value = _fill(value, {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})
        value = _present(value, {"template": {}})
        return _in(
            _rolling(value, "strategy", {"maxUnavailable": "25%", "maxSurge": "25%"}), "template", _templates
        )

    return _conditioned(_in(_present(obj, {"spec": {}, "status": {}}), "spec", spec), _UPDATED)


def _replica_set(obj: Obj) -> Obj:
    def spec(value: Obj) -> Obj:
        return _in(_present(_fill(value, {"replicas": 1}), {"template": {}}), "template", _templates)

    return _counters(_in(_present(obj, {"spec": {}}), "spec", spec), "replicas")


def _replication_controller(obj: Obj) -> Obj:
    obj = _present(obj, {"spec": {}})
    labels = ((obj["spec"].get("template") or {}).get("metadata") or {}).get("labels")
    if labels:  # both come from the template
        obj = _in(obj, "spec", lambda spec: spec if spec.get("selector") else {**spec, "selector": labels})
        obj = _in(
            obj, "metadata", lambda given: given if given.get("labels") else {**given, "labels": labels}
        )
    obj = _in(obj, "spec", lambda spec: _in(_fill(spec, {"replicas": 1}), "template", _templates))
    return _counters(obj, "replicas")


def _counters(obj: Obj, *names: str) -> Obj:
    zeros = dict.fromkeys(names, 0)
    obj = _in(_present(obj, {"status": {}}), "status", lambda status: _present(status, zeros))
    return _conditioned(obj)


def _daemon_set(obj: Obj) -> Obj:
    def spec(value: Obj) -> Obj:
        value = _present(_fill(value, {"revisionHistoryLimit": 10}), {"template": {}})
        value = _rolling(value, "updateStrategy", {"maxUnavailable": 1, "maxSurge": 0})
        value = _in(
            value, "updateStrategy", lambda s: _in(s, "rollingUpdate", lambda r: _fill(r, {"maxSurge": 0}))
        )
        return _in(value, "template", _templates)

    obj = _in(_present(obj, {"spec": {}}), "spec", spec)
    return _counters(
        obj, "currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"
    )


def _stateful_set(obj: Obj) -> Obj:
    def strategy(value: Obj) -> Obj:
        # Quirk: the type alone leaves the partition unset; only a missing type brings rollingUpdate along.
        if not value.get("type"):
            value = _fill({**value, "type": "RollingUpdate"}, {"rollingUpdate": {}})
        return _in(value, "rollingUpdate", lambda rolling: _fill(rolling, {"partition": 0}))

    def template(claim: Obj) -> Obj:
        return _claim(_in_meta(_fill(claim, {"apiVersion": "v1", "kind": "PersistentVolumeClaim"})))

    def spec(value: Obj) -> Obj:
        value = _fill(
            value, {"replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady"}
        )
        value = _in(_fill(value, {"updateStrategy": {}}), "updateStrategy", strategy)
        value = _all(_present(value, {"serviceName": "", "template": {}}), "volumeClaimTemplates", template)
        return _in(value, "template", _templates)

    return _counters(_in(_present(obj, {"spec": {}}), "spec", spec), "replicas", "availableReplicas")


def _service(obj: Obj) -> Obj:
    def port(value: Obj) -> Obj:
        value = _fill(value, _TCP)
        target = value.get("targetPort")
        return {**value, "targetPort": value.get("port", 0)} if target in (None, "", 0) else value

    def spec(value: Obj) -> Obj:
        value = _fill(value, {"sessionAffinity": "None", "type": "ClusterIP"})
        if value["sessionAffinity"] == "None" and "sessionAffinityConfig" in value:
            value = {key: part for key, part in value.items() if key != "sessionAffinityConfig"}
        if value["sessionAffinity"] == "ClientIP":
            affinity = {"clientIP": {"timeoutSeconds": 10800}}
            value = _fill(value, {"sessionAffinityConfig": affinity})
        if value["type"] in ("NodePort", "LoadBalancer"):
            value = _fill(value, {"externalTrafficPolicy": "Cluster"})
        if value["type"] == "LoadBalancer":
            value = _fill(value, {"allocateLoadBalancerNodePorts": True})
        if value["type"] != "ExternalName":
            value = _fill(value, {"internalTrafficPolicy": "Cluster"})
        return _all(value, "ports", port)

    obj = _in(_present(obj, {"spec": {}, "status": {}}), "spec", spec)
    return _in(obj, "status", lambda status: _present(status, {"loadBalancer": {}}))


def _endpoints(obj: Obj) -> Obj:
    def subset(value: Obj) -> Obj:
        return _all(value, "ports", lambda port: _fill(port, _TCP))

    return _all(obj, "subsets", subset)


def _endpoint_slice(obj: Obj) -> Obj:
    def port(value: Obj) -> Obj:
        return _fill(_present(value, {"name": ""}), _TCP)

    def endpoint(value: Obj) -> Obj:
        return _present(value, {"conditions": {}})

    obj = _present(obj, {"endpoints": None, "ports": None})
    return _all(_all(obj, "ports", port), "endpoints", endpoint)


def _secret(obj: Obj) -> Obj:
    obj = _fill(obj, {"type": "Opaque"})
    if "stringData" not in obj:
        return obj
    plain = {key: b64encode(value.encode()).decode() for key, value in (obj["stringData"] or {}).items()}
    data = {**(obj.get("data") or {}), **plain}
    return {**{key: value for key, value in obj.items() if key != "stringData"}, "data": data}


def _namespace(obj: Obj) -> Obj:
    obj = _in(_present(obj, {"spec": {}, "status": {}}), "status", lambda s: _fill(s, {"phase": "Active"}))
    return _conditioned(obj)


_NODE_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)


_node_amounts = _Memo(_amounts)


def _node(obj: Obj) -> Obj:
    def status(value: Obj) -> Obj:
        value = _conditions(_in(value, "capacity", _node_amounts), _BEATEN)
        if value.get("capacity") and not value.get("allocatable"):
            value = {**value, "allocatable": value["capacity"]}
        return _present(
            _in(value, "allocatable", _node_amounts),
            {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": dict.fromkeys(_NODE_INFO, "")},
        )

    def spec(value: Obj) -> Obj:
        one, listed = value.get("podCIDR"), value.get("podCIDRs")
        if one and (not listed or listed[0] != one):
            return {**value, "podCIDRs": [one]}
        return {**value, "podCIDR": listed[0]} if listed and not one else value

    return _in(_in(_present(obj, {"spec": {}, "status": {}}), "spec", spec), "status", status)


def _budget(obj: Obj) -> Obj:
    obj = _present(obj, {"spec": {}})
    return _counters(obj, "disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


_EVENT: Mapping[str, Any] = {
    **dict.fromkeys(("firstTimestamp", "lastTimestamp", "eventTime")),
    "involvedObject": {},
    "source": {},
    "reportingComponent": "",
    "reportingInstance": "",
}


def _core_event(obj: Obj) -> Obj:
    return _present(obj, _EVENT)


def _newer_event(obj: Obj) -> Obj:
    times = dict.fromkeys(("eventTime", "deprecatedFirstTimestamp", "deprecatedLastTimestamp"))
    return _present(obj, {**times, "regarding": {}, "deprecatedSource": {}})


def _ingress(obj: Obj) -> Obj:
    return _in(
        _present(obj, {"spec": {}, "status": {}}), "status", lambda s: _present(s, {"loadBalancer": {}})
    )


def _ingress_class(obj: Obj) -> Obj:
    obj = _present(obj, {"spec": {}})
    return _in(obj, "spec", lambda spec: _in(spec, "parameters", lambda p: _fill(p, {"scope": "Cluster"})))


def _network_policy(obj: Obj) -> Obj:
    def rule(value: Obj) -> Obj:
        return _all(value, "ports", lambda port: _fill(port, _TCP))

    def spec(value: Obj) -> Obj:
        value = _present(_all(_all(value, "ingress", rule), "egress", rule), {"podSelector": {}})
        types = ["Ingress", "Egress"] if value.get("egress") else ["Ingress"]
        return value if value.get("policyTypes") else {**value, "policyTypes": types}

    return _in(_present(obj, {"spec": {}, "status": {}}), "spec", spec)


def _pod_template(obj: Obj) -> Obj:
    return _in(_present(obj, {"template": {}}), "template", _templates)


def _runtime_class(obj: Obj) -> Obj:
    return _in(obj, "overhead", lambda value: _in(value, "podFixed", _amounts))


_KINDS: dict[tuple[str, str], Fn] = {
    ("", "Pod"): _pod,
    ("", "Namespace"): _namespace,
    ("", "Node"): _node,
    ("", "Service"): _service,
    ("", "Endpoints"): _endpoints,
    ("", "Event"): _core_event,
    ("events", "Event"): _newer_event,
    ("", "ReplicationController"): _replication_controller,
    ("", "Secret"): _secret,
    ("", "PersistentVolumeClaim"): _claim,
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _replica_set,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("policy", "PodDisruptionBudget"): _budget,
    ("scheduling", "PriorityClass"): lambda obj: _fill(obj, {"preemptionPolicy": "PreemptLowerPriority"}),
    ("", "PodTemplate"): _pod_template,
    ("networking", "Ingress"): _ingress,
    ("networking", "IngressClass"): _ingress_class,
    ("networking", "NetworkPolicy"): _network_policy,
    ("node", "RuntimeClass"): _runtime_class,
    ("coordination", "Lease"): lambda obj: _present(obj, {"spec": {}}),
    ("discovery", "EndpointSlice"): _endpoint_slice,
    ("batch", "Job"): batch.job(_templates),
    ("batch", "CronJob"): batch.cron_job(_templates),
    ("autoscaling", "HorizontalPodAutoscaler"): batch.autoscaler,
    ("", "ResourceQuota"): batch.quota,
    ("", "LimitRange"): batch.limit_range,
    ("apiextensions", "CustomResourceDefinition"): definition,
    ("flowcontrol.apiserver", "FlowSchema"): flow_schema,
    ("flowcontrol.apiserver", "PriorityLevelConfiguration"): priority_level,
}


# For a write to /status, which leaves the rest as it is: of a bound pod's spec there is but one.
_STATUS_KINDS: dict[tuple[str, str], Fn] = {
    ("", "Pod"): lambda pod: _in(_present(pod, _STATUS), "status", _pod_status),
}


def apply_defaults(resource: Resource, obj: Obj, subresource: str = "") -> Obj:
    """The object with its kind's defaults; the same object where nothing was missing.

    subresource: of the write; of what that takes from the old object anyway nothing need be filled in.
    """
    kind = (resource.short_group, resource.kind)
    fill = _STATUS_KINDS.get(kind) if subresource == "status" else None
    fill = fill or _KINDS.get(kind)
    return obj if fill is None else fill(obj)
