"""Options of authentication: each set to an unusual value, and its effect on clients of a served
cluster.
"""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from sim.api.auth.keys import SigningKey
from sim.api.auth.web_tokens import parse_token
from sim.app.cluster import Cluster
from sim.app.serving.configs.clients import ClientConfig, parse_client_configs
from sim.app.serving.identities import Files
from sim.errors import InputError
from sim.options.apiserver.server import parse_api_server
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from tests.actor.identities import CORE, N, World, certificates, key, world

API = "https://kubernetes.default.svc.cluster.local"
ACCOUNT = "system:serviceaccount:default:a"


def written(folder: Path, name: str, data: bytes) -> str:
    path = folder / name
    path.write_bytes(data)
    return str(path)


async def claims(here: World, **spec: Any) -> dict[str, Any]:
    await here.account()
    parsed = parse_token(await here.token(**spec))
    assert parsed is not None
    return parsed.claims


@pytest.mark.parametrize(("given", "who"), [("true", "system:anonymous"), ("false", "401")])
async def test_anonymous_auth_admits_requests_without_credentials(
    tmp_path: Path, given: str, who: str
) -> None:
    async with world(tmp_path, {"anonymous-auth": given}) as here:
        assert await here.who(here.client()) == who


async def test_client_ca_file_admits_certificates_of_its_authorities(tmp_path: Path) -> None:
    others = certificates("other-ca")
    file = written(tmp_path, "ca.pem", others.pem)
    async with world(tmp_path, {"client-ca-file": file}, others.pem) as here:
        assert await here.who(here.client(pair=others.client("carl", ("dev",)))) == "carl"


async def test_token_auth_file_admits_its_users(tmp_path: Path) -> None:
    file = written(tmp_path, "tokens.csv", b'secret,carl,u,"dev,ops"\n')
    async with world(tmp_path, {"token-auth-file": file}) as here:
        assert await here.who(here.client("secret")) == "carl"
        user = (await here.review("secret"))["user"]
        assert user == {"username": "carl", "uid": "u", "groups": ["dev", "ops", "system:authenticated"]}


@pytest.mark.parametrize(("given", "who"), [("true", "system:bootstrap:abcdef"), ("false", "401")])
async def test_enable_bootstrap_token_auth_admits_tokens_of_secrets(
    tmp_path: Path, given: str, who: str
) -> None:
    data = {
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true",
    }
    secret = {
        "metadata": {"name": "bootstrap-token-abcdef"},
        "type": "bootstrap.kubernetes.io/token",
        "data": {name: b64encode(value.encode()).decode() for name, value in data.items()},
    }
    async with world(tmp_path, {"enable-bootstrap-token-auth": given}) as here:
        made = await here.root.post("/api/v1/namespaces/kube-system/secrets", json=secret)
        assert made.status_code == 201
        assert await here.who(here.client("abcdef.0123456789abcdef")) == who


async def test_api_audiences_are_those_of_tokens_that_the_api_accepts(tmp_path: Path) -> None:
    async with world(tmp_path, {"api-audiences": "api,other"}) as here:
        assert (await claims(here))["aud"] == ["api", "other"]
        assert await here.who(here.client(await here.token(audiences=["other", "x"]))) == ACCOUNT
        assert await here.who(here.client(await here.token(audiences=[API]))) == "401"
        assert (await here.review("root"))["audiences"] == ["api", "other"]


async def test_service_account_issuer_names_the_issuers(tmp_path: Path) -> None:
    async with world(tmp_path, {"service-account-issuer": "https://new,https://old"}) as here:
        found = await claims(here)
        assert (found["iss"], found["aud"]) == ("https://new", ["https://new", "https://old"])
        for issuer, who in (("https://old", ACCOUNT), ("https://other", "401")):
            assert await here.who(here.client(key().token({**found, "iss": issuer}))) == who


async def test_issuer_without_https_publishes_no_documents(tmp_path: Path) -> None:
    async with world(tmp_path, {"service-account-issuer": "cluster"}) as here:
        assert (await here.root.get("/.well-known/openid-configuration")).status_code == 404
        assert (await claims(here))["iss"] == "cluster"


async def test_tokens_of_an_older_key_are_valid_while_its_file_is_listed(tmp_path: Path) -> None:
    new, old = (written(tmp_path, f"{number}.pem", key(number).pem) for number in (1, 2))
    signing = {"service-account-signing-key-file": new}
    async with world(tmp_path, {**signing, "service-account-key-file": f"{new},{old}"}) as here:
        found = await claims(here)
        assert await here.who(here.client(await here.token())) == ACCOUNT
        assert await here.who(here.client(key(2).token(found))) == ACCOUNT
        keys = (await here.root.get("/openid/v1/jwks", headers={"Accept": "*/*"})).json()["keys"]
        assert [each["kid"] for each in keys] == [key(1).public.key_id, key(2).public.key_id]
    async with world(tmp_path, {**signing, "service-account-key-file": new}) as here:
        found = await claims(here)
        assert await here.who(here.client(key(2).token(found))) == "401"


async def test_service_account_jwks_uri_is_where_the_keys_are(tmp_path: Path) -> None:
    async with world(tmp_path, {"service-account-jwks-uri": "https://keys/x"}) as here:
        found = await here.root.get("/.well-known/openid-configuration")
        assert found.json()["jwks_uri"] == "https://keys/x"


@pytest.mark.parametrize(("given", "lives_s"), [("true", 365 * 24 * 3600), ("false", 3607)])
async def test_extended_expiration_lets_tokens_of_pods_live_for_a_year(
    tmp_path: Path, given: str, lives_s: int
) -> None:
    async with world(tmp_path, {"service-account-extend-token-expiration": given}) as here:
        await here.account()
        spec = {"serviceAccountName": "a", "containers": [{"name": "c", "image": "i"}]}
        await here.root.post(f"{CORE}/pods", json={"metadata": {"name": "p"}, "spec": spec})
        bound = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
        found = await claims(here, expirationSeconds=3607, boundObjectRef=bound)
        assert found["exp"] - found["iat"] == lives_s


async def test_longest_expiration_shortens_tokens(tmp_path: Path) -> None:
    async with world(tmp_path, {"service-account-max-token-expiration": "1h"}) as here:
        found = await claims(here, expirationSeconds=7200)
        assert found["exp"] - found["iat"] == 3600


async def test_options_of_front_proxies_name_their_headers(tmp_path: Path) -> None:
    proxies = certificates("front")
    flags = {
        "requestheader-client-ca-file": written(tmp_path, "front.pem", proxies.pem),
        "requestheader-allowed-names": "p,q",
        "requestheader-username-headers": "X-A,X-B",
        "requestheader-group-headers": "X-G",
        "requestheader-extra-headers-prefix": "X-E-",
    }
    async with world(tmp_path, flags, proxies.pem) as here:
        for name, header, who in (("p", "x-b", "carl"), ("q", "X-A", "carl"), ("r", "X-A", "401")):
            assert await here.who(here.client(pair=proxies.client(name, ())), [(header, "carl")]) == who
        masters = [("X-A", "carl"), ("X-G", N.group_masters)]
        assert await here.who(here.client(pair=proxies.client("p", ())), masters) == "admin"


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (
            {"service-account-signing-key-file": "x"},
            "service-account-signing-key-file needs service-account-key-file",
        ),
        ({"service-account-max-token-expiration": "30m"}, "must be between 1 hour and 2^32 seconds"),
        ({"service-account-issuer": "a,a"}, "'a' is already specified"),
        ({"service-account-jwks-uri": "http://keys"}, "requires https scheme"),
        (
            {"requestheader-allowed-names": "p"},
            "requestheader-allowed-names has no effect without requestheader-client-ca-file",
        ),
    ],
)
def test_value_that_upstream_refuses_is_an_error(flags: dict[str, str], problem: str) -> None:
    with pytest.raises(InputError) as met:
        parse_api_server(flags)
    assert problem in str(met.value)


@pytest.mark.parametrize(
    "option",
    [
        "client-ca-file",
        "requestheader-client-ca-file",
        "service-account-key-file",
        "token-auth-file",
    ],
)
@pytest.mark.parametrize("content", [None, b"\xff"])
def test_file_that_cannot_be_used_is_an_error_with_its_name(
    tmp_path: Path, option: str, content: bytes | None
) -> None:
    file = tmp_path / "file"
    if content is not None:
        file.write_bytes(content)
    plan = ClusterPlan(nodes=(), api_server=ComponentPlan(flags={option: str(file)}))
    with pytest.raises(InputError, match=str(file)):
        Files.read(Cluster(plan).options.authentication, SigningKey(key()._key))


# --- client configurations ------------------------------------------------------------------------


def test_client_configs_are_of_one_administrator_or_of_several_users() -> None:
    assert parse_client_configs("out/a,b") == (ClientConfig(Path("out/a,b")),)
    found = parse_client_configs("admin=a,alice=b,bob+dev+system:x=c")
    assert [(each.path.name, each.user(N).name, each.user(N).groups) for each in found] == [
        ("a", "admin", ("system:masters",)),
        ("b", "alice", ()),
        ("c", "bob", ("dev", "system:x")),
    ]


@pytest.mark.parametrize("text", ["a=", "=f", "a=f,g", "a+=f", "a=f,a=g", f"{'a' * 65}=f", "a\n=f"])
def test_client_configs_that_name_no_identity_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no|is named twice"):
        parse_client_configs(text)
