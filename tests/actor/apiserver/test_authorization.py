"""Authorization inside the server: each entry, watches, fast paths, and what changes a right."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from actors.apiserver.authorization import make_authorization
from actors.apiserver.options import ApiServerOptions
from sim.api.auth.abac import Policy
from sim.api.auth.attributes import AccessAttributes, Decision
from sim.api.types import Obj, Reply, Request, UserInfo
from tests.actor.apiserver.cluster import ADMIN, NAMES_ORCH, SCHEME, Plane, plane, request

N = NAMES_ORCH
RBAC = N.group("rbac")
OPTIONS = ApiServerOptions(disabled_admission=("ServiceAccount",))
ALICE = UserInfo("alice", ("dev", N.group_authenticated))
NODE = UserInfo("system:node:n1", (N.group_nodes, N.group_authenticated))


@asynccontextmanager
async def authorized(*modes: str, policies: tuple[Policy, ...] = ()) -> AsyncIterator[Plane]:
    """A control plane with a server that authorizes requests."""
    async with plane(options=OPTIONS) as made:
        made.server.authorizer = make_authorization(
            SCHEME, made.storage.store, modes, policies, made.kernel.standing.moved
        )
        actor = made.supervisor[made.server.name]
        actor.crash()
        actor.start()
        ask(made, "create", "namespaces", user=ADMIN, body=named("Namespace", "ns"))
        yield made


def named(kind: str, name: str, version: str = "v1", **more: Any) -> Obj:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **more}


def ask(made: Plane, verb: str, resource: str, namespace: str = "", name: str = "", **more: Any) -> Reply:
    group = more.pop("group", "")
    sent = Request(verb=verb, resource=resource, group=group, namespace=namespace, name=name, **more)
    served = made.server.serve(sent)
    assert served is not None
    return served[0]


def grant(made: Plane, verbs: list[str], resources: list[str], **rule: Any) -> None:
    """Give the group dev a role in the namespace ns."""
    rules = [{"verbs": verbs, "apiGroups": [""], "resources": resources, **rule}]
    reference = {"apiGroup": RBAC, "kind": "Role", "name": "r"}
    subject = {"apiGroup": RBAC, "kind": "Group", "name": "dev"}
    version = f"{RBAC}/v1"
    for plural, obj in (
        ("roles", named("Role", "r", version, rules=rules)),
        ("rolebindings", named("RoleBinding", "b", version, roleRef=reference, subjects=[subject])),
    ):
        assert ask(made, "create", plural, "ns", group=RBAC, user=ADMIN, body=obj).ok


def test_role_gives_a_right_and_its_end_takes_it_away() -> None:
    async def main() -> None:
        async with authorized("RBAC") as made:
            refused = ask(made, "list", "configmaps", "ns", user=ALICE)
            assert (refused.code, refused.message) == (
                403,
                'configmaps is forbidden: User "alice" cannot list resource "configmaps" in API group "" '
                'in the namespace "ns"',
            )
            grant(made, ["list"], ["configmaps"])
            assert ask(made, "list", "configmaps", "ns", user=ALICE).ok
            assert ask(made, "list", "configmaps", "other", user=ALICE).code == 403
            assert ask(made, "list", "configmaps", user=ALICE).code == 403
            assert ask(made, "delete", "roles", "ns", "r", group=RBAC, user=ADMIN).ok
            refused = ask(made, "list", "configmaps", "ns", user=ALICE)
            assert refused.message.endswith(f'"ns": RBAC: role.{RBAC} "r" not found')

    trio.run(main)


def test_refused_watch_is_answered_at_once_and_an_open_one_continues() -> None:
    async def main() -> None:
        async with authorized("RBAC") as made:
            watch = request("watch", "configmaps", "ns", user=ALICE)
            assert [reply.code for reply in made.send(watch)] == [403]
            grant(made, ["watch"], ["configmaps"])
            opened = made.send(request("watch", "configmaps", "ns", user=ALICE))
            await made.run(100_000)
            assert opened[0].watch is not None
            opened[0].watch.attach(lambda: None)
            ask(made, "delete", "rolebindings", "ns", "b", group=RBAC, user=ADMIN)
            again = made.send(request("watch", "configmaps", "ns", user=ALICE))
            assert [reply.code for reply in again] == [403]
            assert ask(made, "create", "configmaps", "ns", user=ADMIN, body=named("ConfigMap", "c")).ok
            await made.run(100_000)
            assert [event.type for event in opened[0].watch.take()] == ["ADDED"]

    trio.run(main)


def test_selector_for_one_name_counts_as_that_name() -> None:
    async def main() -> None:
        async with authorized("RBAC") as made:
            grant(made, ["list", "deletecollection"], ["configmaps"], resourceNames=["a"])
            for selector, code in (
                ("metadata.name=a", 200),
                ("metadata.namespace=ns,metadata.name==a", 200),
                ("metadata.name=b", 403),
                ("metadata.name!=a", 403),
                ("", 403),
            ):
                options = {"fieldSelector": selector}
                assert ask(made, "list", "configmaps", "ns", user=ALICE, options=options).code == code
            options = {"fieldSelector": "metadata.name=a"}
            assert ask(made, "deletecollection", "configmaps", "ns", user=ALICE, options=options).code == 403

    trio.run(main)


def test_namespace_is_within_itself() -> None:
    async def main() -> None:
        async with authorized("RBAC") as made:
            grant(made, ["get"], ["namespaces"])
            assert ask(made, "get", "namespaces", name="ns", user=ALICE).ok
            assert ask(made, "get", "namespaces", name="default", user=ALICE).code == 403
            assert ask(made, "list", "namespaces", user=ALICE).code == 403

    trio.run(main)


@pytest.mark.parametrize("verb", ["update", "patch"])
def test_update_of_an_absent_object_needs_the_right_to_create_it(verb: str) -> None:
    async def main() -> None:
        async with authorized("RBAC") as made:
            group = N.group("coordination")
            lease = named("Lease", "l", f"{group}/v1", spec={"holderIdentity": "a"})
            more: Obj = {"group": group, "user": ALICE, "body": lease}
            if verb == "patch":
                more |= {"content_type": N.media_apply_patch, "options": {"fieldManager": "m"}}
            grant(made, [verb], ["leases"], apiGroups=[group])
            refused = ask(made, verb, "leases", "ns", "l", **more)
            assert (refused.code, refused.message) == (403, f'leases.{group} "l" is forbidden: ')
            right = {"verbs": [verb, "create"], "apiGroups": [group], "resources": ["leases"]}
            role = named("Role", "r", f"{RBAC}/v1", rules=[right])
            assert ask(made, "update", "roles", "ns", "r", group=RBAC, user=ADMIN, body=role).ok
            assert ask(made, verb, "leases", "ns", "l", **more).code == 201

    trio.run(main)


def test_unknown_resource_is_forbidden_before_it_is_not_found() -> None:
    async def main() -> None:
        async with authorized("RBAC") as made:
            assert ask(made, "get", "nopes", "ns", "n", user=ALICE).code == 403
            assert ask(made, "get", "nopes", "ns", "n", user=ADMIN).code == 404

    trio.run(main)


@pytest.mark.parametrize(
    ("modes", "code"),
    [
        (("AlwaysAllow",), 200),
        (("AlwaysDeny",), 403),
        (("AlwaysDeny", "AlwaysAllow"), 200),
        (("RBAC", "ABAC"), 200),
        (("Node",), 403),
    ],
)
def test_modes_decide_in_order(modes: tuple[str, ...], code: int) -> None:
    async def main() -> None:
        policy = Policy(user="alice", namespace="ns", resource="configmaps")
        async with authorized(*modes, policies=(policy,)) as made:
            assert ask(made, "list", "configmaps", "ns", user=ALICE).code == code

    trio.run(main)


def test_policy_for_the_cluster_covers_no_namespace() -> None:
    async def main() -> None:
        async with authorized("ABAC", policies=(Policy(user="alice", resource="configmaps"),)) as made:
            assert ask(made, "list", "configmaps", user=ALICE).ok
            assert ask(made, "list", "configmaps", "ns", user=ALICE).code == 403

    trio.run(main)


def spec_with(source: Obj) -> Obj:
    """The spec of a pod that takes its environment from an object."""
    return {"containers": [{"name": "c", "image": "i", "envFrom": [source]}]}


def test_node_reads_a_secret_while_a_pod_of_it_refers_to_it() -> None:
    async def main() -> None:
        async with authorized("Node") as made:
            assert ask(made, "create", "secrets", "ns", user=ADMIN, body=named("Secret", "s")).ok
            spec = {"nodeName": "n1", **spec_with({"secretRef": {"name": "s"}})}

            def read() -> int:
                return ask(made, "get", "secrets", "ns", "s", user=NODE).code

            assert ask(made, "create", "pods", "ns", user=ADMIN, body=named("Pod", "before", spec=spec)).ok
            assert read() == 200
            for name in ("before", "after"):
                options = {"gracePeriodSeconds": 0}
                ask(made, "delete", "pods", "ns", "before", user=ADMIN, body=options)
                assert read() == 403
                assert ask(made, "create", "pods", "ns", user=ADMIN, body=named("Pod", name, spec=spec)).ok
                assert read() == 200
                ask(made, "delete", "pods", "ns", name, user=ADMIN, body=options)

    trio.run(main)


def test_binding_a_pod_lets_its_node_read_what_it_refers_to() -> None:
    async def main() -> None:
        async with authorized("Node") as made:
            authorizer = made.server.authorizer
            asked = AccessAttributes("get", resource="configmaps", namespace="ns", name="m")
            spec = spec_with({"configMapRef": {"name": "m"}})
            assert authorizer.authorize(NODE, asked).decision is Decision.NO_OPINION
            assert ask(made, "create", "pods", "ns", user=ADMIN, body=named("Pod", "p", spec=spec)).ok
            assert authorizer.authorize(NODE, asked).decision is Decision.NO_OPINION
            binding = named("Binding", "p", target={"kind": "Node", "name": "n1"})
            where = ("create", "pods", "ns", "p")
            assert ask(made, *where, subresource="binding", user=ADMIN, body=binding).ok
            assert authorizer.authorize(NODE, asked).decision is Decision.ALLOW

    trio.run(main)


def test_node_reads_the_volumes_and_attachments_of_its_pods() -> None:
    async def main() -> None:
        async with authorized("Node") as made:
            authorizer, storage = made.server.authorizer, N.group("storage")
            volume = AccessAttributes("get", resource="persistentvolumes", name="v")
            attachment = AccessAttributes("get", group=storage, resource="volumeattachments", name="a")
            claim = {"claimRef": {"namespace": "ns", "name": "c"}}
            spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, **claim}
            spec["hostPath"] = {"path": "/x"}
            mounts = [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]
            containers = [{"name": "c", "image": "i"}]
            pod = {"nodeName": "n1", "containers": containers, "volumes": mounts}
            source = {"attacher": "d", "nodeName": "n1", "source": {"persistentVolumeName": "v"}}
            attached = named("VolumeAttachment", "a", f"{storage}/v1", spec=source)
            for asked in (volume, attachment):
                assert authorizer.authorize(NODE, asked).decision is Decision.NO_OPINION
            assert ask(made, "create", "pods", "ns", user=ADMIN, body=named("Pod", "p", spec=pod)).ok
            body = named("PersistentVolume", "v", spec=spec)
            assert ask(made, "create", "persistentvolumes", user=ADMIN, body=body).ok
            where = {"group": storage, "version": "v1", "user": ADMIN}
            assert ask(made, "create", "volumeattachments", body=attached, **where).ok
            for asked in (volume, attachment):
                assert authorizer.authorize(NODE, asked).decision is Decision.ALLOW
            assert ask(made, "delete", "volumeattachments", name="a", **where).ok
            assert authorizer.authorize(NODE, attachment).decision is Decision.NO_OPINION

    trio.run(main)


def test_change_of_a_role_ends_what_fast_paths_rely_on() -> None:
    async def main() -> None:
        async with authorized("RBAC") as made:
            before = made.kernel.standing.epoch
            grant(made, ["get"], ["pods"])
            assert made.kernel.standing.epoch == before + 2

    trio.run(main)


@pytest.mark.parametrize(
    ("resource", "name", "rights"),
    [
        ("pods", "", [("get", "pods"), ("patch", "pods/status")]),
        ("nodes", "n1", [("get", "nodes"), ("patch", "nodes/status")]),
        ("events", "", [("create", "events")]),
    ],
)
def test_fast_path_needs_the_rights_of_all_requests_that_it_replaces(
    resource: str, name: str, rights: list[tuple[str, str]]
) -> None:
    async def main() -> None:
        for missing in (None, *rights):
            async with authorized("RBAC") as made:
                given = [
                    {"verbs": [verb], "apiGroups": [""], "resources": [plural]}
                    for verb, plural in rights
                    if (verb, plural) != missing
                ]
                version = f"{RBAC}/v1"
                role = named("ClusterRole", "r", version, rules=given)
                reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "r"}
                subject = {"apiGroup": RBAC, "kind": "Group", "name": "dev"}
                binding = named("ClusterRoleBinding", "b", version, roleRef=reference, subjects=[subject])
                ask(made, "create", "clusterroles", group=RBAC, user=ADMIN, body=role)
                ask(made, "create", "clusterrolebindings", group=RBAC, user=ADMIN, body=binding)
                way = made.server.coalesced_path(request("get", resource, name=name, user=ALICE))
                assert (way is None) is (missing is not None)

    trio.run(main)


def review(made: Plane, plural: str, spec: Obj, user: UserInfo = ADMIN, namespace: str = "") -> Obj:
    kind = {
        "subjectaccessreviews": "SubjectAccessReview",
        "selfsubjectaccessreviews": "SelfSubjectAccessReview",
        "localsubjectaccessreviews": "LocalSubjectAccessReview",
        "selfsubjectrulesreviews": "SelfSubjectRulesReview",
    }[plural]
    group = N.group("authorization")
    body = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {}, "spec": spec}
    reply = ask(made, "create", plural, namespace, group=group, user=user, body=body)
    assert reply.code == 201, reply.message
    return reply.obj


PODS = {"verb": "get", "resource": "pods", "namespace": "ns"}
BY_ROLE = 'RBAC: allowed by RoleBinding "b/ns" of Role "r" to Group "dev"'


def test_reviews_answer_with_the_opinion_of_the_server() -> None:
    async def main() -> None:
        async with authorized("Node", "RBAC") as made:
            grant(made, ["get"], ["pods"])
            of = "subjectaccessreviews"
            allowed = {"allowed": True, "reason": BY_ROLE}
            spec: Obj = {"user": "x", "groups": ["dev"], "resourceAttributes": PODS}
            assert review(made, of, spec)["status"] == allowed
            assert review(made, "localsubjectaccessreviews", spec, namespace="ns")["status"] == allowed
            assert review(made, of, {**spec, "groups": []})["status"] == {"allowed": False}
            masters = {"groups": [N.group_masters], "nonResourceAttributes": {"path": "/x", "verb": "get"}}
            assert review(made, of, masters)["status"] == {"allowed": True}
            node = {"user": NODE.name, "groups": [N.group_nodes]}
            secrets = {**PODS, "resource": "secrets", "name": "s"}
            refused = review(made, of, {**node, "resourceAttributes": secrets})["status"]
            assert refused == {
                "allowed": False,
                "reason": "no relationship found between node 'n1' and this object",
            }

    trio.run(main)


def test_rules_review_lists_rules_and_errors() -> None:
    async def main() -> None:
        async with authorized("Node", "RBAC") as made:
            grant(made, ["get"], ["pods"])
            rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
            for namespace, listed in (("ns", True), ("other", False)):
                answer = review(made, "selfsubjectrulesreviews", {"namespace": namespace}, ALICE)
                assert (rule in answer["status"]["resourceRules"]) is listed
                assert answer["status"]["incomplete"] is False
                assert (answer["spec"], "evaluationError" in answer["status"]) == ({}, False)
            ask(made, "delete", "roles", "ns", "r", group=RBAC, user=ADMIN)
            status = review(made, "selfsubjectrulesreviews", {"namespace": "ns"}, ALICE)["status"]
            assert status["evaluationError"] == f'role.{RBAC} "r" not found'
            status = review(made, "selfsubjectrulesreviews", {"namespace": "ns"}, NODE)["status"]
            assert status["incomplete"] is True
            assert status["evaluationError"] == "node authorizer does not support user rule resolution"

    trio.run(main)
