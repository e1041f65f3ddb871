"""The chain of authorizers: order, reasons, errors, and the texts of refusals."""

from __future__ import annotations

import pytest

from sim.api.auth.attributes import NO_OPINION, AccessAttributes, Decision, Opinion
from sim.api.auth.chain import (
    ALLOWED,
    AlwaysAllow,
    AlwaysDeny,
    Chain,
    RbacMember,
    UserRules,
    forbidden,
    refusal,
)
from sim.api.auth.rbac.authorizer import RbacAuthorizer
from sim.api.auth.rbac.source import RoleBook
from sim.api.types import UserInfo
from tests.unit.sim.api.auth.rbac.builders import NAMES_USED, binding, group, role, rule

ALICE = UserInfo("alice", ("dev",))
GET_POD = AccessAttributes("get", version="v1", resource="pods", namespace="ns", name="a")


class Fixed:
    """A member with one opinion."""

    def __init__(self, opinion: Opinion, rules: UserRules = UserRules()) -> None:
        self.opinion = opinion
        self.rules = rules
        self.asked = 0

    def authorize(self, user: UserInfo, attributes: AccessAttributes) -> Opinion:
        self.asked += 1
        return self.opinion

    def user_rules(self, user: UserInfo, namespace: str) -> UserRules:
        return self.rules

    def standing(self, user: UserInfo, namespace: str) -> object:
        return None


DENIED = Opinion(Decision.DENY, "not you")
UNSURE = Opinion(Decision.NO_OPINION, "no match", "role x is absent")


def test_first_member_with_an_opinion_decides() -> None:
    later = Fixed(ALLOWED)
    assert Chain(NAMES_USED, [Fixed(UNSURE), Fixed(DENIED), later]).authorize(ALICE, GET_POD) is DENIED
    assert later.asked == 0
    assert (
        Chain(NAMES_USED, [Fixed(UNSURE), Fixed(ALLOWED), Fixed(DENIED)]).authorize(ALICE, GET_POD) is ALLOWED
    )


def test_members_without_opinion_give_all_reasons_and_errors() -> None:
    chain = Chain(NAMES_USED, [Fixed(UNSURE), AlwaysDeny(), Fixed(NO_OPINION), Fixed(UNSURE)])
    assert chain.authorize(ALICE, GET_POD) == Opinion(
        Decision.NO_OPINION,
        "no match\nEverything is forbidden.\nno match",
        "[role x is absent, role x is absent]",
    )


def test_masters_are_allowed_before_any_member() -> None:
    member = Fixed(DENIED)
    root = UserInfo("root", (NAMES_USED.group_masters,))
    assert Chain(NAMES_USED, [member]).authorize(root, GET_POD) == ALLOWED
    assert member.asked == 0


def test_rules_of_all_members_are_listed_with_errors() -> None:
    book = RoleBook()
    book.put("clusterroles", role("reader", rule("get", "pods")))
    book.put("clusterrolebindings", binding("b", "reader", group("dev")))
    book.put("clusterrolebindings", binding("c", "absent", group("dev")))
    incomplete = Fixed(NO_OPINION, UserRules(incomplete=True, errors=("cannot list",)))
    chain = Chain(NAMES_USED, [AlwaysDeny(), incomplete, RbacMember(RbacAuthorizer(NAMES_USED, book))])
    rules = chain.user_rules(ALICE, "ns")
    assert rules.resource == ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},)
    assert rules.incomplete
    assert rules.errors == ("cannot list", 'clusterrole.rbac.authorization.k8s.io "absent" not found')
    assert chain.user_rules(UserInfo("bob"), "ns").resource == ()
    assert Chain(NAMES_USED, [AlwaysAllow()]).user_rules(ALICE, "ns").resource[0]["verbs"] == ["*"]


def test_users_with_equal_bindings_have_equal_standing() -> None:
    book = RoleBook()
    book.put("clusterroles", role("reader", rule("get", "pods")))
    book.put("clusterrolebindings", binding("b", "reader", group("dev")))
    chain = Chain(NAMES_USED, [AlwaysDeny(), RbacMember(RbacAuthorizer(NAMES_USED, book))])
    alice, bob, carl = (
        chain.standing(each, "ns") for each in (ALICE, UserInfo("bob", ("dev",)), UserInfo("carl"))
    )
    assert alice == bob
    assert alice != carl


@pytest.mark.parametrize(
    ("attributes", "reason", "text"),
    [
        (
            GET_POD,
            "",
            'pods "a" is forbidden: User "alice" cannot get resource "pods" in API group "" in the namespace "ns"',
        ),
        (
            AccessAttributes("list", group="apps", resource="deployments", subresource="scale"),
            "one\ntwo",
            'deployments.apps is forbidden: User "alice" cannot list resource "deployments/scale" in API group "apps" '
            "at the cluster scope: one\ntwo",
        ),
        (
            AccessAttributes("get", "/a<b>&c"),
            "",
            'forbidden: User "alice" cannot get path "/a&lt;b&gt;&amp;c"',
        ),
    ],
)
def test_refusal_names_user_verb_and_object(attributes: AccessAttributes, reason: str, text: str) -> None:
    body = forbidden(ALICE, attributes, reason)
    assert (body["code"], body["reason"], body["message"]) == (403, "Forbidden", text)


def test_opinion_becomes_status_403_or_500_or_none() -> None:
    assert refusal(ALICE, GET_POD, ALLOWED) is None
    denied, failed = refusal(ALICE, GET_POD, DENIED), refusal(ALICE, GET_POD, UNSURE)
    assert denied is not None
    assert failed is not None
    assert (denied["code"], denied["details"]) == (403, {"name": "a", "kind": "pods"})
    assert denied["message"].endswith(": not you")
    assert failed["code"] == 500
    assert "role x is absent" in failed["message"]
