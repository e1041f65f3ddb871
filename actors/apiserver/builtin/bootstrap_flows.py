"""The FlowSchemas and priority levels that every cluster starts with.

Turns a naming set into the objects, in the order upstream makes them.

Mirrors  kubernetes v1.25 apiserver pkg/apis/flowcontrol/bootstrap/default.go (as a real control
         plane shows them), kubernetes pkg/registry/flowcontrol/ensurer/strategy.go.
Differs  The objects are created with their status; `flow_status` keeps it later.
"""

from __future__ import annotations

from collections.abc import Container

from sim.api.types import Obj
from sim.ident import Names
from sim.units import format_time

# pkg/registry/flowcontrol/ensurer/strategy.go and apf_controller.go: the field managers.
PRODUCER = "api-priority-and-fairness-config-producer-v1"
CONSUMER = "api-priority-and-fairness-config-consumer-v1"
MANDATORY = ("exempt", "catch-all")  # of either kind; all others are suggested
EVERY = ["*"]
# name: (shares, queues, hand size, queue length).  The level catch-all has no queue.
_LEVELS: dict[str, tuple[int, int, int, int]] = {
    "system": (30, 64, 6, 50),
    "node-high": (40, 64, 6, 50),
    "leader-election": (10, 16, 4, 50),
    "workload-high": (40, 128, 6, 50),
    "workload-low": (100, 128, 6, 50),
    "global-default": (20, 128, 6, 50),
}
_ALL_RULES: Obj = {
    "resourceRules": [
        {"verbs": EVERY, "apiGroups": EVERY, "resources": EVERY, "clusterScope": True, "namespaces": EVERY}
    ],
    "nonResourceRules": [{"verbs": EVERY, "nonResourceURLs": EVERY}],
}
_LOCKS = ["get", "create", "update"]


def levels(names: Names) -> list[Obj]:
    """Return the PriorityLevelConfigurations."""
    specs: dict[str, Obj] = {
        "exempt": {"type": "Exempt"},
        "catch-all": _limited(5, {"type": "Reject"}),
    }
    for name, (shares, queues, hand, length) in _LEVELS.items():
        queuing = {"queues": queues, "handSize": hand, "queueLengthLimit": length}
        specs[name] = _limited(shares, {"type": "Queue", "queuing": queuing})
    return [{"metadata": _metadata(names, name), "spec": spec} for name, spec in specs.items()]


def _limited(shares: int, response: Obj) -> Obj:
    limited = {"assuredConcurrencyShares": shares, "limitResponse": response}
    return {"type": "Limited", "limited": limited}


def _metadata(names: Names, name: str) -> Obj:
    return {"name": name, "annotations": {names.annotation_flow_autoupdate: "true"}}


def level_of(schema: Obj) -> str:
    """Return the name of the priority level that a FlowSchema names."""
    return str(schema["spec"]["priorityLevelConfiguration"]["name"])


def schemas(names: Names) -> list[Obj]:
    """Return the FlowSchemas."""
    anybody = [_group(names.group_unauthenticated), _group(names.group_authenticated)]
    manager, scheduler = _user(names.user_controller_manager), _user(names.user_scheduler)
    nodes, system_accounts = [_group(names.group_nodes)], [_account(names, "*")]
    leases = {"apiGroups": [names.group("coordination")], "resources": ["leases"], "namespaces": EVERY}
    core = {"apiGroups": [""], "namespaces": EVERY}
    endpoints = _covering({**core, "verbs": _LOCKS, "resources": ["endpoints"]})
    locks = _covering(
        {**core, "verbs": _LOCKS, "resources": ["endpoints", "configmaps"]}, {**leases, "verbs": _LOCKS}
    )
    own = _covering(
        {**core, "verbs": EVERY, "resources": ["nodes", "nodes/status"], "clusterScope": True},
        {**leases, "verbs": EVERY},
    )
    slicers = [_account(names, f"{name}-controller") for name in ("endpoint", "endpointslicemirroring")]
    health = {"nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]}
    electors = [manager, scheduler, *system_accounts]

    def schema(name: str, precedence: int, level: str, subjects: list[Obj], rules: Obj, by: str = "") -> Obj:
        spec = {
            "matchingPrecedence": precedence,
            "priorityLevelConfiguration": {"name": level},
            **({"distinguisherMethod": {"type": by}} if by else {}),
            "rules": [{"subjects": subjects, **rules}],
        }
        return {"metadata": _metadata(names, name), "spec": spec}

    user, namespace = "ByUser", "ByNamespace"
    return [
        schema("exempt", 1, "exempt", [_group(names.group_masters)], _ALL_RULES),
        schema("catch-all", 10000, "catch-all", anybody, _ALL_RULES, user),
        schema("probes", 2, "exempt", anybody, health),
        schema(
            "system-leader-election",
            100,
            "leader-election",
            electors,
            _covering({**leases, "verbs": _LOCKS}),
            user,
        ),
        schema("endpoint-controller", 150, "workload-high", [manager, *slicers], endpoints, user),
        schema("workload-leader-election", 200, "leader-election", system_accounts, locks, user),
        schema("system-node-high", 400, "node-high", nodes, own, user),
        schema("system-nodes", 500, "system", nodes, _ALL_RULES, user),
        schema(names.component("controller-manager"), 800, "workload-high", [manager], _ALL_RULES, namespace),
        schema(names.component("scheduler"), 800, "workload-high", [scheduler], _ALL_RULES, namespace),
        schema(
            f"{names.system_namespace}-service-accounts",
            900,
            "workload-high",
            system_accounts,
            _ALL_RULES,
            namespace,
        ),
        schema(
            "service-accounts", 9000, "workload-low", [_group(names.group_service_accounts)], _ALL_RULES, user
        ),
        schema("global-default", 9900, "global-default", anybody, _ALL_RULES, user),
    ]


def _covering(*rules: Obj) -> Obj:
    return {"resourceRules": list(rules)}


def _group(name: str) -> Obj:
    return {"kind": "Group", "group": {"name": name}}


def _user(name: str) -> Obj:
    return {"kind": "User", "user": {"name": name}}


def _account(names: Names, name: str) -> Obj:
    account = {"name": name, "namespace": names.system_namespace}
    return {"kind": "ServiceAccount", "serviceAccount": account}


def dangling(level: str, exists: bool, now_us: int) -> Obj:
    """Return the condition that shows whether the priority level of a FlowSchema exists."""
    end = "and it exists" if exists else "but there is no such object"
    return {
        "type": "Dangling",
        "status": "False" if exists else "True",
        "lastTransitionTime": format_time(now_us),
        "reason": "Found" if exists else "NotFound",
        "message": f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" {end}',
    }


# --- maintenance ----------------------------------------------------------------------------------


def ensured(found: Obj, expected: Obj, names: Names) -> Obj | None:
    """Return the stored object as upstream's ensurer corrects it, None if it is right.

    A mandatory object always gets the expected spec; a suggested one unless its annotation says
    otherwise or, without a valid annotation, its spec was changed since its creation.
    """
    metadata = found["metadata"]
    annotations = metadata.get("annotations") or {}
    stated = as_bool(annotations.get(names.annotation_flow_autoupdate, ""))
    updates = stated if stated is not None else metadata.get("generation") == 1
    updates = updates or metadata["name"] in MANDATORY
    made = found
    if updates and found["spec"] != expected["spec"]:
        made = {**made, "spec": expected["spec"]}
    if stated is not updates:
        annotations = {**annotations, names.annotation_flow_autoupdate: "true" if updates else "false"}
        made = {**made, "metadata": {**metadata, "annotations": annotations}}
    return None if made is found else made


def is_unwanted(found: Obj, wanted_names: Container[str], names: Names) -> bool:
    """Return True if an object is kept by servers, but not by this version."""
    metadata = found["metadata"]
    stated = (metadata.get("annotations") or {}).get(names.annotation_flow_autoupdate, "")
    return metadata["name"] not in wanted_names and as_bool(stated) is True


def as_bool(text: str) -> bool | None:
    """Return the value of a text as Go's strconv.ParseBool reads it, None if it is none."""
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    return False if text in ("0", "f", "F", "false", "FALSE", "False") else None
