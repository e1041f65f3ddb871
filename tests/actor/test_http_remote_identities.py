"""Services outside that judge users: an issuer of ID tokens and a token webhook, over HTTPS."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import time
from typing import Any

import pytest
import trio
import yaml

from sim.api.auth.keys import public_key_set
from sim.wire.authority import Authority
from sim.wire.http.fronts.server import serve
from sim.wire.tls import server_context
from tests.actor.identities import certificates, key, world

Page = Callable[[str, bytes], tuple[int, Any]]


class Service:
    """A service of its own: the answer to a path and a body is what `page` returns."""

    def __init__(self, authority: Authority, port: int) -> None:
        self.authority = authority
        self.base = f"https://127.0.0.1:{port}"
        self.asked: list[tuple[str, Any]] = []


@asynccontextmanager
async def service(page: Page) -> AsyncIterator[Service]:
    authority = certificates("service-ca")
    context = server_context(authority.server(("127.0.0.1",)), authority.pem)
    made: list[Service] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body", False):
                break
        made[0].asked.append((scope["path"], json.loads(body) if body else None))
        code, answer = page(scope["path"], body)
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        headers = [(b"content-length", b"%d" % len(data))]
        await send({"type": "http.response.start", "status": code, "headers": headers})
        await send({"type": "http.response.body", "body": data, "more_body": False})

    async with trio.open_nursery() as nursery:
        port = await nursery.start(serve, app, "127.0.0.1", 0, context, None)
        made.append(Service(authority, port))
        yield made[0]
        nursery.cancel_scope.cancel()


# --- OpenID Connect -------------------------------------------------------------------------------


def claims(issuer: str, **more: Any) -> dict[str, Any]:
    return {"iss": issuer, "aud": "app", "sub": "carl", "exp": int(time()) + 3600, **more}


async def test_keys_of_an_issuer_are_fetched_once_for_its_tokens(tmp_path: Path) -> None:
    issuer = ""

    def page(path: str, _: bytes) -> tuple[int, Any]:
        if path == "/keys":
            return 200, public_key_set([key(3).public])
        return 200, {"issuer": issuer, "jwks_uri": f"{issuer}/keys"}

    async with service(page) as login:
        issuer = login.base
        ca = tmp_path / "ca.pem"
        ca.write_bytes(login.authority.pem)
        flags = {
            "oidc-issuer-url": issuer,
            "oidc-client-id": "app",
            "oidc-ca-file": str(ca),
            "oidc-username-prefix": "-",
            "oidc-groups-claim": "teams",
            "oidc-groups-prefix": "t:",
            "oidc-required-claim": "hd=acme",
        }
        async with world(tmp_path, flags) as here:
            good = claims(issuer, hd="acme", teams=["x"])
            assert await here.who(here.client("root")) == "admin"
            assert login.asked == []
            status = await here.review(key(3).token(good))
            assert status["user"] == {"username": "carl", "groups": ["t:x", "system:authenticated"]}
            assert await here.who(here.client(key(3).token(good))) == "carl"
            for token in (key(4).token(good), key(3).token(claims(issuer)), key(3).token(good) + "x"):
                assert await here.who(here.client(token)) == "401"
            assert [path for path, _ in login.asked] == ["/.well-known/openid-configuration", "/keys"]


@pytest.mark.parametrize("document", [{"issuer": "https://other"}, {}, b"x", b"[]", b"x" * (1 << 21)])
async def test_issuer_with_a_wrong_document_lets_no_user_in(tmp_path: Path, document: Any) -> None:
    async with service(lambda path, body: (200, document)) as login:
        ca = tmp_path / "ca.pem"
        ca.write_bytes(login.authority.pem)
        flags = {"oidc-issuer-url": login.base, "oidc-client-id": "app", "oidc-ca-file": str(ca)}
        async with world(tmp_path, flags) as here:
            token = key(3).token(claims(login.base))
            assert await here.who(here.client(token)) == "401"
            error = "[invalid bearer token, oidc: authenticator not initialized]"
            assert (await here.review(token))["error"] == error


async def test_issuer_with_a_certificate_of_another_authority_lets_no_user_in(tmp_path: Path) -> None:
    async with service(lambda path, body: (200, public_key_set([key(3).public]))) as login:
        flags = {"oidc-issuer-url": login.base, "oidc-client-id": "app"}
        async with world(tmp_path, flags) as here:
            assert await here.who(here.client(key(3).token(claims(login.base)))) == "401"
            assert login.asked == []


async def test_keys_of_an_issuer_may_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps(public_key_set([key(3).public])))
    flags = {
        "oidc-issuer-url": "https://login",
        "oidc-client-id": "app",
        "oidc-keys-file": str(file),
        "oidc-username-claim": "email",
    }
    async with world(tmp_path, flags) as here:
        token = key(3).token(claims("https://login", email="a@b", email_verified=True))
        assert await here.who(here.client(token)) == "a@b"
        assert await here.who(here.client(key(3).token(claims("https://login")))) == "401"


async def test_signing_algorithms_of_id_tokens_are_those_of_the_option(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps(public_key_set([key(3).public])))
    flags = {
        "oidc-issuer-url": "https://login",
        "oidc-client-id": "app",
        "oidc-keys-file": str(file),
        "oidc-signing-algs": "ES256",
    }
    async with world(tmp_path, flags) as here:
        assert await here.who(here.client(key(3).token(claims("https://login")))) == "401"


# --- webhook --------------------------------------------------------------------------------------


def config_of(folder: Path, hook: Service, **user: Any) -> str:
    (folder / "hook.pem").write_bytes(hook.authority.pem)
    cluster = {"server": f"{hook.base}/judge", "certificate-authority": "hook.pem"}
    config = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (folder / "hook.yaml").write_text(yaml.safe_dump(config))
    return str(folder / "hook.yaml")


def judge(_: str, body: bytes) -> tuple[int, Any]:
    token = json.loads(body)["spec"]["token"]
    if token == "broken":
        return 500, {}
    status = {"authenticated": True, "user": {"username": token.removeprefix("for-"), "groups": ["dev"]}}
    return 200, {"status": status if token.startswith("for-") else {"authenticated": False}}


async def test_webhook_judges_tokens_that_no_other_authenticator_knows(tmp_path: Path) -> None:
    async with service(judge) as hook:
        flags = {
            "authentication-token-webhook-config-file": config_of(tmp_path, hook, token="t"),
            "authentication-token-webhook-version": "v1",
        }
        async with world(tmp_path, flags) as here:
            assert await here.who(here.client("root")) == "admin"
            assert await here.who(here.client()) == "system:anonymous"
            assert hook.asked == []
            assert await here.who(here.client("for-carl")) == "carl"
            assert await here.who(here.client("for-carl")) == "carl"  # remembered
            assert len(hook.asked) == 1
            path, review = hook.asked[0]
            assert (path, review["kind"], review["apiVersion"]) == (
                "/judge",
                "TokenReview",
                "authentication.k8s.io/v1",
            )
            assert (await here.review("for-dora"))["user"]["username"] == "dora"
            for token in ("x", "broken"):
                assert await here.who(here.client(token)) == "401"


async def test_webhook_is_asked_again_where_no_answer_is_kept(tmp_path: Path) -> None:
    async with service(judge) as hook:
        flags = {
            "authentication-token-webhook-config-file": config_of(tmp_path, hook),
            "authentication-token-webhook-cache-ttl": "0s",
        }
        async with world(tmp_path, flags) as here:
            assert await here.who(here.client("for-carl")) == "carl"
            assert hook.asked[0][1]["apiVersion"] == "authentication.k8s.io/v1beta1"
