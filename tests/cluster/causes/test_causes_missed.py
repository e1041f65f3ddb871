"""What a process has missed and finds when it lists leads back to its cause, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sim.kernel import Record
from sim.report.story import about, chosen
from tests.cluster.causes.test_causes import decisions, pods, root, told
from tests.cluster.faults.test_actions import WEB

LABELLED: dict[str, Any] = {"name": "web", "merge": {"metadata": {"labels": {"a": "b"}}}}
WITH_STATE: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "web"},
    "spec": {**WEB["spec"], "serviceName": "web", "podManagementPolicy": "Parallel"},
}
EVERYWHERE: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "web"},
    "spec": {each: WEB["spec"][each] for each in ("selector", "template")},
}


@pytest.mark.parametrize("workload", [WEB, WITH_STATE, EVERYWHERE], ids=lambda each: str(each["kind"]))
@pytest.mark.parametrize("grace", [0, 60])
async def test_new_leader_replaces_pods_because_of_their_deletion_without_a_leader(
    workload: dict[str, Any], grace: int, tmp_path: Path
) -> None:
    """They are gone, or on their way, when it looks: nothing that is there leads to that."""
    lost = {"resource": "pods", "selector": "app=web", "gracePeriodSeconds": grace}
    book = await told(
        tmp_path,
        {
            "at": "2m",
            "name": "led by nobody",
            "crash": {"actor": "controller-manager-0", "restartAfter": "20s"},
        },
        {"at": "125s", "name": "stubborn", "workload": {"stop": "never"}},
        {"at": "126s", "name": "labelled", "patch": {**LABELLED, "resource": f"{workload['kind'].lower()}s"}},
        {"at": "130s", "name": "lost", "delete": lost},
        objects=[workload],
    )
    made = pods(book, "create", 130_000_000)
    assert made and {root(book, r) for r in made} == {"lost"}


async def test_what_a_list_shows_to_be_gone_is_missed_because_of_what_took_it(tmp_path: Path) -> None:
    """The watch would have reported it, but the server crashed before, and its history is lost."""
    server = {"apiServer": "apiserver-0"}
    book = await told(
        tmp_path,
        {"at": "2m", "name": "late", "for": "20s", "lag": {**server, "by": "5s"}},
        {
            "at": "130s",
            "name": "lost",
            "delete": {"resource": "pods", "selector": "app=web", "gracePeriodSeconds": 0},
        },
        {"at": "131s", "name": "down", "crash": {"actor": "apiserver-0", "restartAfter": "2s"}},
        {"at": "132s", "name": "forgotten", "compact": {}},
    )
    assert any(r.at_us > 131_000_000 and r.values["target"] == "pods" for r in decisions(book, "relist"))
    made = pods(book, "create", 130_000_000)
    assert made and {root(book, r) for r in made} == {"lost"}


@pytest.mark.parametrize("at", ["6m", "9m"])
async def test_a_report_that_says_nothing_new_hides_nothing_from_a_new_leader(
    at: str, tmp_path: Path
) -> None:
    """It takes the fast path or, after a storage that could not be written for a while, the
    ordinary one.
    """
    book = await told(
        tmp_path,
        {"at": "2m", "name": "cut", "for": "2m", "fail": {"nodes": {"name": "node-1"}, "how": "network-cut"}},
        {"at": "3m30s", "name": "killed", "crash": {"actor": "controller-manager-0", "restartAfter": "8m"}},
        {"at": at, "name": "still", "for": "15s", "storage": {"how": "lost-quorum"}},
        duration="13m",
    )
    reports = [r for r in book.records if r.kind == "write" and r.values["verb"] == "patch status"]
    assert [r for r in reports if r.values["key"] == "//nodes//node-1" and 500 < r.at_us / 1e6 < 690]
    freed = chosen(about(book, "//nodes//node-1"), "taints=none")
    assert freed is not None and freed.at_us > 690_000_000 and root(book, freed) == "cut"


async def test_new_leaders_taint_is_caused_by_what_made_the_node_unready(
    tmp_path: Path,
) -> None:
    fault = {"nodes": {"name": "node-1"}, "how": "pod-network-failure"}
    book = await told(
        tmp_path,
        {"at": "2m", "name": "killed", "crash": {"actor": "controller-manager-0", "restartAfter": "60s"}},
        {"at": "2m30s", "name": "fault", "fail": fault},
    )
    tainted = decisions(book, "taint")
    assert tainted and {root(book, r) for r in tainted} == {"fault"}
    zones = [r for r in book.records if r.kind == "zone" and r.at_us > 120_000_000]
    assert zones and {root(book, r) for r in zones} == {"fault"}


async def test_relist_without_a_reply_is_caused_by_what_blocked_the_reply(tmp_path: Path) -> None:
    """A new leader sends requests because it leads; a missing reply of a server is not their cause."""
    book = await told(
        tmp_path,
        {"at": "1m", "name": "still", "stall": {"actor": "apiserver-0"}},
        {"at": "4m", "name": "killed", "crash": {"actor": "controller-manager-1"}},
        cluster={"nodes": [{"count": 3}], "apiServer": {"replicas": 2}, "controllerManager": {"replicas": 2}},
        duration="6m",
    )
    again = [r for r in decisions(book, "relist") if r.at_us > 240_000_000]
    assert again and {root(book, r) for r in again} == {"still"}


async def test_relist_after_lost_history_is_caused_by_the_restart_of_the_server(tmp_path: Path) -> None:
    """The cause is any event that led there, for example the end of its last watch."""
    book = await told(
        tmp_path,
        {"at": "2m", "name": "anew", "crash": {"actor": "apiserver-0", "restartAfter": "20s"}},
        {"at": "5m", "name": "moved", "crash": {"actor": "apiserver-1"}},
        cluster={"nodes": [{"count": 3}], "apiServer": {"replicas": 2}},
        duration="6m",
    )
    again = [r for r in decisions(book, "relist") if r.values["why"]["why"] == "Expired"]
    assert again and {root(book, r) for r in again} == {"anew"}


async def test_pods_of_a_node_deleted_without_a_leader_go_because_of_the_deletion(tmp_path: Path) -> None:
    book = await told(
        tmp_path,
        {"at": "2m", "name": "killed", "crash": {"actor": "controller-manager-0", "restartAfter": "60s"}},
        {"at": "125s", "name": "dead", "fail": {"nodes": {"name": "node-1"}, "how": "power-loss"}},
        {"at": "130s", "name": "gone", "delete": {"resource": "nodes", "name": "node-1"}},
    )
    collected = pods(book, "delete", 130_000_000)
    assert collected and {root(book, r) for r in collected} == {"gone"}


async def test_node_add_and_delete_events_are_caused_by_the_write_of_the_node(tmp_path: Path) -> None:
    """The pass that finds it has no cause but time."""
    away = {"nodes": {"name": "node-1"}, "how": "agent-crash"}
    book = await told(
        tmp_path,
        {"at": "2m", "name": "gone", "delete": {"resource": "nodes", "name": "node-1"}},
        {"at": "3m", "name": "anew", "for": "20s", "fail": away},
    )
    events = [
        root(book, r)
        for r in book.records
        if r.kind == "write"
        and r.at_us > 120_000_000
        and r.values["user"].endswith(":node-controller")
        and r.values["key"].startswith("//events/default/node-1.")
    ]
    assert events == ["gone", "anew"]


@pytest.mark.parametrize("away", ["crash", "cut"])
async def test_eviction_from_a_node_tainted_without_a_leader_is_caused_by_the_taint(
    away: str, tmp_path: Path
) -> None:
    """The new leader lists the node first, or its pods; they are as they were long before."""
    manager, span = "controller-manager-0", "40s"
    fault: dict[str, Any] = {"crash": {"actor": manager}}
    if away == "cut":
        fault = {"partition": {"between": [manager, "apiserver"]}}
    taint = {"key": "k", "effect": "NoExecute"}
    book = await told(
        tmp_path,
        {"at": "2m", "name": "away", "for": span, **fault},
        {"at": "2m20s", "name": "tainted", "taint": {"nodes": {"name": "node-1"}, "taints": [taint]}},
        objects=[WEB, {**EVERYWHERE, "metadata": {"name": "all"}}],
    )
    evicted = decisions(book, "evict")
    assert len(evicted) >= 2 and {root(book, r) for r in evicted} == {"tainted"}
    replaced = pods(book, "create", 140_000_000)
    assert replaced and {root(book, r) for r in replaced} == {"tainted"}
    (status,) = [r for r in book.records if r.at_us > 140_000_000 and of(r, "update status", "daemonsets")][
        :1
    ]
    assert root(book, status) == "tainted"


def of(record: Record, verb: str, resource: str) -> bool:
    values = record.values
    return record.kind == "write" and values["verb"] == verb and values["key"].split("/")[2] == resource


@pytest.mark.parametrize("fault", [
    {"workload": {"exitAfter": "1s", "exitCode": 1}},
    {"delete": {"resource": "pods", "selector": "app=web", "gracePeriodSeconds": 0}},
])  # fmt: skip
async def test_status_after_a_time_without_leader_is_caused_by_the_changes_of_pods(
    fault: dict[str, Any],
    tmp_path: Path,
) -> None:
    """Pods may be listed before the Services and budgets that choose them, and some, or all, are
    gone.
    """
    chooser = {"matchLabels": {"app": "web"}}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": chooser},
    }
    book = await told(
        tmp_path,
        {"at": "2m", "name": "away", "for": "40s", "crash": {"actor": "controller-manager-0"}},
        {"at": "2m20s", "name": "ended", **fault},
        objects=[WEB, service, budget],
        seed=4,
    )
    shown = [
        root(book, r)
        for r in book.records
        if r.at_us > 140_000_000
        and (
            of(r, "update", "endpointslices")
            or of(r, "update", "endpoints")
            or of(r, "update status", "poddisruptionbudgets")
        )
    ]
    assert len(shown) >= 3 and set(shown) == {"ended"}


@pytest.mark.parametrize("stalled", ["119s", "118500ms", "118s"])
async def test_leader_that_gets_sigterm_during_a_pause_ends_because_of_that(
    stalled: str, tmp_path: Path
) -> None:
    """Its next renewal is due as well when it resumes, and comes first."""
    scheduler = {"actor": "scheduler-0"}
    book = await told(
        tmp_path,
        {"at": stalled, "name": "still", "for": "3s", "stall": scheduler},
        {"at": "120s", "name": "asked", "crash": {**scheduler, "gracefully": True}},
    )
    ended = [r for r in book.records if r.kind == "actor" and r.values["what"] == "exit"]
    given_up = [r for r in book.records if r.kind == "change" and r.values["what"] == "holder"][-1]
    assert given_up.values["after"] == "" and root(book, given_up) == "asked"
    assert [root(book, r) for r in ended] == ["asked"]


RUNS = {"name": "w", "image": "r/w:1", "command": ["sleep", "infinity"]}
WORK: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "web"},
    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [RUNS]}}},
}
TURNED: dict[str, Any] = {
    "resource": "replicasets",
    "selector": "app=web",
    "merge": {"spec": {"replicas": 7}},
}


@pytest.mark.parametrize(("workload", "what", "done"), [
    (WORK, {"delete": {"resource": "pods", "selector": "job-name=web"}}, ("update status", "jobs")),
    (WEB, {"patch": TURNED}, ("update", "replicasets")),
])  # fmt: skip
async def test_sync_of_objects_listed_before_their_owner_is_caused_by_the_missed_change(
    workload: dict[str, Any], what: dict[str, Any], done: tuple[str, str], tmp_path: Path
) -> None:
    """Answers come in any order."""
    slow = {"between": ["controller-manager", "apiserver"], "latency": "1ms..1s"}
    for seed in range(3):
        book = await told(
            tmp_path,
            {"at": "2m", "name": "away", "for": "40s", "crash": {"actor": "controller-manager-0"}},
            {"at": "2m", "name": "slow", "network": slow},
            {"at": "2m20s", "name": "lost", **what},
            objects=[workload],
            duration="8m",
            seed=seed,
        )
        made = [r for r in book.records if r.at_us > 141_000_000 and of(r, *done)]
        assert made and root(book, made[0]) == "lost"


async def test_agents_report_of_a_closed_node_is_caused_by_the_closing(
    tmp_path: Path,
) -> None:
    """Reports that say nothing new are due each five minutes."""
    closed = {"at": "5m4s", "for": "20s", "name": "closed", "cordon": {"nodes": {}}}
    book = await told(tmp_path, closed, cluster={"nodes": [{"count": 8}]}, objects=[])
    events = [r for r in book.records if of(r, "create", "events") and r.at_us > 304_000_000]
    told_of = [root(book, r) for r in events if r.values["key"].startswith("//events/default/node-")]
    assert len(told_of) == 16 and set(told_of) == {"closed"}
