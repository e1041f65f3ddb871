"""The RBAC authorizer: subjects, reasons, absent roles and what it keeps."""

from __future__ import annotations

from sim.api.auth.attributes import NO_OPINION, AccessAttributes, Decision, Opinion
from sim.api.auth.rbac import authorizer as authorizers
from sim.api.auth.rbac.authorizer import RbacAuthorizer
from sim.api.auth.rbac.source import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, RoleBook
from sim.api.types import Obj, UserInfo
from tests.unit.sim.api.auth.rbac.builders import NAMES_USED, account, binding, group, role, rule, user

GET_POD = AccessAttributes("get", resource="pods", namespace="ns", name="a")
ALICE = UserInfo("alice", ("dev", "system:authenticated"))


def book(**objects: list[Obj]) -> RoleBook:
    made = RoleBook()
    for resource, group_of in objects.items():
        for obj in group_of:
            made.put(resource, obj)
    return made


def judged(source: RoleBook, subject: UserInfo, attributes: AccessAttributes = GET_POD) -> Opinion:
    return RbacAuthorizer(NAMES_USED, source).authorize(subject, attributes)


READER = role("reader", rule("get", "pods"))


def allowed_by(text: str) -> Opinion:
    return Opinion(Decision.ALLOW, f"RBAC: allowed by {text}")


def test_cluster_binding_allows_by_group() -> None:
    source = book(clusterroles=[READER], clusterrolebindings=[binding("b", "reader", group("dev"))])
    assert judged(source, ALICE) == allowed_by(
        'ClusterRoleBinding "b" of ClusterRole "reader" to Group "dev"'
    )
    assert judged(source, UserInfo("dev")) == NO_OPINION


def test_role_binding_allows_in_its_namespace_only() -> None:
    local = role("r", rule("get", "pods"), namespace="ns")
    source = book(roles=[local], rolebindings=[binding("b", "r", user("alice"), namespace="ns", kind="Role")])
    assert judged(source, ALICE) == allowed_by('RoleBinding "b/ns" of Role "r" to User "alice"')
    assert judged(source, ALICE, AccessAttributes("get", resource="pods", namespace="other")) == NO_OPINION
    assert judged(source, ALICE, AccessAttributes("get", resource="pods")) == NO_OPINION


def test_service_account_is_matched_by_its_user_name() -> None:
    bot = UserInfo("system:serviceaccount:ns:bot")
    bindings = [binding("b", "reader", account("bot"), namespace="ns")]
    source = book(clusterroles=[READER], rolebindings=bindings)
    assert judged(source, bot) == allowed_by(
        'RoleBinding "b/ns" of ClusterRole "reader" to ServiceAccount "bot/ns"'
    )
    other = UserInfo("system:serviceaccount:other:bot")
    assert judged(source, other) == NO_OPINION
    elsewhere = [binding("b", "reader", account("bot", "other"), namespace="ns")]
    source = book(clusterroles=[READER], rolebindings=elsewhere)
    assert judged(source, other) == allowed_by(
        'RoleBinding "b/ns" of ClusterRole "reader" to ServiceAccount "bot/other"'
    )


def test_service_account_without_namespace_matches_nothing_in_a_cluster_binding() -> None:
    source = book(clusterroles=[READER], clusterrolebindings=[binding("b", "reader", account("bot"))])
    assert judged(source, UserInfo("system:serviceaccount::bot")) == NO_OPINION


def test_reason_names_the_first_subject_that_matches() -> None:
    bound = binding("b", "reader", user("bob"), group("dev"), user("alice"))
    source = book(clusterroles=[READER], clusterrolebindings=[bound])
    assert judged(source, ALICE).reason.endswith('to Group "dev"')


def test_absent_roles_are_the_reason_of_no_opinion() -> None:
    bindings = [binding("b", "gone", user("alice")), binding("c", "lost", user("alice"))]
    source = book(clusterrolebindings=bindings[:1])
    missing = 'clusterrole.rbac.authorization.k8s.io "gone" not found'
    assert judged(source, ALICE) == Opinion(Decision.NO_OPINION, f"RBAC: {missing}")
    source = book(clusterrolebindings=bindings)
    assert judged(source, ALICE).reason == (
        f'RBAC: [{missing}, clusterrole.rbac.authorization.k8s.io "lost" not found]'
    )


def test_absent_role_does_not_hide_other_bindings() -> None:
    bindings = [binding("b", "gone", user("alice")), binding("c", "reader", user("alice"))]
    source = book(clusterroles=[READER], clusterrolebindings=bindings)
    assert judged(source, ALICE).decision is Decision.ALLOW


def test_names_of_one_rule_do_not_hide_a_later_rule() -> None:
    source = book(
        clusterroles=[role("named", rule("get", "pods", names="a")), READER],
        clusterrolebindings=[binding("a", "named", user("alice")), binding("b", "reader", user("alice"))],
    )
    judge = RbacAuthorizer(NAMES_USED, source)
    assert 'ClusterRoleBinding "a"' in judge.authorize(ALICE, GET_POD).reason
    other = AccessAttributes("get", resource="pods", namespace="ns", name="z")
    assert 'ClusterRoleBinding "b"' in judge.authorize(ALICE, other).reason


def test_decision_follows_each_change_of_the_source() -> None:
    source = book(clusterroles=[READER])
    judge = RbacAuthorizer(NAMES_USED, source)
    assert judge.authorize(ALICE, GET_POD) == NO_OPINION
    source.put(CLUSTER_ROLE_BINDINGS, binding("b", "reader", user("alice")))
    assert judge.authorize(ALICE, GET_POD).decision is Decision.ALLOW
    source.put(CLUSTER_ROLES, role("reader", rule("list", "pods")))
    assert judge.authorize(ALICE, GET_POD) == NO_OPINION
    source.put(CLUSTER_ROLES, READER)
    assert judge.authorize(ALICE, GET_POD).decision is Decision.ALLOW
    source.remove(CLUSTER_ROLE_BINDINGS, "", "b")
    assert judge.authorize(ALICE, GET_POD) == NO_OPINION
    source.put(ROLES, role("r", rule("get", "pods"), namespace="ns"))
    source.put(ROLE_BINDINGS, binding("b", "r", user("alice"), namespace="ns", kind="Role"))
    assert judge.authorize(ALICE, GET_POD).decision is Decision.ALLOW
    source.remove(ROLES, "ns", "r")
    assert judge.authorize(ALICE, GET_POD).reason == 'RBAC: role.rbac.authorization.k8s.io "r" not found'


def test_users_with_the_same_bindings_share_their_grants() -> None:
    source = book(clusterroles=[READER], clusterrolebindings=[binding("b", "reader", group("nodes"))])
    judge = RbacAuthorizer(NAMES_USED, source)
    first, second = (UserInfo(name, ("nodes",)) for name in ("a", "b"))
    assert judge.grants(first, "ns") is judge.grants(second, "other")


def test_kept_answers_are_bounded() -> None:
    judge = RbacAuthorizer(NAMES_USED, book())
    for number in range(authorizers.KEPT_MAX + 1):
        judge.authorize(UserInfo(f"u{number}"), GET_POD)
    assert len(judge._by_user) == 1


def test_rules_for_lists_cluster_rules_first_and_absent_roles() -> None:
    source = book(
        clusterroles=[role("z", rule("get", "nodes"))],
        roles=[role("a", rule("get", "pods"), namespace="ns")],
        clusterrolebindings=[binding("z", "z", user("alice"))],
        rolebindings=[
            binding("a", "a", user("alice"), namespace="ns", kind="Role"),
            binding("b", "gone", user("alice"), namespace="ns", kind="Role"),
        ],
    )
    rules, errors = RbacAuthorizer(NAMES_USED, source).rules_for(ALICE, "ns")
    assert [granted.resources for granted in rules] == [("nodes",), ("pods",)]
    assert errors == ['role.rbac.authorization.k8s.io "gone" not found']
    _, errors = RbacAuthorizer(NAMES_USED, source, stored=True).rules_for(ALICE, "ns")
    assert errors == ['roles.rbac.authorization.k8s.io "gone" not found']


def test_a_book_counts_its_changes_and_lists_bindings_by_name() -> None:
    source = RoleBook()
    assert (source.generation, source.bindings("ns"), source.role("", "r")) == (0, [], None)
    source.put(CLUSTER_ROLES, READER)
    for name in ("b", "a"):
        source.put(ROLE_BINDINGS, binding(name, "reader", namespace="ns"))
    assert source.generation == 3
    assert [each["metadata"]["name"] for each in source.bindings("ns")] == ["a", "b"]
    assert source.role("", "reader") is READER
    source.remove(ROLE_BINDINGS, "ns", "a")
    source.remove(ROLE_BINDINGS, "none", "a")
    source.remove(CLUSTER_ROLES, "", "reader")
    source.remove(ROLES, "ns", "none")
    assert source.generation == 7
    assert [each["metadata"]["name"] for each in source.bindings("ns")] == ["b"]
    assert source.role("", "reader") is None


def test_subjects_match_by_kind_and_name() -> None:
    odd = [{"kind": "Robot", "name": "alice"}, {"name": "alice"}, {"kind": "Group", "name": "alice"}]
    bound = [binding("b", "reader", *odd), {**binding("c", "reader"), "subjects": None}]
    assert judged(book(clusterroles=[READER], clusterrolebindings=bound), ALICE) == NO_OPINION
    late = binding("b", "reader", *odd, group("system:authenticated"), user("alice"), group("dev"))
    reason = judged(book(clusterroles=[READER], clusterrolebindings=[late]), ALICE).reason
    assert reason.endswith('to Group "system:authenticated"')


def test_absent_roles_are_named_as_they_were_read() -> None:
    local = binding("b", "gone", user("alice"), namespace="ns", kind="Role")
    source = book(rolebindings=[local], clusterrolebindings=[binding("c", "lost", user("alice"))])
    for stored, plural in ((False, ""), (True, "s")):
        _, errors = RbacAuthorizer(NAMES_USED, source, stored).rules_for(ALICE, "ns")
        assert errors == [
            f'clusterrole{plural}.rbac.authorization.k8s.io "lost" not found',
            f'role{plural}.rbac.authorization.k8s.io "gone" not found',
        ]
    assert "clusterrole.rbac" in RbacAuthorizer(NAMES_USED, source).rules_for(ALICE, "")[1][0]


def test_the_first_binding_with_a_role_that_allows_is_the_reason() -> None:
    named = role("named", rule("get", "pods", names="b"))
    bindings = [
        binding("a", "named", user("alice")), binding("b", "reader", group("dev")), binding("c", "reader", user("alice")),
    ]  # fmt: skip
    source = book(clusterroles=[READER, named], clusterrolebindings=bindings)
    assert judged(source, ALICE).reason.startswith('RBAC: allowed by ClusterRoleBinding "b"')
    other = AccessAttributes("get", resource="pods", namespace="ns", name="b")
    assert judged(source, ALICE, other).reason.startswith('RBAC: allowed by ClusterRoleBinding "a"')
