"""Priority and fairness: flows, seats, hands of queues, and the order of requests."""

from __future__ import annotations

from typing import Any

import pytest

from actors.apiserver.builtin.bootstrap_flows import levels, schemas
from sim.api.fairness.classification import (
    FLOWS_MAX,
    Asked,
    Level,
    Plan,
    Queuing,
    Work,
    _is_covered,
    _is_path_covered,
    _is_subject,
    _rule_matches,
    deal,
    flow_hash,
    levels_of,
    list_work,
    write_work,
)
from sim.api.fairness.queues import QueueSet, Verdict
from sim.api.types import UserInfo
from sim.ident import NAMES
from sim.units import MS, SECOND

NAMES_K = NAMES["kubernetes"]
PLAN = Plan(NAMES_K, schemas(NAMES_K), levels(NAMES_K), 600)
MEMBER = ("system:authenticated",)
NODE = UserInfo("system:node:a", ("system:nodes", *MEMBER))
MANAGER = UserInfo("system:kube-controller-manager", MEMBER)
ACCOUNTS = "system:serviceaccounts"


def account(namespace: str, name: str) -> UserInfo:
    return UserInfo(
        f"system:serviceaccount:{namespace}:{name}", (ACCOUNTS, f"{ACCOUNTS}:{namespace}", *MEMBER)
    )


# --- levels and flows -----------------------------------------------------------------------------


def test_rule_matches_by_any_of_its_subjects_and_rules() -> None:
    subjects = [{"kind": "User", "user": {"name": name}} for name in ("a", "b")]
    resources = [
        {"verbs": ["get"], "apiGroups": [""], "resources": [name], "namespaces": ["*"]}
        for name in ("pods", "nodes")
    ]
    paths = [{"verbs": ["get"], "nonResourceURLs": [path]} for path in ("/healthz", "/metrics")]
    rule = {"subjects": subjects, "resourceRules": resources, "nonResourceRules": paths}
    for user in (UserInfo("a"), UserInfo("b"), UserInfo("c")):
        for resource, path in (("pods", ""), ("nodes", ""), ("", "/healthz"), ("", "/metrics")):
            asked = Asked(user, "get", "", resource, "default", path)
            assert _rule_matches(NAMES_K, rule, asked) == (user.name != "c")
    other = Asked(UserInfo("a"), "get", "", "events", "default")
    assert not _rule_matches(NAMES_K, rule, other)


def test_stored_level_without_shares_has_one() -> None:
    stored = [
        {"metadata": {"name": "a", "uid": "a"}, "spec": {"type": "Limited"}},
        {"metadata": {"name": "b", "uid": "b"}, "spec": {"type": "Limited", "limited": {}}},
    ]
    # beside the five shares of the catch-all level
    assert {name: level.limit for name, level in levels_of(stored, 70).items()} == {
        "a": 10,
        "b": 10,
        "catch-all": 50,
    }


def test_schema_matches_by_any_of_its_rules() -> None:
    rules = [
        {
            "subjects": [{"kind": "User", "user": {"name": name}}],
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}],
        }
        for name in ("a", "b")
    ]
    level = {"priorityLevelConfiguration": {"name": "workload-low"}, "matchingPrecedence": 1}
    schema = {"metadata": {"name": "mine"}, "spec": {**level, "rules": rules}}
    plan = Plan(NAMES_K, [schema], levels(NAMES_K), 600)
    flows = [plan.flow(Asked(UserInfo(name), "get", "", "pods", "default")).schema for name in "abc"]
    assert flows == ["mine", "mine", "catch-all"]


def test_the_seats_of_the_levels_are_upstreams() -> None:
    """Timing case 56."""
    found = levels_of(levels(NAMES_K), 600)
    assert {name: level.limit for name, level in found.items() if not level.exempt} == {
        "system": 74,
        "node-high": 98,
        "leader-election": 25,
        "workload-high": 98,
        "workload-low": 245,
        "global-default": 49,
        "catch-all": 13,
    }
    assert (found["exempt"].exempt, found["exempt"].limit) == (True, 0)
    assert found["catch-all"].queuing is None
    assert found["leader-election"].queuing == Queuing(16, 4, 50)


@pytest.mark.parametrize(
    ("user", "verb", "group", "resource", "namespace", "schema"),
    [
        (UserInfo("root", ("system:masters", *MEMBER)), "delete", "", "pods", "a", "exempt"),
        (NODE, "update", "coordination.k8s.io", "leases", "kube-node-lease", "system-node-high"),
        (NODE, "patch", "", "nodes/status", "", "system-node-high"),
        (NODE, "list", "", "pods", "", "system-nodes"),
        (MANAGER, "update", "coordination.k8s.io", "leases", "kube-system", "system-leader-election"),
        (MANAGER, "update", "", "endpoints", "a", "endpoint-controller"),
        (MANAGER, "patch", "", "pods", "a", "kube-controller-manager"),
        (UserInfo("system:kube-scheduler", MEMBER), "create", "", "pods/binding", "a", "kube-scheduler"),
        (account("kube-system", "x"), "get", "", "configmaps", "a", "workload-leader-election"),
        (account("kube-system", "x"), "watch", "", "pods", "", "kube-system-service-accounts"),
        (account("kube-systemx", "x"), "watch", "", "pods", "", "service-accounts"),
        (UserInfo("alice", MEMBER), "get", "", "pods", "a", "global-default"),
        (UserInfo("nobody"), "get", "", "pods", "a", "catch-all"),
    ],
)
def test_requests_are_classified_as_upstream_does(
    user: UserInfo, verb: str, group: str, resource: str, namespace: str, schema: str
) -> None:
    assert PLAN.flow(Asked(user, verb, group, resource, namespace)).schema == schema


def test_flows_are_distinguished_by_user_or_by_namespace() -> None:
    def hash_of(user: UserInfo, namespace: str) -> int:
        return PLAN.flow(Asked(user, "get", "", "pods", namespace)).hash

    alice, bob = UserInfo("alice", MEMBER), UserInfo("bob", MEMBER)
    assert hash_of(alice, "a") == hash_of(alice, "b") != hash_of(bob, "a")
    assert hash_of(MANAGER, "a") != hash_of(MANAGER, "b")


def test_a_schema_without_its_level_is_passed_over() -> None:
    plan = Plan(
        NAMES_K,
        schemas(NAMES_K),
        [one for one in levels(NAMES_K) if one["metadata"]["name"] != "system"],
        600,
    )
    assert plan.flow(Asked(NODE, "list", "", "pods")).schema == "global-default"


def test_remembered_flows_are_bounded() -> None:
    plan = Plan(NAMES_K, schemas(NAMES_K), levels(NAMES_K), 600)
    for number in range(FLOWS_MAX + 1):
        plan.flow(Asked(UserInfo(f"u{number}"), "get", "", "pods"))
    assert len(plan._flows) == 1


@pytest.mark.parametrize(
    ("subject", "matches"),
    [
        ({"kind": "User", "user": {"name": "alice"}}, True),
        ({"kind": "User", "user": {"name": "bob"}}, False),
        ({"kind": "User", "user": {"name": "*"}}, True),
        ({"kind": "Group", "group": {"name": "staff"}}, True),
        ({"kind": "Group", "group": {"name": "alice"}}, False),
        ({"kind": "Group", "group": {"name": "*"}}, True),
        ({"kind": "ServiceAccount", "serviceAccount": {"namespace": "a", "name": "*"}}, False),
    ],
)
def test_a_star_as_a_subject_is_any_user_or_group(subject: dict[str, Any], matches: bool) -> None:
    assert _is_subject(NAMES_K, subject, UserInfo("alice", ("staff",))) is matches


def test_a_hand_is_dealt_of_different_queues_and_depends_on_the_flow_alone() -> None:
    hands = {name: deal(flow_hash("s", name), 128, 6) for name in ("a", "b", "c", "d")}
    assert all(len(set(hand)) == 6 and 0 <= min(hand) <= max(hand) < 128 for hand in hands.values())
    assert len({tuple(hand) for hand in hands.values()}) == 4
    assert sorted(deal(123456789, 5, 5)) == [0, 1, 2, 3, 4]
    # the hash's digits in the mixed base 5·4·3: 59 = 4 + 5·(3 + 4·2)
    assert deal(59, 5, 3) == [4, 3, 2]


@pytest.mark.parametrize(
    ("stored", "limit", "cached", "selects", "seats"),
    [
        (50, 0, True, False, 1),
        (450, 0, True, True, 5),
        (450, 100, False, False, 2),
        (450, 100, False, True, 6),
        (450, 0, False, False, 9),
        (100_000, 0, True, False, 10),
    ],
)
def test_a_list_takes_a_seat_for_each_hundred_objects(
    stored: int, limit: int, cached: bool, selects: bool, seats: int
) -> None:
    assert list_work(stored, limit, cached, selects, 10) == Work(seats)


def test_a_write_that_many_watch_holds_seats_for_its_events() -> None:
    assert write_work(9, 10) == Work()
    assert write_work(35, 10) == Work(1, 4, 5 * MS)
    assert write_work(400, 10) == Work(1, 10, 20 * MS)


def test_a_request_takes_no_more_than_its_part_of_a_small_level() -> None:
    assert Level("a", 245, Queuing(128, 6, 50)).seats_max == 10
    assert Level("a", 25, Queuing(16, 4, 50)).seats_max == 4
    assert Level("a", 13).seats_max == 2
    assert Level("a", 1, Queuing(1, 1, 1)).seats_max == 1


# --- queues ---------------------------------------------------------------------------------------

ONE = Queuing(1, 1, 2)
MANY = Queuing(64, 1, 1000)


def started(queues: QueueSet, now_us: int = 0) -> list[int]:
    out = []
    while (number := queues.start_next(now_us)) is not None:
        out.append(number)
    return out


def test_requests_run_while_seats_are_free_and_then_wait_in_turn() -> None:
    queues = QueueSet(2, ONE)
    for number in range(4):
        assert queues.arrive(number, 0, Work(), 0) is Verdict.WAIT
    assert started(queues) == [0, 1]
    assert queues.waiting
    queues.finish(0, 1000)
    assert started(queues, 1000) == [2]


def test_of_equal_queues_of_a_hand_each_arrival_looks_first_at_the_next() -> None:
    queues = QueueSet(1, Queuing(5, 3, 10))
    assert deal(59, 5, 3) == [4, 3, 2]
    chosen = []
    for number in range(4):
        queues.arrive(number, 59, Work(), 0)
        chosen += [state.position for state in queues.states() if state.waiting]
        assert queues.give_up(number, 0)
    assert chosen == [4, 3, 2, 4]


def test_a_level_without_seats_starts_nothing() -> None:
    queues = QueueSet(0, ONE)
    assert queues.arrive(0, 0, Work(), 0) is Verdict.WAIT
    assert started(queues) == []


def test_a_queue_shows_those_of_its_requests_that_run_apart_from_those_that_wait() -> None:
    queues = QueueSet(1, ONE)
    shown = []
    for number in range(2):
        queues.arrive(number, 0, Work(), 0)
        for _ in range(2):
            (state,) = queues.states()
            shown.append((state.waiting, state.executing))
            started(queues)
    assert shown == [((0,), 0), ((), 1), ((1,), 1), ((1,), 1)]


def test_a_full_queue_refuses_only_when_no_seat_is_free() -> None:
    queues = QueueSet(1, ONE)
    for number in range(3):
        assert queues.arrive(number, 0, Work(), 0) is Verdict.WAIT
        started(queues)
    assert queues.arrive(3, 0, Work(), 0) is Verdict.REFUSE
    assert queues.give_up(2, 0)
    assert queues.arrive(3, 0, Work(), 0) is Verdict.WAIT


def test_request_without_a_seat_is_refused_if_there_are_no_queues() -> None:
    queues = QueueSet(2, None)
    verdicts = [queues.arrive(number, 0, Work(), 0) for number in range(3)]
    assert verdicts == [Verdict.START, Verdict.START, Verdict.REFUSE]
    queues.finish(0, 1)
    assert queues.arrive(3, 0, Work(), 1) is Verdict.START


def test_a_flood_of_one_flow_does_not_hold_up_another() -> None:
    queues = QueueSet(1, MANY)
    for number in range(100):
        queues.arrive(number, 1, Work(), 0)
    queues.start_next(0)
    queues.arrive(1000, 2, Work(), 10)
    queues.arrive(1001, 2, Work(), 10)
    order, running, now_us = [], 0, 10
    for _ in range(6):
        now_us += 10 * MS
        queues.finish(running, now_us)
        (running,) = started(queues, now_us)
        order.append(running)
    assert order[0] == 1000 and 1001 in order[:4]


def test_the_flow_that_takes_long_waits_longer() -> None:
    queues = QueueSet(1, MANY)
    for number in range(50):
        queues.arrive(number, 1, Work(), 0)
        queues.arrive(100 + number, 2, Work(), 0)
    now_us, served = 0, {1: 0, 2: 0}
    for _ in range(40):
        (running,) = started(queues, now_us)
        flow = 1 if running < 100 else 2
        now_us += 40 * MS if flow == 1 else 10 * MS
        served[flow] += 1
        queues.finish(running, now_us)
    assert served[1] * 3 <= served[2]


def test_wide_request_waits_for_its_seats_and_too_wide_one_for_an_empty_server() -> None:
    queues = QueueSet(4, ONE)
    queues.arrive(0, 0, Work(2), 0)
    queues.arrive(1, 0, Work(3), 0)
    assert started(queues) == [0]
    queues.finish(0, 1)
    assert started(queues, 1) == [1]
    queues.arrive(2, 0, Work(9), 2)
    assert started(queues, 2) == []
    queues.finish(1, 3)
    assert started(queues, 3) == [2]


def test_the_seats_of_a_writes_events_are_free_later() -> None:
    queues = QueueSet(1, ONE)
    queues.arrive(0, 0, Work(1, 1, 5 * MS), 0)
    queues.arrive(1, 0, Work(), 0)
    assert started(queues) == [0]
    assert queues.finish(0, SECOND) == 5 * MS
    assert started(queues, SECOND) == []
    queues.release(0, SECOND + 5 * MS)
    assert started(queues, SECOND + 5 * MS) == [1]


def test_request_that_gives_up_leaves_no_state() -> None:
    queues = QueueSet(1, ONE)
    queues.arrive(0, 0, Work(), 0)
    queues.arrive(1, 0, Work(), 0)
    assert started(queues) == [0]
    assert not queues.give_up(0, 5)  # it runs
    assert queues.give_up(1, 5)
    queues.finish(0, 6)
    assert not queues.waiting and queues.in_use == 0
    queues.arrive(2, 0, Work(), 7)
    assert started(queues, 7) == [2]


def test_more_seats_let_more_start_and_fewer_take_none_away() -> None:
    queues = QueueSet(1, MANY)
    for number in range(4):
        queues.arrive(number, number, Work(), 0)
    assert len(started(queues)) == 1
    queues.configure(3, MANY)
    assert len(started(queues)) == 2
    queues.configure(1, None)
    assert queues.in_use == 3 and queues.waiting


def test_rule_about_resources_covers_its_verbs_groups_and_scope_alone() -> None:
    rule = {"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments"], "namespaces": ["a"]}
    asked = Asked(NODE, "get", "apps", "deployments", "a")
    assert _is_covered(rule, asked)
    others = {"verb": "list", "group": "", "resource": "pods", "namespace": "b"}
    for field, value in others.items():
        assert not _is_covered(rule, asked._replace(**{field: value})), field
    assert not _is_covered(rule, asked._replace(namespace=""))
    assert _is_covered({**rule, "clusterScope": True}, asked._replace(namespace=""))


def test_rule_about_paths_covers_each_of_its_paths_and_those_below() -> None:
    rule = {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/api/*"]}
    covered = {
        "/healthz": True,
        "/healthz/etcd": True,
        "/api/v1": True,
        "/version": False,
        "/healthzz": False,
    }
    for path, expected in covered.items():
        assert _is_path_covered(rule, Asked(NODE, "get", "", "", path=path)) is expected, path
    assert not _is_path_covered(rule, Asked(NODE, "post", "", "", path="/healthz"))
