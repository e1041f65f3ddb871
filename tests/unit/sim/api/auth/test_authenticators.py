"""Authenticators: first success, errors of bad credentials, and identities that no trick gives."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from sim.api.auth.authenticator import (
    Accepted,
    AudienceAgnostic,
    Authenticator,
    Certificate,
    Credentials,
    Outcome,
    Rejected,
)
from sim.api.auth.authenticators.bootstrap_tokens import BootstrapTokens
from sim.api.auth.authenticators.client_certificates import ClientCertificates
from sim.api.auth.authenticators.front_proxy import FrontProxy, ProxyHeaders
from sim.api.auth.authenticators.token_file import StaticTokens, parse_users
from sim.api.types import UserInfo
from sim.errors import InputError
from sim.units import SECOND, format_time
from tests.unit.sim.api.auth.tokens import API, N, World, key

HEADERS = ProxyHeaders(("proxy",), ("X-Remote-User",), ("X-Remote-Group",), ("X-Remote-Extra-",))
PROXY = Certificate("proxy", client_ca=False, front_proxy_ca=True, identifier="SN=1")
ANONYMOUS = UserInfo("system:anonymous", ("system:unauthenticated",))
ALICE = UserInfo("alice", ("dev", "system:authenticated"))


def union(world: World, headers: ProxyHeaders = HEADERS, anonymous: bool = True) -> Authenticator:
    static = StaticTokens({"t": UserInfo("alice", ("dev",))})
    return Authenticator(
        N,
        [FrontProxy(headers, world.wall_us).authenticate, ClientCertificates(world.wall_us).authenticate],
        [
            AudienceAgnostic((API,), static.authenticate).authenticate,
            world.tokens(legacy=True).authenticate,
            world.tokens().authenticate,
        ],
        (API,),
        anonymous=anonymous,
    )


def identified(*headers: tuple[str, str], certificate: Certificate | None = None, **kinds: Any) -> Any:
    """The user, or the text of the errors."""
    found = union(World(), **kinds).identify(Credentials(headers, certificate))
    return found.user if isinstance(found, Accepted) else found.text


# --- tokens ---------------------------------------------------------------------------------------


def test_credentials_are_distinguished_from_none_and_from_invalid_ones() -> None:
    assert identified(("authorization", "Bearer t")) == ALICE
    assert identified(("authorization", " bearer t ")) == ALICE
    for nothing in ("", "Bearer", "Bearer  t", "Basic dDp0"):
        assert identified(("authorization", nothing)) == ANONYMOUS
    assert identified() == ANONYMOUS
    assert identified(("authorization", "Bearer x")) == "invalid bearer token"


def test_second_authorization_header_does_not_count() -> None:
    assert identified(("authorization", "Bearer x"), ("authorization", "Bearer t")) == "invalid bearer token"


def test_error_of_an_issuer_follows_that_of_the_loopback_token() -> None:
    world = World()
    token = key(1).token(world.claims())
    found = union(world).review(token, ())
    assert isinstance(found, Rejected)
    assert found.text == "[invalid bearer token, square/go-jose: error in cryptographic primitive]"


def test_request_without_credentials_is_refused_where_anonymous_is_off() -> None:
    assert identified(anonymous=False) == ""
    assert identified(("authorization", "Bearer t"), anonymous=False) == ALICE


def test_review_of_a_static_token_knows_the_audience_of_the_api_only() -> None:
    who = union(World())
    assert who.review("t", ()) == Accepted(ALICE, (API,))
    assert who.review("t", ("x", API)) == Accepted(ALICE, (API,))
    assert who.review("t", ("x",)) == Rejected(("invalid bearer token", "invalid bearer token"))


@pytest.mark.parametrize("groups", [("system:authenticated",), ("system:unauthenticated",)])
def test_group_of_authenticated_users_is_added_once(groups: tuple[str, ...]) -> None:
    def one(token: str, audiences: tuple[str, ...]) -> Outcome:
        return Accepted(UserInfo("u", groups))

    assert Authenticator(N, [], [one]).review("t", ()) == Accepted(UserInfo("u", groups))


def test_token_file_is_read_as_upstreams() -> None:
    text = 't1,admin,u1,"system:masters,dev"\n\n# x\nt2,alice,u2\n'
    assert parse_users(text, "f") == {
        "t1": UserInfo("admin", ("system:masters", "dev"), "u1"),
        "t2": UserInfo("alice", (), "u2"),
    }
    with pytest.raises(InputError, match="f:1: a line needs token, user and uid"):
        parse_users("t1,admin\n", "f")


# --- certificates ---------------------------------------------------------------------------------


def test_certificate_is_tried_before_the_token() -> None:
    bob = Certificate("bob", ("ops",))
    assert identified(("authorization", "Bearer x"), certificate=bob).name == "bob"
    assert identified(certificate=bob).groups == ("ops", "system:authenticated")


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"valid_until_us": 1}, "x509: certificate has expired or is not yet valid"),
        ({"valid_from_us": 1 << 60}, "x509: certificate has expired or is not yet valid"),
        ({"client_ca": False}, "x509: certificate signed by unknown authority"),
        ({"for_clients": False}, "x509: certificate specifies an incompatible key usage"),
    ],
)
def test_certificate_that_is_not_valid_is_an_error(fields: dict[str, Any], why: str) -> None:
    bob = Certificate("bob", identifier="SN=7", **fields)
    assert why in identified(certificate=bob)
    assert identified(("authorization", "Bearer t"), certificate=bob) == ALICE


def test_certificate_without_a_common_name_gives_no_identity() -> None:
    world = World()
    nameless = Credentials((), Certificate("", ("system:masters",)))
    assert ClientCertificates(world.wall_us).authenticate(nameless) is None


# --- front proxies --------------------------------------------------------------------------------

ROOT = (("x-remote-user", "root"), ("x-remote-group", "system:masters"))


def test_front_proxy_states_user_groups_and_extra() -> None:
    headers = [
        ("x-remote-user", "carl"),
        ("x-remote-user", "dora"),
        ("x-remote-group", "g"),
        ("x-remote-group", ""),
        ("x-remote-group", "h"),
        ("x-remote-extra-acme.com%2fscope", "1"),
        ("x-remote-extra-acme.com%2Fscope", "2"),
    ]
    found = identified(*headers, certificate=PROXY)
    assert found == UserInfo("carl", ("g", "h", "system:authenticated"), "", {"acme.com/scope": ("1", "2")})


@pytest.mark.parametrize(
    ("certificate", "why"),
    [
        (Certificate("proxy", client_ca=False), "unknown authority"),
        (Certificate("proxy", client_ca=False, front_proxy_ca=True, valid_until_us=1), "expired"),
        (Certificate("mallory", client_ca=False, front_proxy_ca=True), "is not in the allowed list"),
        (Certificate("proxy", client_ca=False, front_proxy_ca=True, for_clients=False), "key usage"),
    ],
)
def test_headers_of_a_false_proxy_are_an_error(certificate: Certificate, why: str) -> None:
    assert why in identified(*ROOT, certificate=certificate)


def test_headers_of_a_front_proxy_mean_nothing_without_its_certificate() -> None:
    assert identified(*ROOT) == ANONYMOUS
    assert identified(*ROOT, ("authorization", "Bearer t")) == ALICE
    # A certificate of a client is no certificate of a proxy, also with the proxy's name.
    assert identified(*ROOT, certificate=Certificate("proxy")).name == "proxy"
    assert identified(*ROOT, certificate=Certificate("bob")) == UserInfo("bob", ("system:authenticated",))


@pytest.mark.parametrize("name", ["x_remote_user", "x-remote-user ", "x-remote--user", "xremoteuser"])
def test_headers_with_similar_names_are_not_those_of_a_front_proxy(name: str) -> None:
    assert "unknown authority" in identified((name, "root"), certificate=PROXY)


def test_any_name_is_allowed_where_none_is_listed() -> None:
    any_name = ProxyHeaders((), ("a", "b"))
    other = Certificate("other", client_ca=False, front_proxy_ca=True)
    assert identified(("b", "carl"), ("a", ""), certificate=other, headers=any_name).name == "carl"


# --- bootstrap tokens -----------------------------------------------------------------------------

GOOD = {
    "token-id": "abcdef",
    "token-secret": "0123456789abcdef",
    "usage-bootstrap-authentication": "true",
    "auth-extra-groups": "system:bootstrappers:b,system:bootstrappers:a",
}


def bootstrap(
    token: str = "abcdef.0123456789abcdef", kind: str = "bootstrap.kubernetes.io/token", **data: str
) -> Outcome:
    world = World()
    named = {key: b64encode(value.encode()).decode() for key, value in {**GOOD, **data}.items() if value}
    secret = world.add("secrets", "bootstrap-token-abcdef", "kube-system", type=kind, data=named)
    if data.get("deleted"):
        secret["metadata"]["deletionTimestamp"] = format_time(world.wall_us())
    return BootstrapTokens(N, world.find, world.wall_us).authenticate(token, ())


def test_bootstrap_token_is_a_user_with_sorted_groups() -> None:
    groups = ("system:bootstrappers", "system:bootstrappers:a", "system:bootstrappers:b")
    assert bootstrap() == Accepted(UserInfo("system:bootstrap:abcdef", groups))
    assert bootstrap(**{"auth-extra-groups": ""}) == Accepted(
        UserInfo("system:bootstrap:abcdef", ("system:bootstrappers",))
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"token": "abcdef.0123456789abcdeX"},
        {"token": "abcdef.0123456789abcdee"},
        {"token": "abcdee.0123456789abcdef"},
        {"token": "abcdef.0123456789abcdef\n"},
        {"kind": "Opaque"},
        {"token-id": "abcdee"},
        {"token-secret": ""},
        {"usage-bootstrap-authentication": "yes"},
        {"usage-bootstrap-authentication": ""},
        {"auth-extra-groups": "system:masters"},
        {"auth-extra-groups": "system:bootstrappers:a,"},
        {"expiration": "soon"},
        {"expiration": format_time(World().wall_us())},
        {"deleted": "yes"},
    ],
)
def test_bootstrap_token_that_is_not_valid_is_no_user(fields: dict[str, str]) -> None:
    assert bootstrap(**fields) is None


def test_bootstrap_token_is_valid_until_it_expires() -> None:
    later = format_time(World().wall_us() + SECOND)
    assert isinstance(bootstrap(expiration=later), Accepted)


# --- WebSocket ------------------------------------------------------------------------------------

PREFIX = "base64url.bearer.authorization.k8s.io."
UPGRADE = (("connection", "keep-alive, Upgrade"), ("upgrade", "websocket"))


def by_protocol(*protocols: str, upgrade: Any = UPGRADE) -> Any:
    return identified(*upgrade, ("sec-websocket-protocol", ", ".join(protocols)))


def test_token_of_a_websocket_client_is_a_subprotocol() -> None:
    assert by_protocol(f"{PREFIX}dA", "v4.channel") == ALICE  # dA: base64url of t
    assert by_protocol("v4.channel") == ANONYMOUS
    assert by_protocol(f"{PREFIX}dA", "v4.channel", upgrade=()) == ANONYMOUS


@pytest.mark.parametrize(
    ("protocols", "why"),
    [
        ((f"{PREFIX}eA", "v4"), "invalid bearer token"),
        ((f"{PREFIX}dA",), "missing additional subprotocol"),
        ((f"{PREFIX}dA", f"{PREFIX}dA", "v4"), "multiple base64.bearer.authorization tokens specified"),
        ((f"{PREFIX}dA==", "v4"), "invalid base64.bearer.authorization token encoding"),
        ((f"{PREFIX}_w", "v4"), "invalid base64.bearer.authorization token"),
    ],
)
def test_subprotocol_without_a_good_token_is_an_error(protocols: tuple[str, ...], why: str) -> None:
    assert by_protocol(*protocols) == why


def test_remaining_life_of_an_accepted_certificate_is_counted() -> None:
    world, counted = World(), list[float]()
    certificates = ClientCertificates(world.wall_us)
    certificates.counted = counted.append
    until_us = world.wall_us() + 90_000_000
    certificates.authenticate(Credentials((), Certificate("bob", valid_until_us=until_us)))
    certificates.authenticate(Credentials((), Certificate("bob", valid_until_us=world.wall_us() - 1)))
    assert counted == [90.0]
