"""Hostile credentials on a live server over TLS: 401 or 403, and never another identity."""

from __future__ import annotations

import hmac
from base64 import b64decode
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sim.api.auth.web_tokens import compact, encode, parse_token
from sim.app.cluster import Cluster
from sim.wire.http.gateway import Gateway
from tests.actor.identities import CORE, DAY, N, certificates, key, world

ANONYMOUS = "system:anonymous"
ACCOUNT = "system:serviceaccount:default:a"
PROXIES = {
    "requestheader-allowed-names": "proxy",
    "requestheader-username-headers": "X-Remote-User",
    "requestheader-group-headers": "X-Remote-Group",
    "requestheader-extra-headers-prefix": "X-Remote-Extra-",
}
ROOT_HEADERS = [("X-Remote-User", "root"), ("X-Remote-Group", "system:masters")]


def changed(token: str, **claims: Any) -> dict[str, Any]:
    parsed = parse_token(token)
    assert parsed is not None
    return {**parsed.claims, **claims}


async def test_forged_tokens_are_401_and_the_real_one_is_its_account(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.account()
        token = await here.token()
        head, body, signature = token.split(".")
        public = key().public._key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        unsigned = compact({"alg": "none"}, changed(token))
        symmetric = compact({"alg": "HS256"}, changed(token))
        forged = {
            "another key": key(1).token(changed(token)),
            "no algorithm": f"{unsigned}.",
            "no algorithm, old signature": f"{unsigned}.{signature}",
            "the public key as a secret": f"{symmetric}.{encode(hmac.digest(public, symmetric.encode(), sha256))}",
            "another audience": await here.token(audiences=["vault"]),
            "another subject": f"{head}.{compact({}, changed(token, sub='root')).split('.')[1]}.{signature}",
            "no signature": f"{head}.{body}.",
            "more": f"{token}.x",
            "expired": key().token(changed(token, exp=1)),
            "not yet valid": key().token(changed(token, nbf=1 << 40)),
            "another issuer": key().token(changed(token, iss="https://acme.com")),
            "nonsense": "x",
        }
        assert await here.who(here.client(token)) == ACCOUNT
        for why, text in forged.items():
            assert (why, await here.who(here.client(text))) == (why, "401")


async def test_token_of_a_deleted_account_is_401_also_when_the_name_returns(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.account()
        token = await here.token()
        assert await here.who(here.client(token)) == ACCOUNT
        await here.root.delete(f"{CORE}/serviceaccounts/a")
        assert await here.who(here.client(token)) == "401"
        await here.account()
        assert await here.who(here.client(token)) == "401"


async def test_certificates_out_of_their_time_are_401(tmp_path: Path) -> None:
    expired, early = certificates("old", 400 * DAY), certificates("new", -2 * DAY)
    file = tmp_path / "ca.pem"
    file.write_bytes(expired.pem + early.pem)
    async with world(tmp_path, {"client-ca-file": str(file)}, file.read_bytes()) as here:
        assert await here.who(here.client(pair=here.authority.client("bob", ()))) == "bob"
        for authority in (expired, early):
            pair = authority.client("root", ("system:masters",))
            assert await here.who(here.client(pair=pair)) == "401"
            # A second credential that is good counts, as upstream's union has it.
            assert await here.who(here.client("root", pair)) == "admin"


async def test_certificate_of_an_unknown_authority_ends_the_connection(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        for authority in (certificates("ca"), certificates("other")):
            pair = authority.client("root", ("system:masters",))
            with pytest.raises(httpx.TransportError):
                await here.who(here.client(pair=pair))
        assert await here.who(here.client()) == ANONYMOUS


async def test_front_proxy_acts_for_users_and_headers_of_others_mean_nothing(tmp_path: Path) -> None:
    proxies = certificates("front-proxy-ca")
    file = tmp_path / "front.pem"
    file.write_bytes(proxies.pem)
    flags = {**PROXIES, "requestheader-client-ca-file": str(file)}
    async with world(tmp_path, flags, proxies.pem) as here:
        proxy = here.client(pair=proxies.client("proxy", ()))
        assert await here.who(proxy, [("X-Remote-User", "carl")]) == "carl"
        assert await here.who(proxy, ROOT_HEADERS) == "admin"
        assert await here.who(here.client(), ROOT_HEADERS) == ANONYMOUS
        await here.account()
        account = here.client(await here.token())
        assert await here.who(account, ROOT_HEADERS) == ACCOUNT
        bob = here.client(pair=here.authority.client("proxy", ()))  # the right name, another authority
        assert await here.who(bob, ROOT_HEADERS) == "proxy"
        mallory = here.client(pair=proxies.client("mallory", ()))
        assert await here.who(mallory, ROOT_HEADERS) == "401"


@pytest.mark.parametrize(
    "headers",
    [
        [("X_Remote_User", "root")],
        [("X-Remote_User", "root")],
        [("X-Remote-Group", "system:masters")],
        [("X-Remote-User", ""), ("X-Remote-Group", "system:masters")],
        [("X-Remote-Extra-User", "root")],
    ],
)
async def test_proxy_without_a_user_header_is_401(tmp_path: Path, headers: list[tuple[str, str]]) -> None:
    proxies = certificates("front-proxy-ca")
    file = tmp_path / "front.pem"
    file.write_bytes(proxies.pem)
    flags = {**PROXIES, "requestheader-client-ca-file": str(file)}
    async with world(tmp_path, flags, proxies.pem) as here:
        assert await here.who(here.client(pair=proxies.client("proxy", ())), headers) == "401"


async def test_first_of_repeated_user_headers_counts(tmp_path: Path) -> None:
    proxies = certificates("front-proxy-ca")
    file = tmp_path / "front.pem"
    file.write_bytes(proxies.pem)
    flags = {**PROXIES, "requestheader-client-ca-file": str(file)}
    async with world(tmp_path, flags, proxies.pem) as here:
        proxy = here.client(pair=proxies.client("proxy", ()))
        twice = [("X-Remote-User", "carl"), ("x-remote-user", "root")]
        assert await here.who(proxy, twice) == "carl"


async def test_front_proxy_headers_mean_nothing_in_a_server_without_the_option(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        assert await here.who(here.client(), ROOT_HEADERS) == ANONYMOUS
        bob = here.client(pair=here.authority.client("bob", ()))
        assert await here.who(bob, ROOT_HEADERS) == "bob"


async def test_oversized_headers_are_refused_without_an_identity(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        found = await here.client("x" * 60_000).get(f"{CORE}/configmaps")
        assert found.status_code == 401
        for headers in ({"Authorization": "Bearer " + "x" * 200_000}, {"X-Remote-User": "r" * 200_000}):
            try:
                found = await here.client().get(f"{CORE}/configmaps", headers=headers)
            except httpx.TransportError:
                continue  # the server closed the connection while the client still wrote
            assert found.status_code in (400, 431)


async def test_two_authorization_headers_are_judged_by_the_first(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.account()
        token = await here.token()
        twice = [("Authorization", f"Bearer {token}"), ("Authorization", "Bearer root")]
        assert await here.who(here.client(), twice) == ACCOUNT
        assert await here.who(here.client(), twice[::-1]) == "admin"
        bad = [("Authorization", "Bearer x"), ("Authorization", "Bearer root")]
        assert await here.who(here.client(), bad) == "401"


async def test_wrong_credentials_are_401_on_public_paths_too(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        assert (await here.client("x").get("/healthz")).status_code == 401
        assert (await here.client().get("/healthz")).status_code == 200


# --- the issuer of service account tokens ---------------------------------------------------------


async def test_issuer_publishes_its_keys_and_a_token_verifies_with_them(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        root = here.root
        found = await root.get("/.well-known/openid-configuration")
        assert found.headers["Content-Type"] == "application/json"
        assert found.headers.get_list("Cache-Control") == ["public, max-age=3600"]
        assert found.json() == {
            "issuer": "https://kubernetes.default.svc.cluster.local",
            "jwks_uri": "https://127.0.0.1:6443/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }
        keys = await root.get("/openid/v1/jwks", headers={"Accept": "application/jwk-set+json"})
        assert keys.headers["Content-Type"] == "application/jwk-set+json"
        await here.account()
        token = parse_token(await here.token())
        assert token is not None
        assert [each["kid"] for each in keys.json()["keys"]] == [token.key_id]
        assert "/openid/v1/jwks" in (await root.get("/")).json()["paths"]


async def test_issuer_answers_get_in_its_own_type_only(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        found = await here.root.get("/openid/v1/jwks", headers={"Accept": "application/json"})
        assert (found.status_code, found.json()["message"]) == (
            406,
            "406: Not Acceptable\n\nAvailable representations: application/jwk-set+json",
        )
        assert (await here.root.post("/openid/v1/jwks")).status_code == 405
        assert (await here.root.post("/openid/v1/jwks/")).status_code == 405
        below = await here.root.get("/openid/v1/jwks/x")
        assert (below.status_code, below.json()["reason"]) == (404, "NotFound")
        assert (await here.root.get("/.well-known/openid-configuration/")).status_code == 200


async def test_replay_makes_the_same_tokens_and_the_same_run(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.account()
        token = await here.token()
        await here.root.post(f"{CORE}/configmaps", json={"metadata": {"name": "a"}, "data": {"t": token}})
        kernel, claims = here.cluster.kernel, changed(token)
        kernel.set_rate(inf)
        await here.cluster.run_until("1s")
        journal, trace = list(kernel.gate.journal), kernel.trace.sha256()
    async with Cluster(here.cluster.plan, replay=journal) as again:
        Gateway(again.kernel, again.api_servers)
        again.kernel.set_rate(inf)
        await again.run_until("1s")
        assert again.kernel.trace.sha256() == trace
        assert again.identities.sign(claims) == token


async def test_token_of_a_secret_is_its_account_until_the_secret_is_deleted(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.account()
        annotations = {"kubernetes.io/service-account.name": "a"}
        secret = {
            "metadata": {"name": "s", "annotations": annotations},
            "type": "kubernetes.io/service-account-token",
        }
        assert (await here.root.post(f"{CORE}/secrets", json=secret)).status_code == 201
        here.cluster.kernel.set_rate(inf)
        await here.cluster.run_for("1m")
        here.cluster.kernel.set_rate(0)
        found = (await here.root.get(f"{CORE}/secrets/s")).json()
        token = b64decode(found["data"]["token"]).decode()
        assert await here.who(here.client(token)) == ACCOUNT
        assert (await here.review(token))["user"]["uid"] == changed(token)[N.claim_legacy_uid]
        await here.root.delete(f"{CORE}/secrets/s")
        assert await here.who(here.client(token)) == "401"
        error = "[invalid bearer token, Token has been invalidated]"
        assert (await here.review(token))["error"] == error
