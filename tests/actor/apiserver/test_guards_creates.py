"""Each clause of the guard of creates by node agents: dropped, one of these tests fails (see
`test_guards`).
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import cache, partial
from itertools import count
from typing import Any

import pytest
import trio

from sim.api.types import Obj, UserInfo
from sim.kernel.fast import FAST, PLAIN, FastPaths
from tests.actor.apiserver.cluster import NAMES_ORCH, plane, request
from tests.actor.apiserver.test_guards import OPTIONS, Server

GROUPS = ("system:nodes", "system:authenticated")
NAMESPACE = NAMES_ORCH.lease_namespace
CAPACITY: Obj = {"cpu": "4", "pods": "110"}
ENDPOINTS: Obj = {"kubeletEndpoint": {"Port": 10250}}


def uid_of(number: int) -> str:
    """The uid of the Node with a number."""
    return f"00000000-0000-4000-8000-{number:012}"


def time_of(number: int) -> str:
    """A time, another one for each number."""
    return f"2026-01-01T{number // 60:02}:{number % 60:02}:00Z"


def node(number: int) -> Obj:
    """A Node as an agent creates it."""
    name, time = f"n{number}", time_of(number)
    condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": time, "lastTransitionTime": time}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"host": name, "zone": "a"}, "annotations": {"b": "true"}},
        "spec": {},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": f"10.0.0.{number}"},
                {"type": "Hostname", "address": name},
            ],
            "capacity": CAPACITY,
            "allocatable": CAPACITY,
            "nodeInfo": {"machineID": f"m{number}", "bootID": f"b{number}", "osImage": "o"},
            "daemonEndpoints": ENDPOINTS,
            "conditions": [condition, {**condition, "type": "DiskPressure"}],
        },
    }


def owner(number: int) -> Obj:
    """The reference to a Node that owns an object."""
    return {"apiVersion": "v1", "kind": "Node", "name": f"n{number}", "uid": uid_of(number)}


def lease(number: int) -> Obj:
    """A Lease as an agent creates it."""
    name = f"n{number}"
    return {
        "apiVersion": NAMES_ORCH.api_version("coordination", "v1"),
        "kind": "Lease",
        "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": [owner(number)]},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": 40,
            "renewTime": f"2026-01-01T{number // 60:02}:{number % 60:02}:00.000001Z",
        },
    }


def csi_node(number: int) -> Obj:
    """A CSINode as an agent creates it."""
    return {
        "apiVersion": NAMES_ORCH.api_version("storage", "v1"),
        "kind": "CSINode",
        "metadata": {"name": f"n{number}", "annotations": {"a": "b"}, "ownerReferences": [owner(number)]},
        "spec": {"drivers": []},
    }


MADE = {"nodes": node, "leases": lease, "csinodes": csi_node}


class Agents(Server):
    """A replica that agents of several nodes register at."""

    def create(self, resource: str, number: int, change: Callable[[Obj], object] = id, **more: Any) -> None:
        """Let the agent of a node create an object, changed by a function of its body."""
        body = deepcopy(MADE[resource](number))
        if resource == "nodes":  # parts that are one object for all nodes
            body["status"] |= {"capacity": CAPACITY, "allocatable": CAPACITY, "daemonEndpoints": ENDPOINTS}
        change(body)
        metadata = body["metadata"]
        name = metadata["name"] if type(metadata) is dict else ""
        given = {"user": UserInfo(NAMES_ORCH.node_user(str(name)), GROUPS), "manager": "agent", **more}
        self.ask(request("create", resource, NAMESPACE, body=body, **given))


def put(*path: Any) -> Callable[[Obj], object]:
    """A change of the value at a path; the last element is the new value, `...` removes it."""

    def change(body: Any) -> None:
        *above, last, value = path
        for step in above:
            body = body[step]
        if value is ...:
            del body[last]
        else:
            body[last] = value

    return change


def renamed(name: Any) -> Callable[[Obj], object]:
    """A change of a Node's name wherever it occurs."""

    def change(body: Obj) -> None:
        body["metadata"] |= {"name": name, "labels": {"host": name, "zone": "a"}}
        body["status"]["addresses"][1]["address"] = name

    return change


META, STATUS = "metadata", "status"
CONDITION, OWNER = (STATUS, "conditions", 0), (META, "ownerReferences", 0)
# For each name a resource, and what is odd about one object of it, or about each of several.
ODD: dict[str, tuple[str, *tuple[Callable[[Obj], object], ...]]] = {
    "even_node": ("nodes", id),
    "even_lease": ("leases", id),
    "even_csi_node": ("csinodes", id),
    "metadata_text": ("nodes", put(META, "x")),
    "name_number": ("nodes", renamed(3)),
    "name_upper": ("nodes", renamed("N3")),
    "name_long": ("nodes", renamed("n" * 64)),
    "more_metadata": ("leases", put(META, "finalizers", ["a.b/c"]), put(META, "finalizers", ["a b"])),
    "uid_given": ("nodes", put(META, "uid", "u")),
    "label_map": ("nodes", put(META, "labels", "zone", {})),
    "label_invalid": ("nodes", put(META, "labels", "zone", "a b")),
    "labels_empty": ("nodes", put(META, "labels", {}), put(META, "labels", {})),
    "labels_text": ("nodes", put(META, "labels", "x")),
    "annotation_other": ("nodes", put(META, "annotations", "b", "false")),
    "namespace_given": ("nodes", put(META, "namespace", "default"), put(META, "namespace", "other")),
    "spec_given": ("nodes", put("spec", "unschedulable", True), put("spec", "unschedulable", False)),
    "spec_text": ("nodes", put("spec", "x")),
    "status_text": ("nodes", put(STATUS, "x")),
    "status_more": ("nodes", put(STATUS, "phase", "x"), put(STATUS, "phase", None)),
    "more_members": ("nodes", put("data", {}), put("data", {})),
    "capacity_invalid": ("nodes", put(STATUS, "capacity", {"cpu": "x"})),
    "capacity_absent": ("nodes", put(STATUS, "capacity", ...)),
    "addresses_number": ("nodes", put(STATUS, "addresses", 3)),
    "address_text": ("nodes", put(STATUS, "addresses", 0, "x")),
    "address_null": ("nodes", put(STATUS, "addresses", 0, "address", None)),
    "address_absent": ("nodes", put(STATUS, "addresses", 0, "address", ...)),
    "address_type_map": ("nodes", put(STATUS, "addresses", 0, "type", {})),
    "addresses_twice": ("nodes", put(STATUS, "addresses", 0, "type", "Hostname")),
    "info_text": ("nodes", put(STATUS, "nodeInfo", "x")),
    "info_null": ("nodes", put(STATUS, "nodeInfo", "machineID", None)),
    "conditions_number": ("nodes", put(STATUS, "conditions", 3)),
    "condition_text": ("nodes", put(*CONDITION, "x")),
    "condition_map": ("nodes", put(*CONDITION, "reason", {})),
    "condition_status": ("nodes", put(*CONDITION, "status", "False")),
    "time_null": ("nodes", put(*CONDITION, "lastHeartbeatTime", None)),
    "owners_number": ("leases", put(META, "ownerReferences", 3)),
    "owner_text": ("leases", put(META, "ownerReferences", ["x"])),
    "owners_none": ("leases", put(META, "ownerReferences", [])),
    "owners_two": ("leases", lambda body: body[META]["ownerReferences"].append(owner(0))),
    "owner_nameless": ("leases", put(*OWNER, "name", "")),
    "owner_more": ("leases", put(*OWNER, "controller", True), put(*OWNER, "controller", False)),
    "owner_kind": ("leases", put(*OWNER, "kind", "Event")),
    "uid_quoted": ("leases", put(*OWNER, "uid", 'a"b')),
    "uid_foreign": ("leases", put(*OWNER, "uid", "\u00fc")),
    "uid_number": ("leases", put(*OWNER, "uid", 3)),
    "lease_elsewhere": ("leases", put(META, "namespace", "default")),
    "lease_nowhere": ("leases", put(META, "namespace", ...)),
    "lease_spec_text": ("leases", put("spec", "x")),
    "lease_more": ("leases", put("spec", "leaseTransitions", 1), put("spec", "leaseTransitions", -1)),
    "lease_duration": ("leases", put("spec", "leaseDurationSeconds", 0)),
    "lease_duration_map": ("leases", put("spec", "leaseDurationSeconds", {})),
    "lease_holder_null": ("leases", put("spec", "holderIdentity", None)),
    "lease_time_null": ("leases", put("spec", "renewTime", None)),
    "drivers": ("csinodes", put("spec", "drivers", [{"name": "a.b", "nodeID": "n3", "topologyKeys": None}])),
    "csi_spec_text": ("csinodes", put("spec", "x")),
    "csi_owner_absent": ("csinodes", put(META, "ownerReferences", ...)),
}


async def outcomes(fast: FastPaths) -> dict[str, list[Any]]:
    """What can be seen of each odd create, and of an even one after it, on one replica."""
    seen: dict[str, list[Any]] = {}
    async with plane(options=OPTIONS, fast=fast) as p:
        server = Agents(p)
        for resource in MADE:
            server.create(resource, 1)
        numbers = count(2)
        for name, (resource, *changes) in ODD.items():
            server.seen, before = [], p.storage.store.revision
            for change in changes:
                server.create(resource, next(numbers), change)
            server.create(resource, next(numbers))
            seen[name] = [*server.seen, *changed_since(server, before)]
        seen["trace"] = [p.kernel.trace.sha256()]
    return seen


def changed_since(server: Server, revision: int) -> list[Any]:
    """All objects that were written after a revision, with their records of ownership."""
    changes = server.plane.storage.store.events(revision, "")
    assert isinstance(changes, list)
    items = [change.item for change in changes]
    return [(item.rev, item.key, str(item.obj), item.managed) for item in items]


@cache
def plain_outcomes() -> dict[str, list[Any]]:
    """The outcomes without fast paths, computed once (`tests.bench.mutants` changes fast ones)."""
    return trio.run(outcomes, PLAIN)


@pytest.fixture(scope="module")
def fast_outcomes() -> dict[str, list[Any]]:
    return trio.run(outcomes, FAST)


@pytest.mark.parametrize("name", [*ODD, "trace"])
def test_create_by_an_agent_gives_the_ordinary_result(fast_outcomes: dict[str, list[Any]], name: str) -> None:
    assert fast_outcomes[name] == plain_outcomes()[name]


async def followed(resource: str, change: Callable[[Obj], object] = id, **more: Any) -> int:
    """How many creates templates serve: two after the first, the second of them with a change."""
    async with plane(options=OPTIONS) as p:
        server = Agents(p)
        for number in (1, 2):
            server.create(resource, number)
        server.create(resource, 3, change, **more)
        return server.followed


@pytest.mark.parametrize("resource", MADE)
def test_creates_of_agents_are_served_by_template(resource: str) -> None:
    assert trio.run(followed, resource) == 2


@pytest.mark.parametrize(
    "more",
    [
        {"manager": "other"},
        {"change": put(STATUS, "capacity", {**CAPACITY})},
        {"user": UserInfo(NAMES_ORCH.node_user("n3"), (*GROUPS, "others"))},
        {"user": UserInfo(NAMES_ORCH.node_user("n1"), GROUPS)},
    ],
)
def test_creates_of_another_shape_or_client_are_ordinary(more: dict[str, Any]) -> None:
    assert trio.run(partial(followed, "nodes", **more)) == 1
