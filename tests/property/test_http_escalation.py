"""No sequence of HTTP requests gives a restricted user a right that was not granted.

mallory may write roles, bindings and service accounts, may impersonate bob, and may make tokens for
the account `weak`. Whatever is sent, none of these three identities reaches a goal.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from math import inf
from typing import Any, NamedTuple

import httpx
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.api.types import UserInfo
from sim.app.cluster import Cluster
from sim.app.serving.front import make_front
from sim.app.serving.identities import Files
from sim.scenario.plan.plan import ClusterPlan
from sim.wire.http.app import Application
from sim.wire.http.fronts.server import serve
from tests.actor.identities import CORE, N, key

USERS = {"root": UserInfo("admin", (N.group_masters,)), "mallory": UserInfo("mallory", ("dev",))}
GROUP = "rbac.authorization.k8s.io"
RBAC = f"/apis/{GROUP}/v1"
ACCOUNTS = f"{CORE}/serviceaccounts"
ALL = ["get", "list", "create", "update", "patch", "delete"]
SENDERS: dict[str, dict[str, str]] = {
    "mallory": {"Authorization": "Bearer mallory"},
    "bob": {"Authorization": "Bearer mallory", "Impersonate-User": "bob"},
    "weak": {},  # the token is made in each world
}
GOALS = [
    ("GET", f"{CORE}/secrets"),
    ("GET", f"{CORE}/configmaps"),
    ("GET", "/api/v1/nodes"),
    ("GET", "/metrics"),
    ("POST", f"{ACCOUNTS}/strong/token"),
    ("DELETE", "/api/v1/namespaces/kube-public"),
]


class Attempt(NamedTuple):
    """One request."""

    sender: str
    method: str
    path: str
    body: Any = None
    media: str = "application/json"
    headers: Mapping[str, str] = {}


def _rule(verbs: list[str], groups: list[str], resources: list[str], *names: str) -> dict[str, Any]:
    more = {"resourceNames": [*names]} if names else {}
    return {"verbs": verbs, "apiGroups": groups, "resources": resources, **more}


GRANTED = [
    _rule(ALL, [GROUP], ["roles", "rolebindings", "clusterroles", "clusterrolebindings"]),
    _rule(ALL, [""], ["serviceaccounts"]),
    _rule(["get", "list"], [""], ["pods"]),
    _rule(["create"], [""], ["serviceaccounts/token"], "weak"),
    _rule(["impersonate"], [""], ["users"], "bob"),
]
RULES = st.lists(
    st.sampled_from(
        [
            *GRANTED,
            _rule(["*"], ["*"], ["*"]),
            _rule(["get"], [""], ["secrets"]),
            _rule(["list"], ["", "apps"], ["pods", "configmaps"]),
            _rule(["escalate", "bind"], [GROUP], ["clusterroles", "roles"]),
            _rule(["bind"], [GROUP], ["clusterroles"], "cluster-admin"),
            _rule(["impersonate"], [""], ["users", "groups", "serviceaccounts"]),
            _rule(["create"], [""], ["serviceaccounts/token"]),
            _rule(["create"], [""], ["serviceaccounts/token"], "weak", "strong"),
            {"verbs": ["get"], "nonResourceURLs": ["*"]},
        ]
    ),
    min_size=1,
    max_size=2,
)
SUBJECTS = st.lists(
    st.sampled_from(
        [
            {"kind": "User", "name": "mallory", "apiGroup": GROUP},
            {"kind": "User", "name": "bob", "apiGroup": GROUP},
            {"kind": "Group", "name": "system:authenticated", "apiGroup": GROUP},
            {"kind": "ServiceAccount", "name": "weak", "namespace": "default"},
        ]
    ),
    min_size=1,
    max_size=2,
)
NAMES = st.sampled_from(["x", "y", "view", "cluster-admin", "mallory"])
LABELS = st.sampled_from([{}, {f"{GROUP}/aggregate-to-view": "true"}, {"a": "b"}])
GATHERED = st.sampled_from([{}, {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}])
ROLE = st.builds(
    lambda labels, rules, gathered: {"metadata": {"labels": labels}, "rules": rules, **gathered},
    LABELS,
    RULES,
    GATHERED,
)
BINDING = st.builds(
    lambda kind, name, subjects: {
        "metadata": {},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name},
        "subjects": subjects,
    },
    st.sampled_from(["Role", "ClusterRole"]),
    NAMES,
    SUBJECTS,
)
_KINDS = {
    "roles": "Role",
    "clusterroles": "ClusterRole",
    "rolebindings": "RoleBinding",
    "clusterrolebindings": "ClusterRoleBinding",
}


def _write(sender: str, plural: str, name: str, body: dict[str, Any], how: str) -> Attempt:
    inside = "" if plural.startswith("cluster") else "/namespaces/default"
    path = f"{RBAC}{inside}/{plural}"
    typed = {"apiVersion": f"{GROUP}/v1", "kind": _KINDS[plural], **body}
    named = {**typed, "metadata": {**body["metadata"], "name": name}}
    if how == "POST":
        return Attempt(sender, how, path, named)
    if how in ("PUT", "DELETE"):
        return Attempt(sender, how, f"{path}/{name}", named if how == "PUT" else None)
    if how == "apply":
        query = "?fieldManager=m&force=true"
        return Attempt(sender, "PATCH", f"{path}/{name}{query}", named, "application/apply-patch+yaml")
    if how == "json-patch+json":
        field = "rules" if "rules" in body else "subjects"
        operations = [{"op": "add", "path": f"/{field}", "value": body[field]}]
        return Attempt(sender, "PATCH", f"{path}/{name}", operations, f"application/{how}")
    return Attempt(sender, "PATCH", f"{path}/{name}", body, f"application/{how}")


PATCHES = ["merge-patch+json", "strategic-merge-patch+json", "json-patch+json", "apply"]
HOW = st.sampled_from(["POST", "POST", "PUT", *PATCHES, "apply"])
SENDER = st.sampled_from(["mallory", "mallory", "mallory", "bob", "weak"])
WRITE = st.one_of(
    st.builds(_write, SENDER, st.sampled_from(["roles", "clusterroles"]), NAMES, ROLE, HOW),
    st.builds(_write, SENDER, st.sampled_from(["rolebindings", "clusterrolebindings"]), NAMES, BINDING, HOW),
    st.builds(
        _write,
        SENDER,
        st.sampled_from(["roles", "rolebindings"]),
        st.sampled_from(["x", "y"]),
        ROLE,
        st.just("DELETE"),
    ),
)
TOKEN = st.builds(
    lambda sender, name, spec: Attempt(sender, "POST", f"{ACCOUNTS}/{name}/token", {"spec": spec}),
    SENDER,
    st.sampled_from(["strong", "default", "absent"]),
    st.sampled_from([{}, {"audiences": ["x"]}, {"expirationSeconds": 600}]),
)
ACCOUNT = st.builds(
    lambda sender, method: Attempt(
        sender,
        method,
        f"{ACCOUNTS}/strong",
        {"metadata": {"name": "strong"}, "secrets": [{"name": "weak"}]},
        "application/merge-patch+json" if method == "PATCH" else "application/json",
    ),
    SENDER,
    st.sampled_from(["PUT", "PATCH"]),
)
ACT = st.builds(
    lambda sender, goal, user, group: Attempt(
        sender,
        *goal,
        headers={"Impersonate-User": user, **({"Impersonate-Group": group} if group else {})},
    ),
    st.sampled_from(["mallory", "weak"]),
    st.sampled_from(GOALS),
    st.sampled_from(
        ["bob", "admin", "system:node:n", "system:serviceaccount:default:strong", "system:admin", "weak"]
    ),
    st.sampled_from(["", "system:masters", "system:nodes", "dev"]),
)


@asynccontextmanager
async def world() -> AsyncIterator[tuple[Cluster, httpx.AsyncClient]]:
    """A served cluster with the users, the accounts and what was granted to them."""
    async with (
        Cluster(ClusterPlan(naming="kubernetes", nodes=())) as cluster,
        trio.open_nursery() as nursery,
    ):
        cluster.kernel.set_rate(inf)
        await cluster.run_until("30s")  # before, roles that aggregate others hold nothing
        files = Files.read(cluster.options.authentication, key())
        front = make_front(cluster, USERS, "127.0.0.1", files)
        port = await nursery.start(serve, Application(front.answer), "127.0.0.1", 0, None, None)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            await _grant(client)
            yield cluster, client
        nursery.cancel_scope.cancel()


async def _grant(client: httpx.AsyncClient) -> None:
    async def made(path: str, body: dict[str, Any]) -> Any:
        found = await client.post(path, json=body, headers={"Authorization": "Bearer root"})
        assert found.status_code == 201, found.text
        return found.json()

    for name in ("weak", "strong"):
        await made(ACCOUNTS, {"metadata": {"name": name}})
    await made(f"{RBAC}/clusterroles", {"metadata": {"name": "mallory"}, "rules": GRANTED})
    strong = {"kind": "ServiceAccount", "name": "strong", "namespace": "default"}
    mallory = {"kind": "User", "name": "mallory", "apiGroup": GROUP}
    for name, subject in (("mallory", mallory), ("cluster-admin", strong)):
        reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}
        body = {"metadata": {"name": f"{name}-of-test"}, "roleRef": reference, "subjects": [subject]}
        await made(f"{RBAC}/clusterrolebindings", body)
    token = await client.post(f"{ACCOUNTS}/weak/token", json={"spec": {}}, headers=SENDERS["mallory"])
    SENDERS["weak"] = {"Authorization": f"Bearer {token.json()['status']['token']}"}


async def sent(client: httpx.AsyncClient, attempt: Attempt) -> int:
    headers = {**SENDERS[attempt.sender], **attempt.headers}
    content = b""
    if attempt.body is not None:
        headers["Content-Type"] = attempt.media
        content = json.dumps(attempt.body).encode()
    found = await client.request(attempt.method, attempt.path, content=content, headers=headers)
    return found.status_code


async def reached(client: httpx.AsyncClient) -> list[tuple[str, str, int]]:
    """The goals that a sender reaches, with the code."""
    found = []
    for sender in SENDERS:
        for method, path in GOALS:
            code = await sent(client, Attempt(sender, method, path, {} if method != "GET" else None))
            if code != 403:
                found.append((sender, path, code))
    return found


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(st.lists(st.one_of(WRITE, WRITE, TOKEN, ACCOUNT, ACT), min_size=20, max_size=30))
def test_no_attempt_over_http_gains_a_right(attempts: list[Attempt]) -> None:
    async def main() -> None:
        async with world() as (cluster, client):
            assert await reached(client) == []
            for attempt in attempts:
                code = await sent(client, attempt)
                # Quirk: an applied object with an unknown field is 500.
                known = (500,) if "apply" in attempt.media else ()
                assert code in (200, 201, 400, 403, 404, 409, 415, 422, *known), attempt
                if attempt.headers or attempt.path.endswith("/token"):
                    assert code in (403, 404), attempt
            await cluster.run_until("3m")  # controllers gather what aggregated roles select
            assert await reached(client) == []

    trio.run(main)


def test_right_that_is_granted_reaches_a_goal() -> None:
    """The goals are reachable: what the property says is not true of everything."""

    async def main() -> None:
        async with world() as (_, client):
            everything = {"metadata": {"name": "mallory"}, "rules": [_rule(["*"], ["*"], ["*"])]}
            root = {"Authorization": "Bearer root"}
            found = await client.put(f"{RBAC}/clusterroles/mallory", json=everything, headers=root)
            assert found.status_code == 200
            assert [code for sender, _, code in await reached(client) if sender == "mallory"][:3] == [200] * 3

    trio.run(main)
