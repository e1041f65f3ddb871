"""Odd forms of credentials and impersonation on the wire: never another identity than upstream's."""

from __future__ import annotations

import json
import re
import ssl
from math import inf
from pathlib import Path
from typing import Any

import trio

from tests.actor.identities import CORE, World, certificates, world

ANONYMOUS = "system:anonymous"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"


async def wire(here: World, sent: bytes) -> list[bytes]:
    """The answers on one connection without a certificate, until the server closes it."""
    context = ssl.create_default_context(cadata=here.authority.pem.decode())
    stream = await trio.open_ssl_over_tcp_stream(
        "127.0.0.1", here.port, ssl_context=context, https_compatible=True
    )
    with trio.fail_after(30):
        async with stream:
            await stream.send_all(sent)
            received = b""
            while part := await stream.receive_some():
                received += part
    return re.split(rb"(?<!^)(?=HTTP/1\.1 )", received)


def user_of(answer: bytes) -> str:
    """The sender as the refusal to impersonate names it; the code of any other answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    code = head.split()[1].decode()
    if code != "403":
        return code
    message = json.loads(body)["message"]
    return str(message).split('User "')[1].split('"')[0]


def request(*lines: str, close: bool = True, path: str = f"{CORE}/configmaps") -> bytes:
    """A request to impersonate a user, with these lines among its headers."""
    last = ["Connection: close"] if close else []
    head = [f"GET {path} HTTP/1.1", "Host: x", *lines, "Impersonate-User: another", *last, "", ""]
    return "\r\n".join(head).encode("latin1")


async def sender(here: World, *lines: str) -> str:
    answers = await wire(here, request(*lines))
    assert len(answers) == 1
    return user_of(answers[0])


async def test_odd_authorization_headers_are_no_credential(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.account()
        token = await here.token()
        assert await sender(here, f"Authorization: Bearer {token}") == "system:serviceaccount:default:a"
        assert await sender(here, f"aUTHORIZATION:   bEARER {token}  x") == "system:serviceaccount:default:a"
        for value in (
            "",
            "Bearer",
            "Bearer ",
            "Bearer  root",  # an empty token is no token
            "Bearer\troot",
            "root",
            "Basic cm9vdDpyb290",
            "Token root",
            "Bearerroot",
        ):
            assert (value, await sender(here, f"Authorization: {value}")) == (value, ANONYMOUS)
        for value in (
            "Bearer x root",
            "Bearer x, Bearer root",
            "Bearer root, x",
            "Bearer root\x01",
            'Bearer "root"',
        ):
            assert (value, await sender(here, f"Authorization: {value}")) in ((value, "401"), (value, "400"))
        for name in ("Proxy-Authorization", "X-Authorization", "Authorization_", "Cookie"):
            assert await sender(here, f"{name}: Bearer root") == ANONYMOUS
        for path in (f"{CORE}/configmaps?access_token=root", f"https://root:root@x{CORE}/configmaps"):
            assert user_of((await wire(here, request(path=path)))[0]) == ANONYMOUS


async def test_lines_that_smuggle_a_header_are_refused_or_mean_nothing(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        for lines in (
            ["Authorization : Bearer root"],
            ["Authorization: Bearer x\r\n root"],
            ["X: y\rAuthorization: Bearer root"],
            ["X: y\x00Authorization: Bearer root"],
            ["X: y\n\tAuthorization: Bearer root"],
            [" Authorization: Bearer root"],
            ["Author\tization: Bearer root"],
        ):
            assert await sender(here, *lines) in ("400", "401", ANONYMOUS), lines


async def test_requests_on_one_connection_are_judged_one_by_one(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.account()
        token = await here.token()
        named = request(f"Authorization: Bearer {token}", close=False)
        answers = await wire(here, named + request(close=False) + request("Authorization: Bearer x"))
        assert [user_of(each) for each in answers] == ["system:serviceaccount:default:a", ANONYMOUS, "401"]


async def test_headers_behind_a_body_mean_nothing(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        head = f"POST {CORE}/configmaps HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        chunked = f"{head}Transfer-Encoding: chunked\r\nTrailer: Authorization\r\n\r\n"
        body = "2\r\n{}\r\n0\r\nAuthorization: Bearer root\r\n\r\n"
        assert [user_of(each) for each in await wire(here, (chunked + body).encode())] == [ANONYMOUS]
        both = f"{head}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        answers = await wire(here, both.encode() + request("Authorization: Bearer root"))
        assert all(user_of(each) in ("400", ANONYMOUS) for each in answers)


async def test_certificate_is_judged_before_a_token(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.account()
        pair = here.authority.client("bob", ())
        for token in ("root", "x", await here.token(), ""):
            assert await here.who(here.client(token, pair)) == "bob"


async def test_certificate_without_a_name_or_with_an_odd_one_is_that_user(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        for name in ("Admin", "admin ", " admin", "admin,O=system:masters", "root/O=system:masters"):
            pair = here.authority.client(name, ())
            assert await here.who(here.client(pair=pair)) in (name, "401"), name


async def _limit(here: World, *rules: dict[str, Any]) -> None:
    """Let alice impersonate what the rules name."""
    await here.root.post(f"{RBAC}/clusterroles", json={"metadata": {"name": "act"}, "rules": list(rules)})
    binding = {
        "metadata": {"name": "act"},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "act"},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": "alice"}],
    }
    found = await here.root.post(f"{RBAC}/clusterrolebindings", json=binding)
    assert found.status_code == 201, found.text


def _may(resource: str, *names: str, group: str = "") -> dict[str, Any]:
    return {
        "apiGroups": [group],
        "resources": [resource],
        "verbs": ["impersonate"],
        "resourceNames": [*names],
    }


async def test_impersonation_needs_the_right_to_each_part_of_each_header(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        extra = _may("userextras/scopes", "view", group="authentication.k8s.io")
        await _limit(here, _may("users", "bob"), _may("groups", "dev"), extra)
        alice = here.client(pair=here.authority.client("alice", ()))
        bob = ("Impersonate-User", "bob")

        async def acted(*headers: tuple[str, str]) -> tuple[int, str]:
            found = await alice.get(f"{CORE}/configmaps", headers=[*headers])
            return found.status_code, found.json()["message"]

        for headers in (
            [bob],
            [("iMPERSONATE-uSER", "bob"), ("Impersonate-User", "admin")],  # the first counts
            [bob, ("impersonate-group", "dev"), ("Impersonate-Group", "dev")],
            [bob, ("IMPERSONATE-EXTRA-SCOPES", "view")],
        ):
            code, message = await acted(*headers)
            assert (code, 'User "bob" cannot list resource "configmaps"' in message) == (403, True), headers
        for headers, refused in (
            ([("Impersonate-User", "admin"), bob], 'users "admin"'),
            ([bob, ("Impersonate-Group", "dev"), ("impersonate-group", "system:masters")], "groups"),
            ([bob, ("Impersonate-Group", "dev, system:masters")], "groups"),
            ([bob, ("Impersonate-Group", "")], "groups"),
            ([bob, ("Impersonate-Extra-Scopes", "view"), ("impersonate-extra-scopes", "edit")], "userextras"),
            ([bob, ("Impersonate-Extra-scopes%2fx", "view")], "userextras"),
            ([bob, ("Impersonate-Uid", "1")], "uids"),
            ([("Impersonate-User", "Bob")], 'users "Bob"'),
            ([("Impersonate-User", "bob,admin")], 'users "bob,admin"'),
            ([("Impersonate-User", "system:serviceaccount:kube-system:x")], "serviceaccounts"),
            ([("Impersonate-User", "system:serviceaccount:kube-system:")], "users"),
            ([("Impersonate-User", ANONYMOUS)], f'users "{ANONYMOUS}"'),
        ):
            code, message = await acted(*headers)
            assert code == 403, headers
            assert message.startswith(refused) and 'User "alice" cannot impersonate' in message, message


async def test_empty_first_name_impersonates_no_user(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        twice = [("Impersonate-User", ""), ("Impersonate-User", "bob")]
        assert (await here.root.get(f"{CORE}/configmaps", headers=twice)).status_code == 200
        alone = [*twice, ("Impersonate-Group", "dev")]
        assert (await here.root.get(f"{CORE}/configmaps", headers=alone)).status_code == 500
        uids = [("Impersonate-User", "bob"), ("Impersonate-Uid", ""), ("Impersonate-Uid", "1")]
        found = await here.root.get(f"{CORE}/configmaps", headers=uids)
        assert 'User "bob" cannot list' in found.json()["message"]


async def test_front_proxy_may_not_pass_a_token_or_name_a_user_twice(tmp_path: Path) -> None:
    proxies = certificates("front-proxy-ca")
    file = tmp_path / "front.pem"
    file.write_bytes(proxies.pem)
    flags = {
        "requestheader-client-ca-file": str(file),
        "requestheader-allowed-names": "proxy",
        "requestheader-username-headers": "X-Remote-User,X-User",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
    }
    async with world(tmp_path, flags, proxies.pem) as here:
        pair = proxies.client("proxy", ())
        carl = [("X-Remote-User", "carl")]
        assert await here.who(here.client("root", pair), carl) == "carl"
        assert await here.who(here.client("x", pair), [("X-User", "root"), *carl]) == "carl"
        assert await here.who(here.client(pair=pair), [("X-User", "carl")]) == "carl"
        assert await here.who(here.client(pair=pair), [("Impersonate-User", "admin")]) == "401"
        # The proxy's certificate alone is no identity, and a token next to it is judged by itself.
        assert await here.who(here.client("root", pair)) == "admin"


async def test_refused_watch_is_answered_at_once_and_an_open_one_goes_on(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        here.cluster.kernel.set_rate(inf)
        role = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["watch", "list"]}
        path = f"{CORE}/configmaps?watch=1&timeoutSeconds=60"
        alice = here.client(pair=here.authority.client("alice", ()))
        with trio.fail_after(30):
            assert (await alice.get(path)).status_code == 403
            assert (
                await alice.get(f"/api/v1/watch{CORE.removeprefix('/api/v1')}/configmaps")
            ).status_code == 403
        await _limit(here, role)
        await here.root.post(f"{CORE}/configmaps", json={"metadata": {"name": "early"}})
        await here.cluster.run_until("5s")
        with trio.fail_after(30):
            async with alice.stream("GET", path) as answer:
                assert answer.status_code == 200
                gone = await here.root.delete(f"{RBAC}/clusterrolebindings/act")
                assert gone.status_code == 200
                assert (await alice.get(path)).status_code == 403
                await here.root.post(f"{CORE}/configmaps", json={"metadata": {"name": "late"}})
                await here.cluster.run_until("5m")
                events = [json.loads(line) async for line in answer.aiter_lines()]
                assert {"early", "late"} <= {each["object"]["metadata"]["name"] for each in events}
