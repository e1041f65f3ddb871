"""A store that gives no answer, at each of the operations of a request in turn."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.store import Answer, Op, Unavailable
from sim.api.types import Reply
from tests.unit.sim.api.golden_api import Api

CORE = "/api/v1/namespaces/golden-ns"
POD = {
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "image": "r/web:1"}]},
}
BUDGET = {
    "metadata": {"name": "web"},
    "spec": {"minAvailable": 0, "selector": {"matchLabels": {"app": "web"}}},
}
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web"}}
MERGE = "application/merge-patch+json"
REQUESTS: dict[str, tuple[Any, ...]] = {
    "a service of an address": ("POST", f"{CORE}/services", {"metadata": {"name": "t"}, "spec": {"ports": [{"port": 80}]}}),
    "a service of a port": (
        "POST",
        f"{CORE}/services",
        {"metadata": {"name": "t"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}},
    ),
    "a change of type": ("PATCH", f"{CORE}/services/s", {"spec": {"type": "NodePort"}}, MERGE),
    "an eviction": ("POST", f"{CORE}/pods/web/eviction", EVICTION),
    "a pod": ("POST", f"{CORE}/pods", {**POD, "metadata": {"name": "other"}}),
    "a binding": (
        "POST",
        f"{CORE}/pods/web/binding",
        {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n"}},
    ),
    "a deletion": ("DELETE", f"{CORE}/pods/web"),
    "a read": ("GET", f"{CORE}/pods/web"),
    "a change": ("PATCH", f"{CORE}/pods/web", {"metadata": {"labels": {"a": "b"}}}, MERGE),
}  # fmt: skip


class Silent:
    """A store that answers so many operations, and none after."""

    def __init__(self, api: Api, answers: int) -> None:
        self._apply = api.store.apply
        self.left = answers
        api.store = self  # type: ignore[assignment]

    def apply(self, op: Op) -> Answer:
        self.left -= 1
        return Unavailable("etcdserver: request timed out") if self.left < 0 else self._apply(op)


def asked(what: str, answers: int) -> tuple[Reply, bool]:
    """The reply, and whether an operation got no answer."""
    api = Api()
    api.ask("POST", f"{CORE}/pods", POD)
    api.ask("PATCH", f"{CORE}/pods/web/status", {"status": {"phase": "Running"}}, MERGE)
    api.ask("POST", "/apis/policy/v1/namespaces/golden-ns/poddisruptionbudgets", BUDGET)
    api.ask("POST", f"{CORE}/services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
    store = Silent(api, answers)
    reply = api.ask(*REQUESTS[what])
    return reply, store.left < 0


@pytest.mark.parametrize("what", REQUESTS)
def test_request_fails_if_any_of_its_operations_gets_no_answer(what: str) -> None:
    for answers in range(10):
        reply, silent = asked(what, answers)
        if not silent:
            assert answers > 0
            return
        assert reply.code == 500, reply
        assert "etcdserver: request timed out" in reply.message
    raise AssertionError(f"{what} takes more than ten operations")


def test_service_refusal_names_what_could_not_be_allocated() -> None:
    start = "Internal error occurred: failed to allocate a"
    reply, _ = asked("a service of an address", 0)
    assert reply.message == f"{start} serviceIP: etcdserver: request timed out"
    reply, _ = asked("a change of type", 1)
    assert reply.message == f"{start} nodePort: etcdserver: request timed out"
