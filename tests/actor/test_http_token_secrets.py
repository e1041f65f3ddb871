"""Tokens of Secrets as credentials, and the authorities of clients that a served cluster publishes."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path

from tests.actor.identities import CORE, N, World, certificates, world

ACCOUNT = "system:serviceaccount:default:a"
SECRET = {
    "metadata": {"name": "key", "annotations": {N.annotation_service_account_name: "a"}},
    "type": N.secret_type_service_account,
}
AUTHORITIES = f"/api/v1/namespaces/{N.system_namespace}/configmaps/{N.config_map_authentication}"


async def _pass_time(here: World, duration: str) -> None:
    kernel = here.cluster.kernel
    kernel.set_rate(float("inf"))
    await here.cluster.run_for(duration)
    kernel.set_rate(0)


async def test_token_of_a_secret_is_valid_as_long_as_the_secret(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.account()
        assert (await here.root.post(f"{CORE}/secrets", json=SECRET)).status_code == 201
        await _pass_time(here, "30s")
        data = (await here.root.get(f"{CORE}/secrets/key")).json()["data"]
        token = b64decode(data["token"]).decode()
        assert b64decode(data["namespace"]) == b"default"
        assert await here.who(here.client(token)) == ACCOUNT
        await here.root.delete(f"{CORE}/secrets/key")
        assert await here.who(here.client(token)) == "401"


async def test_authorities_of_clients_and_proxies_are_published(tmp_path: Path) -> None:
    clients, proxies = certificates("clients"), certificates("proxies")
    (tmp_path / "clients.pem").write_bytes(clients.pem)
    (tmp_path / "proxies.pem").write_bytes(proxies.pem)
    flags = {
        "client-ca-file": str(tmp_path / "clients.pem"),
        "requestheader-client-ca-file": str(tmp_path / "proxies.pem"),
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-allowed-names": "proxy,other",
    }
    async with world(tmp_path, flags) as here:
        await _pass_time(here, "1s")
        assert (await here.root.get(AUTHORITIES)).json()["data"] == {
            "client-ca-file": (here.authority.pem + clients.pem).decode(),
            "requestheader-client-ca-file": proxies.pem.decode(),
            "requestheader-username-headers": '["X-Remote-User"]',
            "requestheader-group-headers": "[]",
            "requestheader-extra-headers-prefix": "[]",
            "requestheader-allowed-names": '["proxy","other"]',
        }


async def test_published_authorities_without_options_name_no_front_proxy(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await _pass_time(here, "1s")
        data = (await here.root.get(AUTHORITIES)).json()["data"]
        assert data == {"client-ca-file": here.authority.pem.decode()}
