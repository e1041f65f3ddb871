"""Optional plugins about namespaces, Services, claims, Events and owner references."""

from __future__ import annotations

import pytest

from sim.api.admission.base import Denial
from sim.api.admission.plugins.always import AlwaysAdmit, AlwaysDeny
from sim.api.admission.plugins.event_rate_limit import EventLimit, EventRateLimit
from sim.api.admission.plugins.namespaces import NamespaceExists
from sim.api.admission.plugins.owner_references import OwnerReferencesPermissionEnforcement
from sim.api.admission.plugins.service_external_ips import DenyServiceExternalIPs
from sim.api.auth.attributes import NO_OPINION, AccessAttributes, Decision, Opinion
from sim.api.types import Obj, UserInfo
from tests.unit.sim.api.admission.test_chain import FakeView, asks


def test_always_deny_refuses_each_operation() -> None:
    plugin = AlwaysDeny()
    for operation in ("create", "update", "delete"):
        assert plugin.concerns(operation, "pods", "")
        denial = plugin.mutate(asks("pods", operation, name="p"), {}, FakeView())
        assert isinstance(denial, Denial)
        assert denial.message == 'pods "p" is forbidden: admission control is denying all modifications'


def test_always_admit_takes_part_in_nothing() -> None:
    assert not AlwaysAdmit().judges("create", "pods", "")


@pytest.mark.parametrize(("namespace", "code"), [("d", 0), ("none", 404), ("", 0)])
def test_namespace_of_a_request_must_exist(namespace: str, code: int) -> None:
    asked = asks("configmaps", "delete", namespace, name="x")
    denial = NamespaceExists().validate(asked, {}, FakeView())
    assert (denial.code if denial else 0) == code
    assert not NamespaceExists().judges("create", "namespaces", "")


@pytest.mark.parametrize(
    ("new", "old", "is_allowed"),
    [
        ([], None, True),
        (["192.0.2.1"], None, False),
        (["192.0.2.1"], ["192.0.2.1", "192.0.2.2"], True),
        (["192.0.2.3"], ["192.0.2.1"], False),
    ],
)
def test_service_gets_no_new_external_address(
    new: list[str], old: list[str] | None, is_allowed: bool
) -> None:
    stored = None if old is None else {"spec": {"externalIPs": old}}
    asked = asks("services", "create" if old is None else "update", name="s", old=stored)
    obj = {"metadata": {"name": "s"}, "spec": {"externalIPs": new}}
    denial = DenyServiceExternalIPs().validate(asked, obj, FakeView())
    assert (denial is None) is is_allowed
    text = 'services "s" is forbidden: Use of external IPs is denied by admission control'
    if denial is not None:
        assert denial.message == text


# --- EventRateLimit -------------------------------------------------------------------------------


def written(
    plugin: EventRateLimit, at_s: float, user: str = "ann", namespace: str = "d", dry: bool = False
) -> str:
    about = {"kind": "Pod", "namespace": namespace, "name": "p", "uid": "u", "apiVersion": "v1"}
    event = {"metadata": {"name": "e"}, "source": {"component": "c", "host": "h"}, "involvedObject": about}
    asked = asks(
        "events", namespace=namespace, user=UserInfo(user), now_us=int(at_s * 1_000_000), dry_run=dry
    )
    denial = plugin.validate(asked, event, FakeView())
    if denial is not None:
        assert (denial.code, denial.reason) == (429, "TooManyRequests")
    return "" if denial is None else denial.message


def test_events_beyond_the_burst_wait_for_the_rate() -> None:
    plugin = EventRateLimit([EventLimit("Server", qps=2, burst=3)])
    assert [bool(written(plugin, 0)) for _ in range(4)] == [False, False, False, True]
    assert written(plugin, 0.4) == "Too many requests: limit reached on type Server for key "
    assert [bool(written(plugin, 0.5)) for _ in range(2)] == [False, True]
    assert [bool(written(plugin, 60)) for _ in range(4)] == [False, False, False, True]


def test_each_key_has_its_own_bucket() -> None:
    plugin = EventRateLimit([EventLimit("User", qps=1, burst=1), EventLimit("Namespace", qps=1, burst=2)])
    assert [written(plugin, 0, "ann"), written(plugin, 0, "bob")] == ["", ""]
    # Quirk: of several limits the last one is named.
    assert written(plugin, 0, "ann") == "Too many requests: limit reached on type Namespace for key d"
    assert written(plugin, 0, "ann", "e") == "Too many requests: limit reached on type User for key ann"
    plugin = EventRateLimit([EventLimit("SourceAndObject", qps=1, burst=1)])
    assert [bool(written(plugin, 0)), bool(written(plugin, 0))] == [False, True]
    assert written(plugin, 0).endswith("for key chPoddpuv1")


def test_least_recently_used_bucket_is_forgotten() -> None:
    plugin = EventRateLimit([EventLimit("User", qps=1, burst=1, cache_size=2)])
    assert [written(plugin, 0, user) for user in ("a", "b", "c", "a")] == [""] * 4
    assert written(plugin, 0, "c") != ""


def test_dry_run_and_events_of_the_newer_group_are_not_counted() -> None:
    plugin = EventRateLimit([EventLimit("Server", qps=1, burst=1)])
    assert [written(plugin, 0, dry=True) for _ in range(3)] == [""] * 3
    newer = asks("events.events.k8s.io")
    assert [plugin.validate(newer, {}, FakeView()) for _ in range(3)] == [None] * 3
    assert written(plugin, 0) == ""


def test_decision_about_an_event_is_not_repeated() -> None:
    view = FakeView()
    EventRateLimit([EventLimit("Server", qps=1, burst=1)]).validate(asks("events"), {}, view)
    assert view.volatile


# --- OwnerReferencesPermissionEnforcement ---------------------------------------------------------

OWNER: Obj = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "o", "uid": "u"}
BLOCKING = {**OWNER, "blockOwnerDeletion": True}


class Rights:
    """Allows what is listed as (verb, resource, subresource)."""

    def __init__(self, *allowed: tuple[str, str, str]) -> None:
        self.allowed = allowed

    def authorize(self, user: UserInfo, attributes: AccessAttributes) -> Opinion:
        asked = (attributes.verb, attributes.resource, attributes.subresource)
        return Opinion(Decision.ALLOW) if asked in self.allowed else NO_OPINION


def owned(owners: list[Obj], before: list[Obj] | None, *allowed: tuple[str, str, str]) -> str:
    old = None if before is None else {"metadata": {"name": "p", "ownerReferences": before}}
    asked = asks(
        "pods", "create" if old is None else "update", name="p", old=old, authorizer=Rights(*allowed)
    )
    obj = {"metadata": {"name": "p", "ownerReferences": owners}}
    denial = OwnerReferencesPermissionEnforcement().validate(asked, obj, FakeView())
    return "" if denial is None else denial.message.partition(": ")[2]


NO_DELETE = "cannot set an ownerRef on a resource you can't delete: , <nil>"
NO_FINALIZERS = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>"
DELETE, FINALIZE = ("delete", "pods", ""), ("update", "deployments", "finalizers")


def test_owner_is_changed_by_users_that_may_delete() -> None:
    assert owned([OWNER], None) == ""  # a creator needs no right to delete
    assert owned([OWNER], []) == NO_DELETE
    assert owned([], [OWNER]) == NO_DELETE
    assert owned([OWNER], [OWNER]) == ""
    assert owned([OWNER], [], DELETE) == ""


def test_owner_is_blocked_by_users_that_may_finalize_it() -> None:
    assert owned([BLOCKING], None) == NO_FINALIZERS
    assert owned([BLOCKING], None, FINALIZE) == ""
    assert owned([BLOCKING], [OWNER], DELETE) == NO_FINALIZERS
    assert owned([BLOCKING, OWNER], [BLOCKING], DELETE) == ""


def test_owner_of_an_unknown_kind_is_blocked_only_with_all_rights() -> None:
    odd = {**BLOCKING, "apiVersion": "example.com/v1", "kind": "Odd"}
    assert owned([odd], None) == (
        "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion example.com/v1"
        ' Kind Odd: no matches for kind "Odd" in version "example.com/v1"'
    )
    assert owned([odd], None, ("update", "*", "finalizers")) == ""


def test_without_an_authorizer_every_owner_is_allowed() -> None:
    asked = asks("pods", "update", name="p", old={"metadata": {"name": "p"}})
    obj = {"metadata": {"name": "p", "ownerReferences": [BLOCKING]}}
    assert OwnerReferencesPermissionEnforcement().validate(asked, obj, FakeView()) is None
    assert not OwnerReferencesPermissionEnforcement().judges("update", "pods", "status")
