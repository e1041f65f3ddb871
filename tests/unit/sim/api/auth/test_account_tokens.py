"""Tokens of service accounts: which are valid, and why the others are not."""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sim.api.auth.account_tokens import TokenRules, bound_claims
from sim.api.auth.authenticator import Accepted, Rejected
from sim.api.auth.keys import UNVERIFIED, VerifyingKeys, read_verifying_keys
from sim.api.auth.web_tokens import compact, encode
from sim.units import format_time
from tests.unit.sim.api.auth.tokens import API, NOW_S, RULES, N, World, forged, key

INVALIDATED = "service account token has been invalidated"


def test_bound_token_is_its_account_with_the_pod_as_extra() -> None:
    world = World()
    token = key().token(world.claims(("pods", world.pod)))
    found = world.tokens().authenticate(token, (API,))
    assert isinstance(found, Accepted)
    assert found.user.name == "system:serviceaccount:ns:a"
    assert found.user.uid == "uid-serviceaccounts-a"
    assert found.user.groups[:2] == ("system:serviceaccounts", "system:serviceaccounts:ns")
    assert found.user.extra == {
        "authentication.kubernetes.io/pod-name": ("p",),
        "authentication.kubernetes.io/pod-uid": ("uid-pods-p",),
    }
    assert found.audiences == (API,)


def test_token_of_another_key_is_rejected() -> None:
    world = World()
    token = key(1).token(world.claims())
    assert world.tokens().authenticate(token, (API,)) == Rejected((UNVERIFIED,))


def test_token_of_an_older_key_is_accepted_while_the_key_is_listed() -> None:
    world = World()
    token = key(1).token(world.claims())
    world.keys = VerifyingKeys([key().public, key(1).public])
    assert isinstance(world.tokens().authenticate(token, (API,)), Accepted)


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", "HS256", "ES256", "RS1"])
def test_token_with_another_algorithm_than_the_keys_is_rejected(algorithm: str) -> None:
    world = World()
    assert world.tokens().authenticate(forged({"alg": algorithm}, world.claims()), (API,)) == Rejected(
        (UNVERIFIED,)
    )


def test_token_signed_with_the_public_key_as_a_secret_is_rejected() -> None:
    world = World()
    (public,) = read_verifying_keys(key().pem)
    for form in (
        public._key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public._key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
    ):
        signed = compact({"alg": "HS256"}, world.claims())
        token = f"{signed}.{encode(hmac.digest(form, signed.encode(), sha256))}"
        assert world.tokens().authenticate(token, (API,)) == Rejected((UNVERIFIED,))


def test_changed_claims_are_rejected() -> None:
    world = World()
    head, _, signature = key().token(world.claims()).split(".")
    claims = compact({}, {**world.claims(), "sub": "system:serviceaccount:ns:root"}).split(".")[1]
    assert world.tokens().authenticate(f"{head}.{claims}.{signature}", (API,)) == Rejected((UNVERIFIED,))


@pytest.mark.parametrize(
    "token",
    ["", "x", "a.b", "a.b.c", "..", "a.b.c.d", "e30.e30.", "e30=.e30.e30", "e30.W10.x", "é.e30.x", "." * 5],
)
def test_text_that_is_no_token_of_the_issuer_is_left_to_others(token: str) -> None:
    assert World().tokens().authenticate(token, (API,)) is None


def test_token_for_another_audience_is_rejected() -> None:
    world = World()
    token = key().token(world.claims(audiences=("vault",)))
    why = f'token audiences ["vault"] is invalid for the target audiences ["{API}"]'
    assert world.tokens().authenticate(token, (API,)) == Rejected((why,))
    found = world.tokens().authenticate(token, ("x", "vault"))
    assert isinstance(found, Accepted)
    assert found.audiences == ("vault",)


def test_tokens_of_all_issuers_are_accepted_and_the_first_issues() -> None:
    world = World(TokenRules(("https://new", "https://old"), ("https://new",)))
    for issuer, accepted in (("https://old", True), ("https://other", False)):
        claims = bound_claims(N, issuer, world.account, None, ("https://new",), NOW_S, 3600)
        found = world.tokens().authenticate(key().token(claims), ("https://new",))
        assert isinstance(found, Accepted) is accepted
    assert world.rules.issuer == "https://new"


@pytest.mark.parametrize(
    ("now_s", "why"),
    [
        (NOW_S - 61, "service account token is not valid yet"),
        (NOW_S - 60, ""),
        (NOW_S + 3660, ""),
        (NOW_S + 3661, "service account token has expired"),
    ],
)
def test_token_is_valid_in_its_time_with_a_minute_of_leeway(now_s: int, why: str) -> None:
    world = World()
    token = key().token(world.claims())
    world.now_s = now_s
    found = world.tokens().authenticate(token, (API,))
    assert found == Rejected((why,)) if why else isinstance(found, Accepted)


def test_token_issued_in_the_future_is_rejected() -> None:
    world = World()
    token = key().token({**world.claims(), "iat": NOW_S + 61})
    found = world.tokens().authenticate(token, (API,))
    assert isinstance(found, Rejected)


@pytest.mark.parametrize(
    ("resource", "why_gone", "why_replaced"),
    [
        (
            "serviceaccounts",
            'serviceaccounts "a" not found',
            "service account UID (other) does not match claim (uid-serviceaccounts-a)",
        ),
        ("pods", INVALIDATED, "pod UID (other) does not match service account pod ref claim (uid-pods-p)"),
        (
            "secrets",
            INVALIDATED,
            "secret UID (other) does not match service account secret ref claim (uid-secrets-s)",
        ),
    ],
)
def test_token_ends_with_the_objects_that_it_names(resource: str, why_gone: str, why_replaced: str) -> None:
    world = World()
    name = {"serviceaccounts": "a", "pods": "p", "secrets": "s"}[resource]
    obj = world.objects[resource, "ns", name]
    bound = None if resource == "serviceaccounts" else (resource, obj)
    token = key().token(world.claims(bound))
    assert isinstance(world.tokens().authenticate(token, (API,)), Accepted)
    world.add(resource, name)["metadata"]["uid"] = "other"
    assert world.tokens().authenticate(token, (API,)) == Rejected((why_replaced,))
    del world.objects[resource, "ns", name]
    assert world.tokens().authenticate(token, (API,)) == Rejected((why_gone,))


@pytest.mark.parametrize(("deleted_s", "valid"), [(60, True), (61, False)])
def test_token_of_a_deleted_account_is_valid_for_a_minute(deleted_s: int, valid: bool) -> None:
    world = World()
    token = key().token(world.claims())
    world.account["metadata"]["deletionTimestamp"] = format_time((NOW_S - deleted_s) * 1_000_000)
    found = world.tokens().authenticate(token, (API,))
    deleted = Rejected(("service account ns/a has been deleted",))
    assert isinstance(found, Accepted) if valid else found == deleted


@pytest.mark.parametrize("claim", [{"exp": "soon"}, {"kubernetes.io": []}, {"kubernetes.io": {"pod": 1}}])
def test_claims_of_wrong_types_are_rejected(claim: dict[str, Any]) -> None:
    world = World()
    token = key().token({**world.claims(), **claim})
    assert isinstance(world.tokens().authenticate(token, (API,)), Rejected)


# --- legacy tokens --------------------------------------------------------------------------------


def test_legacy_token_is_valid_while_its_secret_holds_it() -> None:
    world = World()
    token = world.legacy()
    found = world.tokens(legacy=True).authenticate(token, (API,))
    assert isinstance(found, Accepted)
    assert found.user.name == "system:serviceaccount:ns:a"
    assert world.tokens().authenticate(token, (API,)) is None
    world.secret["data"] = {"token": "b3RoZXI="}
    why = Rejected(("Token does not match server's copy",))
    assert world.tokens(legacy=True).authenticate(token, (API,)) == why
    del world.objects["secrets", "ns", "s"]
    assert world.tokens(legacy=True).authenticate(token, (API,)) == Rejected(("Token has been invalidated",))


def test_legacy_token_is_for_the_audiences_of_the_api_only() -> None:
    world = World()
    token = world.legacy()
    assert isinstance(world.tokens(legacy=True).authenticate(token, ("vault",)), Rejected)


def test_legacy_token_without_a_claim_or_with_another_subject_is_rejected() -> None:
    world = World()
    world.legacy()
    whole = {
        "iss": N.issuer_legacy_service_account,
        "sub": "system:serviceaccount:ns:a",
        N.claim_legacy_namespace: "ns",
        N.claim_legacy_secret: "s",
        N.claim_legacy_account: "a",
        N.claim_legacy_uid: "uid-serviceaccounts-a",
    }
    for claims, why in (
        ({**whole, "sub": ""}, "sub claim is missing"),
        ({**whole, N.claim_legacy_uid: ""}, "serviceAccountUID claim is missing"),
        ({**whole, "sub": "system:serviceaccount:ns:b"}, "sub claim is invalid"),
        ({**whole, N.claim_legacy_account: "b"}, "sub claim is invalid"),
        (whole | {"x": 1}, "Token does not match server's copy"),
    ):
        found = world.tokens(legacy=True).authenticate(key().token(claims), (API,))
        assert found == Rejected((why,))


def test_rules_of_a_cluster_without_options_name_the_service_of_the_api() -> None:
    assert RULES.issuer == "https://kubernetes.default.svc.cluster.local"
    assert RULES.audiences == (RULES.issuer,)


def test_accepted_tokens_are_counted_by_whether_they_should_have_been_replaced() -> None:
    world, counted = World(), list[str]()

    def authenticate(token: str, legacy: bool = False) -> None:
        tokens = world.tokens(legacy)
        tokens.counted = counted.append
        tokens.authenticate(token, (API,))

    authenticate(key().token(world.claims()))
    assert counted == []  # it says nothing about its replacement
    token = key().token(bound_claims(N, API, world.account, None, (API,), NOW_S, 7200, 3600))
    authenticate(token)
    world.now_s += 3601
    authenticate(token)
    authenticate(world.legacy(), legacy=True)
    authenticate(token + "x")
    assert counted == ["valid", "stale", "legacy"]
