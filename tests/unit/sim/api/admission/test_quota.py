"""What quotas count, what they are for, and what they leave of an amount."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.admission.quota import (
    LimitedResource,
    PendingWrite,
    Share,
    charged,
    count_name,
    covers,
    in_scopes,
    is_counted,
    matching,
    selectors_of,
    total,
    uncovered,
    uncovered_scopes,
)
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj
from sim.ident import NAMES

N = NAMES["kubernetes"]
RESOURCES = {each.plural: each for each in reversed(Scheme(N).resources)}
PODS, MAPS, CLAIMS = (RESOURCES[name] for name in ("pods", "configmaps", "persistentvolumeclaims"))


def pod(cpu: str = "1", **spec: Any) -> Obj:
    resources = {"requests": {"cpu": cpu}, "limits": {"cpu": "2"}} if cpu else {}
    return {
        "metadata": {"name": "p", "namespace": "d"},
        "spec": {"containers": [{"name": "c", "resources": resources}], **spec},
        "status": {} if cpu else {"qosClass": "BestEffort"},
    }


def quota(hard: Obj, used: Obj | None = None, **spec: Any) -> Obj:
    shown = dict.fromkeys(hard, "0") if used is None else used
    return {
        "metadata": {"name": "q"},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": shown},
    }


def write(obj: Obj, old: Obj | None = None, resource: Any = PODS) -> PendingWrite:
    return PendingWrite(resource, obj, old, 0)


def shown(found: list[Any] | str) -> Any:
    """Amounts in whole units, by name."""
    if isinstance(found, str):
        return found
    return [each and {name: nano / 1e9 for name, (nano, _) in each.items()} for each in found]


def test_namespaced_resources_that_can_be_written_and_watched_are_counted() -> None:
    found = {name: is_counted(each) for name, each in RESOURCES.items()}
    for name in ("pods", "configmaps", "services", "persistentvolumeclaims", "secrets"):
        assert found[name], name
    for name in ("nodes", "namespaces", "persistentvolumes", "bindings", "localsubjectaccessreviews"):
        assert not found[name], name


def test_names_of_a_quota_belong_to_resources() -> None:
    names = ["count/pods", "pods", "requests.cpu", "count/configmaps", "configmaps", "requests.storage"]
    assert matching(PODS, names, N) == ["count/pods", "pods", "requests.cpu"]
    assert matching(MAPS, names, N) == ["count/configmaps", "configmaps"]
    assert matching(CLAIMS, names, N) == ["requests.storage"]
    assert count_name(RESOURCES["deployments"]) == "count/deployments.apps"


def test_equal_shares_are_summed_until_their_time() -> None:
    one, none = {"pods": (1_000_000_000, "d")}, {"pods": (0, "d")}
    shares = [Share(one, none, 10), Share(one, none, 20), Share(one, one, 5)]
    assert [total(shares, at_us)["pods"][0] // 10**9 for at_us in (5, 10, 11, 20, 21)] == [3, 3, 2, 2, 1]
    assert total([], 0) == {}


@pytest.mark.parametrize(
    ("spec", "obj", "inside"),
    [
        ({}, pod(), True),
        ({"scopes": None, "scopeSelector": None}, pod(), True),
        ({"scopes": ["BestEffort"]}, pod(), False),
        ({"scopes": ["BestEffort"]}, pod(""), True),
        ({"scopes": ["NotBestEffort"]}, pod(), True),
        ({"scopes": ["NotBestEffort", "Terminating"]}, pod(), False),
        ({"scopes": ["NotBestEffort", "Terminating"]}, pod(activeDeadlineSeconds=5), True),
    ],
)
def test_an_object_lies_in_all_scopes_of_its_quota(spec: Obj, obj: Obj, inside: bool) -> None:
    assert in_scopes(spec, PODS, obj) is inside


def test_a_resource_without_scopes_is_in_a_quota_without_any() -> None:
    assert in_scopes({}, MAPS, {})
    assert not in_scopes({"scopes": ["BestEffort"]}, MAPS, {})


def test_scopes_are_requirements() -> None:
    term = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
    given = {"scopes": ["BestEffort"], "scopeSelector": {"matchExpressions": [term]}}
    assert selectors_of(given) == [{"scopeName": "BestEffort", "operator": "Exists"}, term]
    assert selectors_of({}) == []


def test_a_quota_covers_what_it_has_amounts_for() -> None:
    assert covers(quota({"pods": "1"}), PODS, pod(), N)
    assert not covers(quota({"configmaps": "1"}), PODS, pod(), N)
    assert not covers(quota({"pods": "1"}, scopes=["BestEffort"]), PODS, pod(), N)
    assert not covers({}, PODS, pod(), N)
    assert covers({"status": {"hard": {"pods": "1"}}}, PODS, pod(), N)
    assert not covers({"status": {"hard": None}}, PODS, pod(), N)


@pytest.mark.parametrize(
    ("cpu", "found"),
    [
        ("1", [{"requests.cpu": 2.0}]),
        ("2", [{"requests.cpu": 3.0}]),
        (
            "2001m",
            "exceeded quota: q, requested: requests.cpu=2001m, used: requests.cpu=1, limited: requests.cpu=3",
        ),
    ],
)
def test_an_amount_may_reach_its_limit(cpu: str, found: Any) -> None:
    held = quota({"requests.cpu": "3"}, {"requests.cpu": "1"})
    assert shown(charged([held], write(pod(cpu)), N)) == found


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("1", "2", [{"requests.cpu": 2.0}]),
        ("", "1", [{"requests.cpu": 2.0}]),  # the stored one asks for none
        (
            "1",
            "3",
            "exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=1, limited: requests.cpu=2",
        ),
        ("2", "1", [None]),
        ("1", "1", [None]),
    ],
)
def test_only_what_an_update_adds_is_charged(old: str, new: str, found: Any) -> None:
    held = quota({"requests.cpu": "2"}, {"requests.cpu": "1"})
    assert shown(charged([held], write(pod(new), pod(old)), N)) == found


def test_every_quota_that_covers_an_object_is_charged() -> None:
    quotas = [quota({"configmaps": "1"}), quota({"pods": "2"}), quota({"requests.cpu": "9", "pods": "1"})]
    assert shown(charged(quotas, write(pod()), N)) == [
        None, {"pods": 1.0}, {"requests.cpu": 1.0, "pods": 1.0},
    ]  # fmt: skip
    assert charged(quotas[:1], write(pod()), N) == [None]
    full = [*quotas, quota({"pods": "0"})]
    assert charged(full, write(pod()), N) == (
        "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0"
    )


def test_what_is_not_known_or_not_stated_is_refused() -> None:
    unknown = quota({"pods": "1", "requests.cpu": "1"}, {"pods": "0"})
    assert charged([unknown], write(pod()), N) == "status unknown for quota: q, resources: pods,requests.cpu"
    unknown["status"]["used"] = None
    assert str(charged([unknown], write(pod()), N)).startswith("status unknown for quota: q")
    bare = charged([quota({"requests.cpu": "1"})], write(pod("")), N)
    assert str(bare).startswith("failed quota: q: must specify requests.cpu")


def test_what_is_limited_needs_a_quota() -> None:
    limited = [LimitedResource("pods", match_contains=("cpu", "none"))]
    wish = write(pod())
    assert uncovered([], wish, limited, N) == ["cpu", "limits.cpu", "requests.cpu"]
    assert uncovered([quota({"requests.cpu": "1"})], wish, limited, N) == ["cpu", "limits.cpu"]
    assert uncovered([quota({"cpu": "1"}, scopes=["BestEffort"])], wish, limited, N) == uncovered(
        [], wish, limited, N
    )
    assert uncovered([], wish, [], N) == []
    assert LimitedResource("pods").is_for(PODS)
    assert not LimitedResource("pods", "apps").is_for(PODS)
    assert not LimitedResource("services").is_for(PODS)


def test_what_is_limited_by_scope_needs_a_quota_of_that_scope() -> None:
    high = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
    limited = [LimitedResource("pods", match_scopes=(high,))]
    wish = write(pod(priorityClassName="high"))
    assert uncovered_scopes([], wish, limited) == [high]
    assert uncovered_scopes([quota({"pods": "1"})], wish, limited) == [high]
    of_high = quota({"pods": "1"}, scopeSelector={"matchExpressions": [high]})
    assert uncovered_scopes([of_high], wish, limited) == []
    of_low = quota({"pods": "1"}, scopeSelector={"matchExpressions": [{**high, "values": ["low"]}]})
    assert uncovered_scopes([of_low], wish, limited) == [high]
    assert uncovered_scopes([], write(pod()), limited) == []
    assert uncovered_scopes([], write({}, resource=MAPS), limited) == []
