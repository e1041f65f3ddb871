"""The objects that an API server creates at its start, and those that it creates or corrects later."""

from __future__ import annotations

import pytest

from actors.apiserver.builtin import bootstrap_flows as flows
from actors.apiserver.builtin.client_authorities import CLIENT_CA
from sim.api.auth.bootstrap_policy.policy import bootstrap_policy
from sim.api.kinds.validation import validate_create
from sim.api.ownership.managed import render
from sim.api.store import Item
from sim.api.types import Obj
from sim.ident import NAMES
from sim.units import MINUTE, SECOND
from sim.wire.authority import Authority
from tests.actor.apiserver.cluster import SCHEME, Plane, plane

N = NAMES["orch"]
MERGE = "application/merge-patch+json"
LEVELS, SCHEMAS = "prioritylevelconfigurations", "flowschemas"
POLICY = bootstrap_policy("orch")
VIEW = "system:aggregate-to-view"


def _item(p: Plane, plural: str, name: str, namespace: str = "") -> Item | None:
    return p.storage.store.get(SCHEME.key(plural, namespace, name))


def _obj(p: Plane, plural: str, name: str, namespace: str = "") -> Obj:
    item = _item(p, plural, name, namespace)
    assert item is not None
    return item.obj


async def _patch(p: Plane, plural: str, name: str, patch: Obj) -> None:
    reply = await p.ask("patch", plural, "", name, body=patch, content_type=MERGE)
    assert reply.ok, reply.message


async def _delete(p: Plane, plural: str, name: str, namespace: str = "") -> None:
    reply = await p.ask("delete", plural, namespace, name)
    assert reply.ok, reply.message


async def _restart(p: Plane) -> None:
    p.supervisor["apiserver-0"].crash()
    p.supervisor["apiserver-0"].start()
    await p.run(SECOND)


# --- at the start ---------------------------------------------------------------------------------


async def test_roles_exist_before_the_first_request() -> None:
    async with plane() as p:
        for plural, expected in POLICY.objects():
            metadata = expected["metadata"]
            stored = _obj(p, plural, metadata["name"], metadata.get("namespace", ""))
            assert stored["metadata"]["labels"] == metadata["labels"]
            assert stored.get("rules") == expected.get("rules")
            assert stored.get("subjects") == expected.get("subjects")


async def test_bootstrap_objects_are_valid_and_have_owners() -> None:
    async with plane() as p:
        store = p.storage.store
        found = [
            (resource, item)
            for resource in SCHEME.resources
            if "create" in resource.verbs and resource.version != "v1beta1"
            for item in store.bucket(resource.prefix).items.values()
        ]
        assert len(found) >= 150
        for resource, item in found:
            assert validate_create(resource, item.obj) == [], item.key
            empty = resource.plural == "configmaps"  # without data it has no field to own
            assert bool(item.managed) is not empty, item.key


async def test_fields_of_a_role_belong_to_the_server() -> None:
    async with plane() as p:
        item = _item(p, "clusterroles", "cluster-admin")
        assert item is not None
        (entry,) = render(item.managed, item.obj)
        assert (entry["manager"], entry["operation"]) == ("orch-apiserver", "Update")
        assert entry["apiVersion"] == N.api_version("rbac", "v1")
        assert set(entry["fieldsV1"]) == {"f:metadata", "f:rules"}
        assert set(entry["fieldsV1"]["f:metadata"]) == {"f:labels", "f:annotations"}


async def test_allocated_address_of_the_own_service_has_no_owner() -> None:
    async with plane() as p:
        item = _item(p, "services", N.apiserver_service, "default")
        assert item is not None
        (entry,) = render(item.managed, item.obj)
        spec = entry["fieldsV1"]["f:spec"]
        assert "f:clusterIP" in spec
        assert "f:clusterIPs" not in spec
        assert "f:ipFamilies" not in spec


async def test_status_of_a_flow_schema_has_an_owner_of_its_own() -> None:
    async with plane() as p:
        item = _item(p, SCHEMAS, "exempt")
        assert item is not None
        entries = render(item.managed, item.obj)
        shown = [(entry["manager"], entry["operation"], entry.get("subresource", "")) for entry in entries]
        assert shown == [(flows.CONSUMER, "Update", "status"), (flows.PRODUCER, "Update", "")]
        assert entries[0]["fieldsV1"] == {
            "f:status": {
                "f:conditions": {
                    ".": {},
                    'k:{"type":"Dangling"}': {
                        ".": {},
                        "f:lastTransitionTime": {},
                        "f:message": {},
                        "f:reason": {},
                        "f:status": {},
                        "f:type": {},
                    },
                }
            }
        }


async def test_uids_of_roles_take_no_random_draw() -> None:
    uids = []
    for seed in (1, 2):
        async with plane(seed=seed) as p:
            uids.append(
                (
                    _obj(p, "clusterroles", "view")["metadata"]["uid"],
                    _obj(p, "namespaces", "default")["metadata"]["uid"],
                )
            )
    (role, namespace), (role_again, other_namespace) = uids
    assert role == role_again
    assert namespace != other_namespace


async def test_further_servers_write_no_role() -> None:
    async with plane(replicas=3) as p:
        for plural, expected in POLICY.objects():
            metadata = expected["metadata"]
            item = _item(p, plural, metadata["name"], metadata.get("namespace", ""))
            assert item is not None
            assert item.rev == item.created


# --- at the next start ----------------------------------------------------------------------------


async def test_missing_rule_is_added_at_the_next_start() -> None:
    async with plane() as p:
        await _patch(
            p, "clusterroles", VIEW, {"rules": [{"verbs": ["x"], "apiGroups": [""], "resources": ["y"]}]}
        )
        await _restart(p)
        rules = _obj(p, "clusterroles", VIEW)["rules"]
        assert rules[0]["verbs"] == ["x"]
        assert {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]} in rules


async def test_added_rules_belong_to_the_server() -> None:
    async with plane() as p:
        await _patch(p, "clusterroles", VIEW, {"rules": []})
        await _restart(p)
        item = _item(p, "clusterroles", VIEW)
        assert item is not None
        owners = [e["manager"] for e in render(item.managed, item.obj) if "f:rules" in e["fieldsV1"]]
        assert owners == ["orch-apiserver"]


async def test_deleted_binding_is_created_with_another_uid_at_the_next_start() -> None:
    async with plane() as p:
        before = _obj(p, "clusterrolebindings", "cluster-admin")["metadata"]["uid"]
        await _delete(p, "clusterrolebindings", "cluster-admin")
        await p.run(2 * MINUTE)
        assert _item(p, "clusterrolebindings", "cluster-admin") is None
        await _restart(p)
        assert _obj(p, "clusterrolebindings", "cluster-admin")["metadata"]["uid"] != before


async def test_role_that_opts_out_is_not_topped_up() -> None:
    async with plane() as p:
        annotations = {N.annotation_rbac_autoupdate: "false"}
        await _patch(p, "clusterroles", VIEW, {"metadata": {"annotations": annotations}, "rules": []})
        await _restart(p)
        assert not _obj(p, "clusterroles", VIEW)["rules"]


async def test_binding_to_another_role_is_replaced_at_the_next_start() -> None:
    async with plane() as p:
        (expected,) = [
            b for b in POLICY.cluster_role_bindings if b["metadata"]["name"] == "system:node-proxier"
        ]
        await _delete(p, "clusterrolebindings", "system:node-proxier")
        other = {**expected, "roleRef": {**expected["roleRef"], "name": "view"}}
        made = await p.ask("create", "clusterrolebindings", "", body=other)
        assert made.ok, made.message
        await _restart(p)
        stored = _obj(p, "clusterrolebindings", "system:node-proxier")
        assert stored["roleRef"] == expected["roleRef"]
        assert stored["metadata"]["uid"] != made.obj["metadata"]["uid"]


# --- while a server runs --------------------------------------------------------------------------


async def test_idle_server_writes_nothing() -> None:
    async with plane(replicas=2) as p:
        await p.run(SECOND)
        before = p.storage.store.revision
        await p.run(10 * MINUTE)
        assert p.storage.store.revision == before


async def test_deleted_namespace_is_back_at_the_next_minute() -> None:
    async with plane() as p:
        await p.run(10 * SECOND)
        reply = await p.ask(
            "update",
            "namespaces",
            "",
            N.lease_namespace,
            subresource="finalize",
            body={**_obj(p, "namespaces", N.lease_namespace), "spec": {}},
        )
        assert reply.ok, reply.message
        # The first DELETE only begins the end of a namespace, with finalizers or without.
        await _delete(p, "namespaces", N.lease_namespace)
        assert _obj(p, "namespaces", N.lease_namespace)["status"]["phase"] == "Terminating"
        await _delete(p, "namespaces", N.lease_namespace)
        assert _item(p, "namespaces", N.lease_namespace) is None
        await p.run(MINUTE - p.kernel.now_us - SECOND)
        assert _item(p, "namespaces", N.lease_namespace) is None
        await p.run(2 * SECOND)
        assert _obj(p, "namespaces", N.lease_namespace)["status"]["phase"] == "Active"


async def test_deleted_service_of_the_servers_is_back_within_ten_seconds() -> None:
    async with plane() as p:
        await p.run(SECOND)
        spec = _obj(p, "services", N.apiserver_service, "default")["spec"]
        await _delete(p, "services", N.apiserver_service, "default")
        await p.run(10 * SECOND)
        assert _obj(p, "services", N.apiserver_service, "default")["spec"] == spec


@pytest.mark.parametrize(
    ("plural", "name"), [(SCHEMAS, "probes"), (LEVELS, "workload-low"), (SCHEMAS, "exempt")]
)
async def test_deleted_flow_control_object_is_back_at_the_next_minute(plural: str, name: str) -> None:
    async with plane() as p:
        await p.run(10 * SECOND)
        spec = _obj(p, plural, name)["spec"]
        await _delete(p, plural, name)
        await p.run(40 * SECOND)
        assert _item(p, plural, name) is None
        await p.run(20 * SECOND)
        assert _obj(p, plural, name)["spec"] == spec


async def test_changed_flow_schema_is_corrected_unless_it_opts_out() -> None:
    async with plane() as p:
        await _patch(p, SCHEMAS, "probes", {"spec": {"matchingPrecedence": 77}})
        opts_out = {"metadata": {"annotations": {N.annotation_flow_autoupdate: "false"}}}
        await _patch(p, SCHEMAS, "system-nodes", {**opts_out, "spec": {"matchingPrecedence": 77}})
        await _patch(p, SCHEMAS, "catch-all", opts_out)
        await p.run(MINUTE)
        assert _obj(p, SCHEMAS, "probes")["spec"]["matchingPrecedence"] == 2
        assert _obj(p, SCHEMAS, "system-nodes")["spec"]["matchingPrecedence"] == 77
        annotations = _obj(p, SCHEMAS, "catch-all")["metadata"]["annotations"]
        assert annotations[N.annotation_flow_autoupdate] == "true"


async def test_flow_schema_of_another_version_is_deleted() -> None:
    async with plane() as p:
        (probes,) = [obj for obj in flows.schemas(N) if obj["metadata"]["name"] == "probes"]
        for name, value in (("old", "true"), ("mine", "false")):
            metadata = {"name": name, "annotations": {N.annotation_flow_autoupdate: value}}
            reply = await p.ask("create", SCHEMAS, "", body={**probes, "metadata": metadata})
            assert reply.ok, reply.message
        await p.run(MINUTE)
        assert _item(p, SCHEMAS, "old") is None
        assert _item(p, SCHEMAS, "mine") is not None


async def test_changed_flow_schema_is_corrected_at_the_start() -> None:
    async with plane() as p:
        await _patch(p, SCHEMAS, "probes", {"spec": {"matchingPrecedence": 77}})
        await _restart(p)
        assert _obj(p, SCHEMAS, "probes")["spec"]["matchingPrecedence"] == 2


async def test_check_waits_until_the_storage_has_a_leader() -> None:
    async with plane() as p:
        await p.run(10 * SECOND)
        await _delete(p, SCHEMAS, "probes")
        p.supervisor["storage"].crash()
        await p.run(MINUTE)
        assert _item(p, SCHEMAS, "probes") is None
        p.supervisor["storage"].start()
        await p.run(2 * MINUTE)
        assert _item(p, SCHEMAS, "probes") is not None


# --- authorities of clients -----------------------------------------------------------------------


def _authorities(p: Plane) -> dict[str, str]:
    data: dict[str, str] = (
        _obj(p, "configmaps", N.config_map_authentication, N.system_namespace).get("data") or {}
    )
    return data


async def test_authority_of_clients_is_published_and_restored() -> None:
    pem = Authority("a").pem.decode()
    async with plane() as p:
        place = "configmaps", N.config_map_authentication, N.system_namespace
        assert _item(p, *place) is None  # there is nothing to publish
        p.server.trust.data = {CLIENT_CA: pem}
        await p.run(SECOND)
        assert _authorities(p) == {CLIENT_CA: pem}
        made = _item(p, *place)
        assert made is not None
        assert [entry.manager for entry in made.managed] == [N.component("apiserver")]
        await _delete(p, "configmaps", N.config_map_authentication, N.system_namespace)
        await p.run(SECOND)
        assert _authorities(p) == {CLIENT_CA: pem}


async def test_authorities_of_two_servers_are_published_together() -> None:
    first, second = (Authority(name).pem.decode() for name in "ab")
    async with plane(replicas=2) as p:
        p.servers[0].trust.data = {CLIENT_CA: first}
        p.servers[1].trust.data = {CLIENT_CA: second}
        await p.run(SECOND)
        assert _authorities(p) == {CLIENT_CA: first + second}
        before = p.storage.store.revision
        await p.run(MINUTE)
        assert p.storage.store.revision == before
