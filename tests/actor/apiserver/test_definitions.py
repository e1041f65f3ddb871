"""What a replica does for definitions: they are established, share out names, and go with their
objects.
"""

from __future__ import annotations

from typing import Any

import pytest

from actors.apiserver.options import ApiServerOptions
from sim.api.store import Range
from sim.api.types import Obj, Reply, Request
from sim.units import MS, SECOND
from tests.actor.apiserver.cluster import ADMIN, NAMES_ORCH, SCHEME, Plane, plane, request

S = SECOND
DEFINITIONS = "customresourcedefinitions"
GROUP = "example.com"
PREFIX = f"/{GROUP}/widgets/"
FINALIZER = NAMES_ORCH.finalizer_crd_cleanup
TWO = ApiServerOptions(replicas=2)


def definition(plural: str = "widgets", kind: str = "Widget", **names: Any) -> Obj:
    return {
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, **names},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }


async def create(p: Plane, *definitions: Obj, at: int = 0) -> None:
    for one in definitions:
        reply = await p.ask("create", DEFINITIONS, body=one, at=at)
        assert reply.code == 201, reply.body


async def get(p: Plane, plural: str = "widgets") -> Reply:
    return await p.ask("get", DEFINITIONS, name=f"{plural}.{GROUP}")


async def said(p: Plane, plural: str = "widgets") -> dict[str, str]:
    """The reason of each condition."""
    found = (await get(p, plural)).obj["status"]["conditions"] or []
    return {one["type"]: one["reason"] for one in found}


def writes(p: Plane) -> int:
    """Commits to definitions so far."""
    changes = p.storage.store.events(0, SCHEME.prefix(DEFINITIONS))
    assert isinstance(changes, list | tuple), changes
    return len(changes)


async def widget(p: Plane, name: str, *finalizers: str, verb: str = "create") -> Reply:
    body = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Widget",
        "metadata": {"name": name, "finalizers": list(finalizers)},
    }
    if verb == "update":
        item = p.storage.store.get(f"{PREFIX}default/{name}")
        assert item is not None
        body = {**item.obj, "metadata": {**item.obj["metadata"], "finalizers": list(finalizers)}}
    asked = Request(
        verb=verb,
        resource="widgets",
        group=GROUP,
        namespace="default",
        name=name if verb != "create" else "",
        body=body,
        user=ADMIN,
    )
    replies = p.send(asked)
    while not replies:
        await p.run(10 * MS)
    assert replies[0].ok, replies[0].body
    return replies[0]


def widgets(p: Plane) -> list[str]:
    page = p.storage.store.range(Range(PREFIX))
    return [item.obj["metadata"]["name"] for item in page.items]


# --- established ----------------------------------------------------------------------------------


async def test_a_definition_is_established_at_once_in_two_writes() -> None:
    async with plane() as p:
        await create(p, definition())
        await p.run(10 * MS)
        status = (await get(p)).obj["status"]
        assert await said(p) == {"NamesAccepted": "NoConflicts", "Established": "InitialNamesAccepted"}
        assert status["acceptedNames"]["listKind"] == "WidgetList"
        assert writes(p) == 3
        await p.run(60 * S)
        assert writes(p) == 3


async def test_with_two_servers_it_is_established_five_seconds_later_and_once() -> None:
    async with plane(2, TWO) as p:
        await create(p, definition())
        await p.run(4 * S)
        assert await said(p) == {"NamesAccepted": "NoConflicts", "Established": "Installing"}
        await p.run(2 * S)
        assert (await said(p))["Established"] == "InitialNamesAccepted"
        assert writes(p) == 3


async def test_changed_names_are_accepted_again() -> None:
    async with plane() as p:
        await create(p, definition())
        await p.run(10 * MS)
        body = (await get(p)).obj
        spec = {**body["spec"], "names": {**body["spec"]["names"], "shortNames": ["wd"]}}
        assert (await p.ask("update", DEFINITIONS, name=f"widgets.{GROUP}", body={**body, "spec": spec})).ok
        await p.run(10 * MS)
        assert (await get(p)).obj["status"]["acceptedNames"]["shortNames"] == ["wd"]


async def test_a_group_of_the_community_shows_its_approval() -> None:
    async with plane() as p:
        body = definition()
        group = f"x.{NAMES_ORCH.group_domain}"
        metadata = {
            "name": f"widgets.{group}",
            "annotations": {NAMES_ORCH.annotation_api_approved: "unapproved"},
        }
        await create(p, {"metadata": metadata, "spec": {**body["spec"], "group": group}})
        await p.run(10 * MS)
        found = (await p.ask("get", DEFINITIONS, name=f"widgets.{group}")).obj["status"]["conditions"]
        assert [(one["type"], one["status"]) for one in found] == [
            ("NamesAccepted", "True"),
            ("Established", "True"),
            ("KubernetesAPIApprovalPolicyConformant", "False"),
        ]


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("replicas", [1, 2])
async def test_a_name_is_somebodys_until_its_definition_goes(replicas: int) -> None:
    async with plane(replicas, ApiServerOptions(replicas=replicas)) as p:
        await create(p, definition(), definition("kinds", "Widget", singular="one", listKind="Ones"))
        await p.run(6 * S)
        assert await said(p, "kinds") == {"NamesAccepted": "KindConflict", "Established": "NotAccepted"}
        accepted = (await get(p, "kinds")).obj["status"]["acceptedNames"]
        assert accepted == {"plural": "kinds", "singular": "one", "kind": "", "listKind": "Ones"}
        assert (await p.ask("delete", DEFINITIONS, name=f"widgets.{GROUP}")).ok
        await p.run(6 * S)
        assert (await get(p)).code == 404
        assert await said(p, "kinds") == {
            "NamesAccepted": "NoConflicts",
            "Established": "InitialNamesAccepted",
        }


async def test_definitions_of_other_groups_do_not_compete() -> None:
    async with plane() as p:
        other = definition()
        other = {
            "metadata": {"name": "widgets.example.org"},
            "spec": {**other["spec"], "group": "example.org"},
        }
        await create(p, definition(), other)
        await p.run(10 * MS)
        found = (await p.ask("get", DEFINITIONS, name="widgets.example.org")).obj
        assert found["status"]["conditions"][0]["reason"] == "NoConflicts"


async def test_of_two_that_come_together_the_first_gets_the_name() -> None:
    async with plane() as p:
        both = [
            p.send(request("create", DEFINITIONS, body=definition(plural, "Same", singular=plural[0])))
            for plural in ("bs", "as")
        ]
        await p.run(1 * S)
        assert [replies[0].code for replies in both] == [201, 201]
        assert (await said(p, "bs"))["NamesAccepted"] == "NoConflicts"
        assert (await said(p, "as"))["NamesAccepted"] == "ListKindConflict"


# --- the end --------------------------------------------------------------------------------------


async def test_a_definition_goes_when_its_objects_have() -> None:
    async with plane() as p:
        await create(p, definition())
        await p.run(10 * MS)
        await widget(p, "free")
        await widget(p, "held", "example.com/f")
        reply = await p.ask("delete", DEFINITIONS, name=f"widgets.{GROUP}")
        assert reply.obj["metadata"]["finalizers"] == [FINALIZER]
        assert reply.obj["status"]["conditions"][-1]["reason"] == "InstanceDeletionPending"
        await p.run(6 * S)
        assert (await said(p))["Terminating"] == "InstanceDeletionInProgress"
        assert widgets(p) == ["held"]
        await widget(p, "held", verb="update")
        assert widgets(p) == []
        await p.run(5 * S)
        assert (await get(p)).code == 404


async def test_objects_that_stay_are_asked_again_each_minute() -> None:
    async with plane() as p:
        await create(p, definition())
        await p.run(10 * MS)
        await widget(p, "held", "example.com/f")
        before = writes(p)
        await p.ask("delete", DEFINITIONS, name=f"widgets.{GROUP}")
        await p.run(130 * S)
        reasons = []
        for change in p.storage.store.events(0, SCHEME.prefix(DEFINITIONS))[before:]:
            reasons.append(change.item.obj["status"]["conditions"][-1]["reason"])
        again = ["InstanceDeletionInProgress", "InstanceDeletionCheck"]
        assert reasons == ["InstanceDeletionPending", *again, *again, again[0]]
        await widget(p, "held", verb="update")
        await p.run(5 * S)
        assert (await get(p)).code == 404


async def test_recreated_definition_released_by_another_writer_is_left_alone() -> None:
    async with plane() as p:
        await create(p, definition())
        await p.run(10 * MS)
        await widget(p, "held", "example.com/f")
        await p.ask("delete", DEFINITIONS, name=f"widgets.{GROUP}")
        going = (await get(p)).obj
        body = {**going, "metadata": {**going["metadata"], "finalizers": []}}
        assert (await p.ask("update", DEFINITIONS, name=f"widgets.{GROUP}", body=body)).ok
        await create(p, definition())
        await widget(p, "held", verb="update")
        await p.run(120 * S)
        assert sorted(await said(p)) == ["Established", "NamesAccepted"]


async def test_one_that_was_never_established_goes_at_once() -> None:
    async with plane() as p:
        await create(p, definition(), definition("kinds", "Widget", singular="one"))
        await p.run(10 * MS)
        await p.ask("delete", DEFINITIONS, name=f"kinds.{GROUP}")
        await p.run(10 * MS)
        assert (await get(p, "kinds")).code == 404
        changes = p.storage.store.events(0, SCHEME.prefix(DEFINITIONS))
        assert changes[-1].deleted


async def test_two_servers_delete_the_objects_of_a_definition_once() -> None:
    async with plane(2, TWO) as p:
        await create(p, definition())
        await p.run(6 * S)
        for n in range(3):
            await widget(p, f"w{n}")
        before = writes(p)
        await p.ask("delete", DEFINITIONS, name=f"widgets.{GROUP}", at=1)
        await p.run(1 * S)
        assert (await get(p)).code == 404
        assert writes(p) - before == 3  # marked, in progress, gone
        changes = p.storage.store.events(0, PREFIX)
        assert len([change for change in changes if change.deleted]) == 3


async def test_what_a_crash_interrupts_is_taken_up_again() -> None:
    async with plane() as p:
        await create(p, definition())
        await p.run(10 * MS)
        await widget(p, "held", "example.com/f")
        await p.ask("delete", DEFINITIONS, name=f"widgets.{GROUP}")
        await p.run(2 * S)
        p.supervisor["apiserver-0"].crash()
        await p.run(2 * S)
        p.supervisor["apiserver-0"].start()
        await p.run(1 * S)
        await widget(p, "held", verb="update")
        await p.run(6 * S)
        assert (await get(p)).code == 404


async def test_a_definition_made_before_a_crash_is_established_after_it() -> None:
    async with plane(2, TWO) as p:
        await create(p, definition())
        await p.run(1 * S)
        for name in ("apiserver-0", "apiserver-1"):
            p.supervisor[name].crash()
        await p.run(30 * S)
        p.supervisor["apiserver-0"].start()
        await p.run(6 * S)
        assert (await said(p))["Established"] == "InitialNamesAccepted"


async def test_on_a_slow_storage_all_of_it_takes_longer_and_comes_to_the_same() -> None:
    async with plane() as p:
        p.storage.extra_us = 200 * MS
        await create(p, definition())
        await p.run(3 * S)
        assert (await said(p))["Established"] == "InitialNamesAccepted"
        await widget(p, "free")
        await p.ask("delete", DEFINITIONS, name=f"widgets.{GROUP}")
        await p.run(10 * S)
        assert (await get(p)).code == 404
        assert widgets(p) == []


async def test_what_the_storage_would_not_take_is_written_later() -> None:
    async with plane() as p:
        await p.run(1 * S)
        replies = p.send(request("create", DEFINITIONS, body=definition()))
        p.storage.set_quorum(False)
        await p.run(30 * S)
        assert replies[0].ok
        assert writes(p) == 1
        p.storage.set_quorum(True)
        await p.run(60 * S)
        assert (await said(p))["Established"] == "InitialNamesAccepted"


@pytest.mark.parametrize("going", [False, True])
async def test_a_server_that_refuses_itself_tries_ever_later(going: bool) -> None:
    async with plane() as p:
        replies = p.send(request("create", DEFINITIONS, body=definition()))
        if going:
            await p.run(10 * MS)
            replies = p.send(request("delete", DEFINITIONS, name=f"widgets.{GROUP}"))
        p.server.overload(0, 0)
        before = p.server.flown
        await p.run(60 * S)
        assert replies[0].ok
        assert 10 < p.server.flown - before < 30
        p.server.overload(0, None)
        await p.run(60 * S)
        assert (await get(p)).code == 404 if going else (await said(p))["Established"]
