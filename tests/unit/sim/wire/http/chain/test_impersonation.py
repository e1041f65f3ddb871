"""Impersonation: what the headers ask for, the rights that it needs, and the user that results."""

from __future__ import annotations

import pytest

from sim.api.auth.attributes import NO_OPINION, AccessAttributes, Opinion
from sim.api.auth.chain import ALLOWED, Chain
from sim.api.types import UserInfo
from sim.ident import NAMES
from sim.wire.http.chain.impersonation import Impersonation, impersonated

N = NAMES["kubernetes"]
ROOT = UserInfo("root", (N.group_masters,))
ALICE = UserInfo("alice", (N.group_authenticated,))
WANTED = Impersonation("bob", ("dev", "ops"), "u", (("scopes", "a"), ("scopes", "b")))


class Listed:
    """An authorizer that allows listed attributes and keeps all that it was given."""

    def __init__(self, *refused: str) -> None:
        self.refused = refused
        self.asked: list[str] = []

    def authorize(self, user: UserInfo, attributes: AccessAttributes) -> Opinion:
        assert (user, attributes.verb) == (ALICE, "impersonate")
        resource = f"{attributes.resource}/{attributes.subresource}".rstrip("/")
        text = f"{attributes.namespace}:{resource}.{attributes.group}:{attributes.name}"
        self.asked.append(text)
        return NO_OPINION if text in self.refused else ALLOWED


RIGHTS = [
    ":users.:bob",
    ":groups.:dev",
    ":groups.:ops",
    ":userextras/scopes.authentication.k8s.io:a",
    ":userextras/scopes.authentication.k8s.io:b",
    ":uids.authentication.k8s.io:u",
]


def test_each_part_is_a_right_of_its_own() -> None:
    authorizer = Listed()
    acted = impersonated(N, authorizer, ALICE, WANTED)
    assert authorizer.asked == RIGHTS
    assert acted == UserInfo("bob", ("dev", "ops", N.group_authenticated), "u", {"scopes": ("a", "b")})


@pytest.mark.parametrize("place", range(len(RIGHTS)))
def test_missing_right_to_one_part_is_forbidden(place: int) -> None:
    authorizer = Listed(RIGHTS[place])
    refused = impersonated(N, authorizer, ALICE, WANTED)
    assert isinstance(refused, dict)
    assert refused["code"] == 403
    assert authorizer.asked == RIGHTS[: place + 1]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (
            Impersonation("bob"),
            'users "bob" is forbidden: User "alice" cannot impersonate resource "users" in API group "" '
            "at the cluster scope",
        ),
        (
            Impersonation("system:serviceaccount:ns:x"),
            'serviceaccounts "x" is forbidden: User "alice" cannot impersonate resource "serviceaccounts" '
            'in API group "" in the namespace "ns"',
        ),
    ],
)
def test_refusal_names_the_part(wanted: Impersonation, message: str) -> None:
    refused = impersonated(N, Chain(N, []), ALICE, wanted)
    assert isinstance(refused, dict)
    assert (refused["code"], refused["message"]) == (403, message)


@pytest.mark.parametrize(
    ("wanted", "acted"),
    [
        (Impersonation("bob", ("g",)), UserInfo("bob", ("g", N.group_authenticated))),
        (Impersonation("bob", (N.group_unauthenticated,)), UserInfo("bob", (N.group_unauthenticated,))),
        (Impersonation(N.user_anonymous), UserInfo(N.user_anonymous, (N.group_unauthenticated,))),
        (
            Impersonation(N.user_anonymous, (N.group_authenticated,)),
            UserInfo(N.user_anonymous, (N.group_authenticated, N.group_unauthenticated)),
        ),
        (
            Impersonation("system:serviceaccount:ns:x"),
            UserInfo(
                "system:serviceaccount:ns:x",
                ("system:serviceaccounts", "system:serviceaccounts:ns", N.group_authenticated),
            ),
        ),
        (
            Impersonation("system:serviceaccount:ns:x", ("g",)),
            UserInfo("system:serviceaccount:ns:x", ("g", N.group_authenticated)),
        ),
        (Impersonation("system:serviceaccount:ns:x:y"), None),
        (Impersonation("system:serviceaccount::x"), None),
    ],
)
def test_impersonated_user_has_the_groups_of_its_kind(wanted: Impersonation, acted: UserInfo | None) -> None:
    found = impersonated(N, Chain(N, []), ROOT, wanted)
    assert found == (acted or UserInfo(wanted.name, (N.group_authenticated,)))


def test_headers_ask_for_user_groups_uid_and_extra() -> None:
    headers = [("Impersonate-User", "bob"), ("impersonate-group", "a"), ("Impersonate-Group", "b")]
    headers += [
        ("Impersonate-Uid", "u"),
        ("Impersonate-Extra-Some%2fKey", "1"),
        ("Impersonate-Extra-Some%2FKey", "2"),
    ]
    wanted = Impersonation.of(headers)
    assert wanted == Impersonation("bob", ("a", "b"), "u", (("some/key", "1"), ("some/key", "2")))
    assert wanted.without_user(N) == Impersonation().without_user(N) == ""
    assert Impersonation.of(headers[1:]).without_user(N) == (
        "{Group  a    } {Group  b    } {UserExtra  1  authentication.k8s.io/v1  some/key} "
        "{UserExtra  2  authentication.k8s.io/v1  some/key} {UID  u  authentication.k8s.io/v1  }"
    )
