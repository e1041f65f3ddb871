"""Custom resources on API servers: what each replica serves by what it has seen, and the life of
objects.
"""

from __future__ import annotations

from typing import Any

from sim.api.types import Obj, Reply, Request
from sim.units import MS, SECOND
from tests.actor.apiserver.cluster import ADMIN, Plane, Seen, plane
from tests.actor.apiserver.test_definitions import DEFINITIONS, GROUP, definition

S = SECOND
MERGE = "application/merge-patch+json"


def of(verb: str, name: str = "", body: Any = None, **more: Any) -> Request:
    return Request(
        verb=verb,
        resource=more.pop("resource", "widgets"),
        group=GROUP,
        version=more.pop("version", "v1"),
        namespace="default",
        name=name,
        body=body,
        user=ADMIN,
        manager="test",
        **more,
    )


def widget(name: str, **more: Any) -> Obj:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": name}, **more}


async def ask(p: Plane, asked: Request, at: int = 0) -> Reply:
    replies = p.send(asked, at)
    await p.run(20 * MS)
    (reply,) = replies
    return reply


async def defined(p: Plane, **schema: Any) -> None:
    made = definition()
    spec = {
        "type": "object",
        "properties": {"a": {"type": "string", "default": "d"}, "n": {"type": "integer"}},
    }
    whole = {"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}}
    made["spec"]["versions"][0] |= {
        "schema": {"openAPIV3Schema": whole},
        "subresources": {"status": {}},
        **schema,
    }
    assert (await p.ask("create", DEFINITIONS, body=made)).code == 201
    await p.run(S)


async def test_objects_are_pruned_defaulted_and_counted_through_their_life() -> None:
    async with plane() as p:
        await p.run(S)
        await defined(p)
        made = await ask(p, of("create", body=widget("a", spec={"n": 1, "z": 2}, status={"x": 1})))
        assert made.code == 201 and made.obj["spec"] == {"n": 1, "a": "d"} and "status" not in made.obj
        assert made.obj["metadata"]["generation"] == 1
        assert made.warnings == ('unknown field "spec.z"', 'unknown field "status.x"')
        changed = await ask(p, of("patch", "a", {"spec": {"n": 2}}, content_type=MERGE))
        assert changed.obj["metadata"]["generation"] == 2
        told = await ask(
            p, of("patch", "a", {"status": {}, "spec": {"n": 3}}, content_type=MERGE, subresource="status")
        )
        assert told.obj["status"] == {} and told.obj["spec"]["n"] == 2
        assert told.obj["metadata"]["generation"] == 2
        strategic = await ask(p, of("patch", "a", {}, content_type="application/strategic-merge-patch+json"))
        assert strategic.code == 415
        wrong = await ask(p, of("patch", "a", {"spec": {"n": "x"}}, content_type=MERGE))
        assert wrong.code == 422 and "must be of type integer" in wrong.message
        blind = await ask(p, of("update", "a", widget("a")))
        assert blind.code == 422 and "must be specified for an update" in blind.message
        assert (await ask(p, of("delete", "a"))).code == 200
        assert (await ask(p, of("get", "a"))).reason == "NotFound"


async def test_a_replica_serves_what_it_has_seen() -> None:
    async with plane(2) as p:
        await p.run(S)
        p.servers[1].trail.freeze(True)
        assert (await p.ask("create", DEFINITIONS, body=definition())).code == 201
        await p.run(20 * S)
        assert (await ask(p, of("list"), at=0)).code == 200
        assert (await ask(p, of("list"), at=1)).code == 404
        p.servers[1].trail.freeze(False)
        await p.run(S)
        assert (await ask(p, of("list"), at=1)).code == 200


async def test_restarted_server_serves_the_stored_custom_resources() -> None:
    async with plane() as p:
        await p.run(S)
        await defined(p)
        p.supervisor.actors["apiserver-0"].crash()
        p.supervisor.actors["apiserver-0"].start()
        await p.run(S)
        assert (await ask(p, of("create", body=widget("a")))).code == 201


async def test_watches_end_when_their_definition_changes_or_goes() -> None:
    async with plane() as p:
        await p.run(S)
        await defined(p)
        first = Seen(p.kernel, (await ask(p, of("watch"))).watch)
        await ask(p, of("create", body=widget("a")))
        await p.run(S)
        assert first.short == [("ADDED", "a")] and first.ended_us is None
        name = f"widgets.{GROUP}"
        again = {"metadata": {"labels": {"x": "y"}}}
        assert (await p.ask("patch", DEFINITIONS, name=name, body=again, content_type=MERGE)).code == 200
        await p.run(S)
        assert first.ended_us is None  # nothing that concerns its objects
        other = {"spec": {"names": {"categories": ["all"]}}}
        assert (await p.ask("patch", DEFINITIONS, name=name, body=other, content_type=MERGE)).code == 200
        changed_us = p.kernel.now_us
        await p.run(2 * S)
        assert first.ended_us is not None and S // 2 < first.ended_us - changed_us < 2 * S
        # A client of the old version lists again, and so sees all objects in the new one.
        known = {"resourceVersion": str(first.events[-1][1].revision)}
        late = Seen(p.kernel, (await ask(p, of("watch", options=known))).watch)
        await p.run(S)
        ((_, error),) = late.events
        assert error.status is not None and error.status["reason"] == "Expired"
        second = Seen(p.kernel, (await ask(p, of("watch"))).watch)
        assert (await p.ask("delete", DEFINITIONS, name=name)).code == 200
        await p.run(30 * S)
        assert second.short == [("ADDED", "a"), ("DELETED", "a")] and second.ended_us is not None
        assert (await ask(p, of("list"))).code == 404


async def test_while_its_definition_goes_nothing_new_is_made() -> None:
    async with plane() as p:
        await p.run(S)
        await defined(p)
        kept = widget("a")
        kept["metadata"]["finalizers"] = ["x.example.com/f"]
        await ask(p, of("create", body=kept))
        await p.ask("delete", DEFINITIONS, name=f"widgets.{GROUP}")
        await p.run(S)
        refused = await ask(p, of("create", body=widget("b")))
        assert refused.code == 405 and "is terminating" in refused.message
        assert (await ask(p, of("get", "a"))).ok


async def test_spec_finalizers_of_a_custom_resource_leave_its_grace_period_zero() -> None:
    """`spec.finalizers` keep a namespace, and are data of the author in any other kind."""
    async with plane() as p:
        await p.run(S)
        own = {"type": "array", "items": {"type": "string"}}
        spec = {"type": "object", "properties": {"finalizers": own}}
        await defined(p, schema={"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}})
        made = widget("a", spec={"finalizers": ["x"]})
        made["metadata"]["finalizers"] = ["x.example.com/f"]
        assert (await ask(p, of("create", body=made))).obj["spec"] == {"finalizers": ["x"]}
        assert (await ask(p, of("delete", "a"))).ok
        left = (await ask(p, of("get", "a"))).obj
        assert left["metadata"]["deletionGracePeriodSeconds"] == 0
        freed = await ask(p, of("patch", "a", {"metadata": {"finalizers": None}}, content_type=MERGE))
        assert freed.ok and (await ask(p, of("get", "a"))).reason == "NotFound"


async def test_a_list_from_the_cache_shows_todays_defaults() -> None:
    async with plane() as p:
        await p.run(S)
        await defined(p)
        await ask(p, of("create", body=widget("a", spec={})))
        path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/new"
        new = [{"op": "add", "path": path, "value": {"type": "string", "default": "later"}}]
        reply = await p.ask(
            "patch",
            DEFINITIONS,
            name=f"widgets.{GROUP}",
            body=new,
            content_type="application/json-patch+json",
        )
        assert reply.code == 200, reply.body
        await p.run(S)
        for options in ({}, {"resourceVersion": "0"}):
            (item,) = (await ask(p, of("list", options=options))).items or ()
            assert item.obj["spec"] == {"a": "d", "new": "later"}


async def test_a_custom_kind_may_be_called_like_one_of_the_servers_own() -> None:
    async with plane() as p:
        await p.run(S)
        assert (await p.ask("create", DEFINITIONS, body=definition("bindings", "Binding"))).code == 201
        assert (await p.ask("create", DEFINITIONS, body=definition("namespaces", "Namespace"))).code == 201
        await p.run(S)
        for plural, kind in (("bindings", "Binding"), ("namespaces", "Namespace")):
            body = {**widget("x"), "kind": kind}
            made = await ask(p, of("create", body=body, resource=plural))
            assert made.code == 201 and "spec" not in made.obj, made.body
            assert (await ask(p, of("delete", "x", resource=plural))).code == 200
        assert (await p.ask("get", "namespaces", name="default")).obj["status"]["phase"] == "Active"


async def test_replicas_of_a_scale_are_those_of_the_object_and_nobodys() -> None:
    paths = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}
    async with plane() as p:
        await p.run(S)
        await defined(p, subresources={"scale": paths})
        await ask(p, of("create", body=widget("a", spec={"n": 1})))
        scale = {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {"name": "a"},
            "spec": {"replicas": 5},
        }
        written = await ask(p, of("update", "a", scale, subresource="scale"))
        assert written.code == 200 and written.obj["spec"] == {"replicas": 5}
        item = (await ask(p, of("get", "a"))).item
        assert item is not None and item.obj["spec"]["n"] == 5 and item.obj["metadata"]["generation"] == 2
        assert all("f:n" not in entry.fields["f:spec"] for entry in item.managed)
        # It has no owner either if the number did not change.
        await ask(p, of("patch", "a", {"spec": {"n": 6}}, content_type=MERGE))
        scale["spec"] = {"replicas": 6}
        assert (await ask(p, of("update", "a", scale, subresource="scale"))).code == 200
        item = (await ask(p, of("get", "a"))).item
        assert item is not None and all("f:n" not in entry.fields["f:spec"] for entry in item.managed)
        below = {**scale, "spec": {"replicas": -1}}
        refused = await ask(p, of("update", "a", below, subresource="scale"))
        assert (
            refused.code == 422 and ".spec.n: Invalid value: -1: should be a non-negative" in refused.message
        )
        other = {**scale, "metadata": {"name": "a", "uid": "x"}}
        refused = await ask(p, of("update", "a", other, subresource="scale"))
        assert refused.code == 409 and "Precondition failed: UID in precondition: x" in refused.message


async def test_a_status_may_hold_one_name_twice_and_is_nobodys_then() -> None:
    named = {
        "type": "array",
        "items": {"type": "object", "required": ["type"], "properties": {"type": {"type": "string"}}},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    }
    status = {"type": "object", "properties": {"conditions": named}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"status": status, "conditions": named}}}
    twice = [{"type": "A"}, {"type": "A"}]
    async with plane() as p:
        await p.run(S)
        await defined(p, schema=schema)
        await ask(p, of("create", body=widget("a", conditions=twice[:1])))
        refused = await ask(p, of("patch", "a", {"conditions": twice}, content_type=MERGE))
        assert refused.code == 422 and "Duplicate value" in refused.message
        told = {"status": {"conditions": twice}}
        done = await ask(p, of("patch", "a", told, content_type=MERGE, subresource="status"))
        assert done.code == 200 and done.item is not None
        assert done.item.obj["status"] == told["status"] and done.item.managed == ()


async def test_write_to_a_status_of_what_it_may_not_change_renews_a_time() -> None:
    async with plane() as p:
        await p.run(S)
        await defined(p)
        await ask(p, of("create", body=widget("a", spec={"n": 1})))
        labels = {"metadata": {"labels": {"k": "v"}}}
        told = []
        for _ in range(3):
            await p.run(S)
            reply = await ask(p, of("patch", "a", labels, content_type=MERGE, subresource="status"))
            assert reply.item is not None and "labels" not in reply.obj["metadata"]
            told.append(reply.item.rev)
        assert told[0] < told[1] < told[2]


async def test_manager_of_a_removed_version_loses_its_entries() -> None:
    async with plane() as p:
        await p.run(S)
        made = definition()
        (first,) = made["spec"]["versions"]
        first["schema"]["openAPIV3Schema"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        made["spec"]["versions"].append({**first, "name": "v1alpha1", "storage": False})
        assert (await p.ask("create", DEFINITIONS, body=made)).code == 201
        await p.run(S)
        for name in ("a", "b"):
            old = {**widget(name, spec={"n": 1}), "apiVersion": f"{GROUP}/v1alpha1"}
            assert (await ask(p, of("create", body=old, version="v1alpha1"))).code == 201
        drop = {"spec": {"versions": [first]}}
        name = made["metadata"]["name"]
        assert (await p.ask("patch", DEFINITIONS, name=name, body=drop, content_type=MERGE)).code == 200
        await p.run(S)
        config = widget("a", spec={"n": 1})
        applied = of("patch", "a", config, content_type="application/apply-patch+yaml")
        applied.options = {"fieldManager": "m"}
        refused = await ask(p, applied)
        assert (refused.code, refused.message) == (
            500,
            f"request to convert CR to an invalid group/version: {GROUP}/v1alpha1",
        )
        changed = await ask(p, of("patch", "b", {"spec": {"n": 2}}, content_type=MERGE))
        assert changed.code == 200 and changed.item is not None and changed.item.managed == ()
