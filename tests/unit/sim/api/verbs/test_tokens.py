"""TokenRequests and TokenReviews: claims, bounds, bindings and texts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sim.api.auth.account_tokens import TokenRules
from sim.api.auth.authenticator import Authenticator
from sim.api.auth.authenticators.token_file import StaticTokens
from sim.api.auth.web_tokens import parse_token
from sim.api.types import Obj, Reply, UserInfo
from sim.api.verbs.call import Identities
from tests.unit.sim.api.golden_api import Api

BASE = "/api/v1/namespaces/golden-ns"
TOKEN = f"{BASE}/serviceaccounts/default/token"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
API = "https://kubernetes.default.svc.cluster.local"
NOW_S = 1_700_000_000


def with_rules(**fields: Any) -> Api:
    api = Api()
    api.registry = replace(api.registry, identities=Identities(TokenRules((API,), (API,), **fields)))
    return api


def claims(reply: Reply) -> Obj:
    assert reply.code == 201, reply.body
    token = parse_token(reply.body["status"]["token"])
    assert token is not None
    return token.claims


def pod(api: Api, name: str = "p", account: str = "default") -> Obj:
    spec = {"serviceAccountName": account, "containers": [{"name": "c", "image": "i"}]}
    spec["automountServiceAccountToken"] = False
    api.ask("POST", f"{BASE}/serviceaccounts", {"metadata": {"name": account}})
    reply = api.ask("POST", f"{BASE}/pods", {"metadata": {"name": name}, "spec": spec})
    assert reply.code == 201, reply.body
    return reply.obj


# --- requests -------------------------------------------------------------------------------------


def test_token_names_its_audience_and_expires_as_requested() -> None:
    api = Api()
    asked = {"spec": {"audiences": ["vault"], "expirationSeconds": 7200}}
    reply = api.ask("POST", TOKEN, asked)
    found = claims(reply)
    assert reply.body["status"]["token"] == api.ask("POST", TOKEN, asked).body["status"]["token"]
    uid = api.ask("GET", f"{BASE}/serviceaccounts/default").obj["metadata"]["uid"]
    assert found == {
        "aud": ["vault"],
        "exp": NOW_S + 7200,
        "iat": NOW_S,
        "iss": API,
        "kubernetes.io": {"namespace": "golden-ns", "serviceaccount": {"name": "default", "uid": uid}},
        "nbf": NOW_S,
        "sub": "system:serviceaccount:golden-ns:default",
    }
    assert reply.body["status"]["expirationTimestamp"] == "2023-11-15T00:13:20Z"


def test_token_is_for_the_api_and_an_hour_by_default() -> None:
    reply = Api().ask("POST", TOKEN, {"spec": {"expirationSeconds": None}})
    assert (claims(reply)["aud"], claims(reply)["exp"]) == ([API], NOW_S + 3600)
    assert reply.body["spec"]["audiences"] == [API]
    assert reply.body["metadata"]["name"] == "default"


@pytest.mark.parametrize(
    ("wanted_s", "why"),
    [(599, "may not specify a duration less than 10 minutes"), (2**32 + 1, "larger than 2^32 seconds")],
)
def test_expiration_out_of_bounds_is_refused(wanted_s: int, why: str) -> None:
    reply = Api().ask("POST", TOKEN, {"spec": {"expirationSeconds": wanted_s}})
    assert (reply.code, reply.body["details"]["causes"][0]["field"]) == (422, "spec.expirationSeconds")
    assert why in reply.message


def test_token_of_an_account_that_does_not_exist_is_not_found() -> None:
    reply = Api().ask("POST", f"{BASE}/serviceaccounts/none/token", {})
    assert (reply.code, reply.message) == (404, 'serviceaccounts "none" not found')


def test_name_in_the_body_must_be_that_of_the_account() -> None:
    reply = Api().ask("POST", TOKEN, {"metadata": {"name": "other"}})
    assert (reply.code, reply.message) == (
        422,
        'TokenRequest.authentication.k8s.io "default" is invalid: metadata.name: Invalid value: "other": '
        "must match the service account name if specified",
    )


def test_token_is_bound_to_a_pod_or_a_secret() -> None:
    api = Api()
    uid = pod(api)["metadata"]["uid"]
    api.ask("POST", f"{BASE}/secrets", {"metadata": {"name": "s"}})
    for kind, resource in (("Pod", "pods"), ("Secret", "secrets")):
        name = kind[0].lower()
        uid = api.ask("GET", f"{BASE}/{resource}/{name}").obj["metadata"]["uid"]
        reference = {"kind": kind, "apiVersion": "v1", "name": name, "uid": uid}
        found = claims(api.ask("POST", TOKEN, {"spec": {"boundObjectRef": reference}}))
        assert found["kubernetes.io"][kind.lower()] == {"name": name, "uid": uid}


def test_manager_owns_the_fields_of_the_reference_and_not_the_reference() -> None:
    api = Api()
    api.ask("POST", f"{BASE}/secrets", {"metadata": {"name": "s"}})
    reference = {"kind": "Secret", "name": "s"}
    reply = api.ask("POST", TOKEN, {"spec": {"boundObjectRef": reference}})
    (entry,) = reply.body["metadata"]["managedFields"]
    bound = {"f:kind": {}, "f:name": {}}
    assert entry["fieldsV1"] == {"f:spec": {"f:boundObjectRef": bound, "f:expirationSeconds": {}}}
    assert entry["subresource"] == "token"


@pytest.mark.parametrize(
    ("reference", "code", "message"),
    [
        ({"kind": "Pod", "name": "none"}, 404, 'pods "none" not found'),
        ({"kind": "Secret", "name": "none"}, 404, 'secrets "none" not found'),
        (
            {"kind": "Pod", "name": "q"},
            400,
            'cannot bind token for serviceaccount "default" to pod running with different serviceaccount name.',
        ),
        (
            {"kind": "Node", "apiVersion": "v1", "name": "n"},
            400,
            "cannot bind token to object of type /v1, Kind=Node",
        ),
        (
            {"kind": "Pod", "apiVersion": "acme.com/v1", "name": "p"},
            400,
            "cannot bind token to object of type acme.com/v1, Kind=Pod",
        ),
        (
            {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "x"},
            409,
            'Operation cannot be fulfilled on Pod "p": the UID in the bound object reference (x) does not match '
            "the UID in record. The object might have been deleted and then recreated",
        ),
    ],
)
def test_binding_that_is_impossible_is_refused(reference: Obj, code: int, message: str) -> None:
    api = Api()
    pod(api)
    pod(api, "q", "other")
    reply = api.ask("POST", TOKEN, {"spec": {"boundObjectRef": reference}})
    assert (reply.code, reply.message) == (code, message)


@pytest.mark.parametrize(
    ("extends", "audiences", "wanted_s", "lives_s"),
    [
        (True, [], 3607, 365 * 24 * 3600),
        (True, [API], 3607, 365 * 24 * 3600),
        (True, [], 3608, 3608),
        (True, [API, "vault"], 3607, 3607),
        (False, [], 3607, 3607),
    ],
)
def test_token_of_a_pod_for_3607_s_lives_a_year_and_says_when_it_is_stale(
    extends: bool, audiences: list[str], wanted_s: int, lives_s: int
) -> None:
    api = with_rules(extends=extends)
    pod(api)
    spec = {
        "expirationSeconds": wanted_s,
        "audiences": audiences,
        "boundObjectRef": {"kind": "Pod", "name": "p"},
    }
    reply = api.ask("POST", TOKEN, {"spec": spec})
    found = claims(reply)
    assert found["exp"] == NOW_S + lives_s
    stale = NOW_S + 3607 if lives_s != wanted_s else None
    assert found["kubernetes.io"].get("warnafter") == stale
    assert reply.body["spec"]["expirationSeconds"] == wanted_s
    assert reply.body["status"]["expirationTimestamp"].startswith("2023-11-14T23:13:2")


def test_token_without_a_pod_for_3607_s_lives_so_long() -> None:
    found = claims(Api().ask("POST", TOKEN, {"spec": {"expirationSeconds": 3607}}))
    assert found["exp"] == NOW_S + 3607


def test_longer_life_than_the_server_allows_is_shortened_with_a_warning() -> None:
    reply = with_rules(expiration_max_s=3600).ask("POST", TOKEN, {"spec": {"expirationSeconds": 7200}})
    assert claims(reply)["exp"] == NOW_S + 3600
    assert reply.warnings == ("requested expiration of 7200 seconds shortened to 3600 seconds",)


# --- reviews --------------------------------------------------------------------------------------


def reviewing() -> Api:
    api = Api()
    names = api.registry.names
    identities = Identities(TokenRules((API,), (API,)))
    alice = UserInfo("alice", ("dev",), "u1", {"acme.com/x": ("1",)})
    identities.authenticator = Authenticator(names, [], [StaticTokens({"t": alice}).authenticate], (API,))
    api.registry = replace(api.registry, identities=identities)
    return api


def test_review_shows_the_user_of_a_token() -> None:
    reply = reviewing().ask("POST", REVIEWS, {"spec": {"token": "t"}})
    assert reply.code == 201
    assert reply.body["status"] == {
        "authenticated": True,
        "user": {
            "username": "alice",
            "uid": "u1",
            "groups": ["dev", "system:authenticated"],
            "extra": {"acme.com/x": ["1"]},
        },
    }
    assert reply.body["metadata"]["creationTimestamp"] is None


def test_review_of_a_wrong_token_shows_the_error() -> None:
    reply = reviewing().ask("POST", REVIEWS, {"spec": {"token": "x"}})
    assert reply.code == 201
    assert reply.body["status"] == {"user": {}, "error": "invalid bearer token"}


def test_review_without_a_token_is_refused() -> None:
    reply = reviewing().ask("POST", REVIEWS, {"spec": {}})
    assert (reply.code, reply.message) == (400, "token is required for TokenReview in authentication")


def test_review_in_a_cluster_without_an_authenticator_is_empty() -> None:
    reply = Api().ask("POST", REVIEWS, {"spec": {"token": "x"}})
    assert reply.body["status"] == {"user": {}}


def test_review_keeps_of_a_sent_status_what_it_does_not_decide() -> None:
    api = reviewing()
    given = {"audiences": ["a"], "user": {"username": "u"}, "authenticated": True, "error": "e"}

    def status_for(token: str) -> Obj:
        reply = api.ask("POST", REVIEWS, {"spec": {"token": token}, "status": given})
        (owned,) = reply.body["metadata"]["managedFields"]
        assert owned["fieldsV1"]["f:status"]["f:user"] == {"f:username": {}}
        found: Obj = reply.body["status"]
        return found

    refused = status_for("bad")
    assert "authenticated" not in refused
    assert (refused["user"], refused["audiences"]) == (given["user"], ["a"])
    assert refused["error"] == "invalid bearer token"
    accepted = status_for("t")
    assert (accepted["user"]["username"], accepted["error"]) == ("alice", "e")
