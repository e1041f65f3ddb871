"""Secrets of service account tokens and of bootstrap tokens, against the real API server."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode, urlsafe_b64decode

from actors.controllers.shared.shell import RootCa
from sim.api.types import Obj
from sim.ident import NAMES
from sim.units import MINUTE, SECOND, format_time
from tests.actor.controllers.workload import World, world

N = NAMES["orch"]
FILLER = ["serviceaccount-token"]
SYSTEM, PUBLIC = N.system_namespace, N.public_namespace


def account(name: str = "robot") -> Obj:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}


def token_secret(name: str = "key", owner: str = "robot", uid: str = "") -> Obj:
    annotations = {N.annotation_service_account_name: owner}
    if uid:
        annotations[N.annotation_service_account_uid] = uid
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "annotations": annotations},
        "type": N.secret_type_service_account,
    }


async def data_of(found: World, name: str = "key") -> dict[str, str]:
    data = (await found.get("secrets", name)).get("data") or {}
    return {key: b64decode(value).decode() for key, value in data.items()}


def claims_of(token: str) -> Obj:
    body = token.split(".")[1]
    claims: Obj = json.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return claims


# --- tokens of service accounts -------------------------------------------------------------------


async def test_token_secret_is_filled_for_its_account() -> None:
    async with world(FILLER) as found:
        owner = await found.create("serviceaccounts", account())
        await found.create("secrets", token_secret())
        await found.settle(2 * SECOND)
        data = await data_of(found)
        assert data["namespace"] == "default"
        assert "ca.crt" not in data  # the cluster has no authority
        claims = claims_of(data["token"])
        assert claims[f"{N.domain}/serviceaccount/secret.name"] == "key"
        assert claims[f"{N.domain}/serviceaccount/service-account.uid"] == owner["metadata"]["uid"]
        annotations = (await found.get("secrets", "key"))["metadata"]["annotations"]
        assert annotations[N.annotation_service_account_uid] == owner["metadata"]["uid"]


async def test_new_certificate_authority_is_written_into_each_secret() -> None:
    authority = RootCa()
    async with world(FILLER, root_ca=authority) as found:
        await found.create("serviceaccounts", account())
        await found.create("secrets", token_secret())
        await found.settle(2 * SECOND)
        token = (await data_of(found))["token"]
        authority.pem = "certificates"
        await found.settle(2 * SECOND)
        data = await data_of(found)
        assert (data["ca.crt"], data["token"]) == ("certificates", token)


async def test_filled_secret_is_not_written_again() -> None:
    async with world(FILLER) as found:
        await found.create("serviceaccounts", account())
        await found.create("secrets", token_secret())
        await found.settle(2 * SECOND)
        updates = found.quota.watch("update", "secrets")
        await found.patch("secrets", "key", {"metadata": {"labels": {"a": "b"}}})
        await found.settle(2 * SECOND)
        assert updates == []


async def test_removed_token_is_made_again() -> None:
    async with world(FILLER) as found:
        await found.create("serviceaccounts", account())
        await found.create("secrets", token_secret())
        await found.settle(2 * SECOND)
        token = (await data_of(found))["token"]
        await found.patch("secrets", "key", {"data": {"token": None}})
        await found.settle(2 * SECOND)
        assert (await data_of(found))["token"] == token


async def test_account_gets_a_secret_while_the_gate_against_it_is_off() -> None:
    """To see it fail: let the controller ignore the gate, or forget the Secret that it made."""
    gates = {"feature_gates": {"LegacyServiceAccountTokenNoAutoGeneration": "false"}}
    for options in ({}, gates):
        async with world(FILLER, **options) as found:
            await found.create("serviceaccounts", account())
            await found.settle(2 * SECOND)
            made = await found.names("secrets")
            references = (await found.get("serviceaccounts", "robot")).get("secrets") or []
            assert [each["name"] for each in references] == made
            assert len(made) == (1 if options else 0)
            if options:
                assert made[0].startswith("robot-token-")
                assert claims_of((await data_of(found, made[0]))["token"])
                await found.delete("secrets", made[0])
                await found.settle(2 * SECOND)
                assert await found.names("secrets") not in ([], made)


async def test_secret_without_account_is_deleted() -> None:
    async with world(FILLER) as found:
        await found.create("secrets", token_secret(owner="absent"))
        await found.settle(2 * SECOND)
        assert await found.names("secrets") == []


async def test_secret_of_an_earlier_account_is_deleted() -> None:
    async with world(FILLER) as found:
        await found.create("serviceaccounts", account())
        await found.create("secrets", token_secret(uid="of-an-earlier-account"))
        await found.settle(2 * SECOND)
        assert await found.names("secrets") == []


async def test_secrets_are_deleted_with_their_account() -> None:
    async with world(FILLER) as found:
        for name in ("robot", "other"):
            await found.create("serviceaccounts", account(name))
        await found.create("secrets", token_secret())
        await found.create("secrets", token_secret("second"))
        await found.create("secrets", token_secret("third", "other"))
        await found.settle(2 * SECOND)
        await found.delete("serviceaccounts", "robot")
        await found.settle(2 * SECOND)
        assert await found.names("secrets") == ["third"]


async def test_reference_of_the_account_goes_with_its_secret() -> None:
    async with world(FILLER) as found:
        references = {"secrets": [{"name": "key"}, {"name": "other"}]}
        await found.create("serviceaccounts", {**account(), **references})
        await found.create("secrets", token_secret())
        await found.settle(2 * SECOND)
        await found.delete("secrets", "key")
        await found.settle(2 * SECOND)
        assert (await found.get("serviceaccounts", "robot"))["secrets"] == [{"name": "other"}]


async def test_failed_write_of_a_token_is_retried() -> None:
    async with world(FILLER) as found:
        await found.create("serviceaccounts", account())
        found.quota.refuse_once("update", "secrets", 500, "InternalError", "broken")
        await found.create("secrets", token_secret())
        await found.settle(2 * SECOND)
        assert "token" in await data_of(found)


async def test_secret_of_another_type_is_left_alone() -> None:
    async with world(FILLER) as found:
        await found.create("secrets", {**token_secret(owner="absent"), "type": "Opaque"})
        await found.settle(2 * SECOND)
        assert await data_of(found) == {}


# --- bootstrap tokens -----------------------------------------------------------------------------


def bootstrap_secret(identity: str = "abcdef", expiration: str = "") -> Obj:
    data = {
        "token-id": identity,
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-signing": "true",
        "expiration": expiration,
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"bootstrap-token-{identity}"},
        "type": N.secret_type_bootstrap_token,
        "data": {key: b64encode(value.encode()).decode() for key, value in data.items()},
    }


async def stored_names(found: World) -> list[str]:
    return [obj["metadata"]["name"] for obj in await found.stored("secrets", SYSTEM)]


async def test_expired_bootstrap_token_is_deleted_at_its_time() -> None:
    async with world(["tokencleaner"], controllers=("tokencleaner",)) as found:
        ends = format_time(found.kernel.epoch_us + found.kernel.now_us + MINUTE)
        await found.create("secrets", bootstrap_secret(expiration=ends), SYSTEM)
        await found.create("secrets", bootstrap_secret("zzzzzz"), SYSTEM)
        await found.settle(MINUTE - 2 * SECOND)
        assert await stored_names(found) == ["bootstrap-token-abcdef", "bootstrap-token-zzzzzz"]
        await found.settle(3 * SECOND)
        assert await stored_names(found) == ["bootstrap-token-zzzzzz"]


async def test_bootstrap_token_controllers_are_off_by_default() -> None:
    async with world(["tokencleaner", "bootstrapsigner"]) as found:
        await found.create("secrets", bootstrap_secret(expiration="2000-01-01T00:00:00Z"), SYSTEM)
        await found.settle(2 * SECOND)
        assert await stored_names(found) == ["bootstrap-token-abcdef"]


async def test_cluster_info_is_signed_by_the_present_tokens() -> None:
    async with world(["bootstrapsigner"], controllers=("bootstrapsigner",)) as found:
        info = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": N.config_map_cluster_info},
            "data": {N.cluster_info_config: "clusters: []"},
        }
        await found.create("configmaps", info, PUBLIC)
        await found.create("secrets", bootstrap_secret(), SYSTEM)
        await found.settle(2 * SECOND)
        signature = f"{N.cluster_info_signature_prefix}abcdef"
        (stored,) = await found.stored("configmaps", PUBLIC)
        assert ".." in stored["data"][signature]
        reply = await found.plane.ask("delete", "secrets", SYSTEM, "bootstrap-token-abcdef")
        assert reply.ok
        await found.settle(2 * SECOND)
        (stored,) = await found.stored("configmaps", PUBLIC)
        assert stored["data"] == {N.cluster_info_config: "clusters: []"}
