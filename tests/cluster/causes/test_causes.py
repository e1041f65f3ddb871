"""Every effect in a cluster leads back to the fault, or the user's action, that began it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from sim.app.run import run_plan
from sim.kernel import Record, read
from sim.report.story import Book, about, chosen
from sim.scenario.compile import compile_plan, load
from sim.scenario.read.source import parse_documents
from tests.cluster.faults.test_actions import WEB

SCENARIOS = Path(__file__).resolve().parents[3] / "scenarios"


async def told(tmp_path: Path, *timeline: dict[str, Any], **spec: Any) -> Book:
    """The trace of a small cluster to which this happens."""
    body = {"seed": 3, "duration": "8m", "objects": [WEB], "timeline": list(timeline), **spec}
    body.setdefault("cluster", {"nodes": [{"count": 3}]})
    whole = {"apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "t"}, "spec": body}
    (document,) = parse_documents(yaml.safe_dump(whole), "t.yaml")
    await run_plan(compile_plan(document, tmp_path), trace_file=tmp_path / "trace")
    return Book(read(tmp_path / "trace"))


def root(book: Book, record: Record) -> str:
    """What a chain begins with."""
    first = book.chain(record)[0]
    return str(first.values["name"]) if first.kind == "step" else first.kind


def decisions(book: Book, what: str) -> list[Record]:
    return [r for r in book.records if r.kind == "decision" and r.values["what"] == what]


def pods(book: Book, verb: str, after_us: int) -> list[Record]:
    return [
        r
        for r in book.records
        if r.kind == "write"
        and r.at_us > after_us
        and r.values["verb"] == verb
        and r.values["key"].startswith("//pods/")
    ]


@pytest.mark.slow
async def test_each_effect_of_the_zone_outage_has_the_outage_as_its_cause(
    tmp_path: Path,
) -> None:
    await run_plan(load(SCENARIOS / "zone-outage.yaml"), trace_file=tmp_path / "trace")
    book = Book(read(tmp_path / "trace"))
    outage_us = 300_000_000
    for what, number in (("unheard", 30), ("taint", 30), ("evict", 300)):
        made = decisions(book, what)  # a taint with a conflicting write is decided again
        assert {root(book, r) for r in made} == {"outage"}
        assert len({r.values["target"] for r in made}) == number
    for verb in ("create", "create binding", "update status"):
        assert [root(book, r) for r in pods(book, verb, outage_us)] == ["outage"] * 300
    evicted = [r for r in pods(book, "delete", outage_us) if r.values["user"].endswith(":node-controller")]
    assert [root(book, r) for r in evicted] == ["outage"] * 300
    gone = [r for r in pods(book, "delete", outage_us) if r not in evicted]
    # two writes each: its grace is cut to nothing, and it ends
    assert [root(book, r) for r in gone] == ["power-back"] * 600
    # each goes by its own node: power loss, verdict, taint, eviction
    for record in evicted:
        kinds = [r.values.get("what", r.kind) for r in book.chain(record)]
        assert kinds == ["step", "crash", "unheard", "write", "taint", "write", "evict", "write"]
        _, crash, unheard, *_ = book.chain(record)
        assert unheard.values["target"] == f"nodes/{crash.values['name']}"
        assert 40_000_000 <= unheard.values["why"]["silent_us"] < 80_000_000


async def test_a_cut_network_is_the_cause_of_the_silence_it_makes(tmp_path: Path) -> None:
    cut = {"nodes": {"name": "node-1"}, "how": "network-cut"}
    book = await told(tmp_path, {"at": "2m", "name": "cut", "for": "3m", "fail": cut})
    (verdict,) = decisions(book, "unheard")
    assert (verdict.values["target"], root(book, verdict)) == ("nodes/node-1", "cut")
    assert "last renewal at 1m5" in book.line(verdict, None).text
    marked = chosen(about(book, "//nodes//node-1"), "ready=Unknown")
    assert marked is not None
    assert [r.kind for r in book.chain(marked)] == ["step", "decision", "write"]


async def test_node_with_a_request_delayed_by_a_cut_is_ready_because_of_the_cuts_end(
    tmp_path: Path,
) -> None:
    cut = {"nodes": {"name": "node-1"}, "how": "network-cut"}
    book = await told(tmp_path, {"at": "2m", "name": "cut", "for": "1m", "fail": cut})
    ready = chosen(about(book, "//nodes//node-1"), "ready=True")
    assert ready is not None and 180_000_000 < ready.at_us <= 190_400_000
    assert [r.kind for r in book.chain(ready)] == ["step", "step-end", "write"]


@pytest.mark.parametrize("how", ["network-cut", "hang", "power-loss"])
async def test_node_is_ready_again_because_its_silencing_fault_has_ended(how: str, tmp_path: Path) -> None:
    fault = {"nodes": {"name": "node-1"}, "how": how}
    book = await told(tmp_path, {"at": "2m", "name": "fault", "for": "3m", "fail": fault})
    marked = chosen(about(book, "//nodes//node-1"), "ready=True")
    assert marked is not None and marked.at_us > 300_000_000
    step, ended, *_ = book.chain(marked)
    assert (step.values["name"], ended.values["name"]) == ("fault", "fault")
    assert (step.at_us, ended.at_us) == (120_000_000, 300_000_000)
    untainted = chosen(about(book, "//nodes//node-1"), "taints=none")
    assert untainted is not None and book.chain(marked)[-1] in book.chain(untainted)


async def test_take_over_is_caused_by_the_crash_of_the_leader(tmp_path: Path) -> None:
    managers = {"nodes": [{"count": 3}], "controllerManager": {"replicas": 2}}
    book = await told(
        tmp_path,
        {"at": "2m", "name": "killed", "crash": {"actor": "controller-manager-leader"}},
        {"at": "2m1s", "name": "more", "scale": {"resource": "deployments", "name": "web", "replicas": 7}},
        cluster=managers,
    )
    (taken,) = decisions(book, "take-over")
    assert root(book, taken) == "killed"
    # The new leader's work is caused by what was requested in between.
    (made,) = pods(book, "create", 120_000_000)
    assert root(book, made) == "more"
    asides = [line.text for line in book.story(made) if line.aside]
    assert len(asides) == 1
    assert "takes over leases/orch-system/orch-controller-manager" in asides[0]


async def test_leaders_step_down_because_the_storage_is_paused(tmp_path: Path) -> None:
    book = await told(tmp_path, {"at": "2m", "name": "stuck", "for": "40s", "storage": {"how": "pause"}})
    lost = decisions(book, "lost-lease")
    assert [root(book, r) for r in lost] == ["stuck"] * len(lost)
    assert {r.values["actor"] for r in lost} == {"controller-manager-0", "scheduler-0"}
    exits = [r for r in book.records if r.kind == "actor" and r.values["what"] == "exit"]
    assert [root(book, r) for r in exits] == ["stuck"] * len(lost)


async def test_a_drain_leads_to_evictions_and_replacements(tmp_path: Path) -> None:
    book = await told(tmp_path, {"at": "2m", "name": "empty", "drain": {"nodes": {"name": "node-1"}}})
    evicted = pods(book, "create eviction", 0)
    assert [root(book, r) for r in evicted] == ["empty"] * len(evicted)
    assert evicted
    for verb in ("create", "create binding"):
        made = pods(book, verb, 120_000_000)
        assert [root(book, r) for r in made] == ["empty"] * len(evicted)
    removed = pods(book, "delete", 120_000_000)
    assert {(r.values["user"], root(book, r)) for r in removed} == {("system:node:node-1", "empty")}


async def test_eviction_is_caused_by_the_shortage_and_not_by_an_earlier_eviction(
    tmp_path: Path,
) -> None:
    """The first one evicted ends by itself before it is killed: the next check follows upon its
    end.
    """
    spec = {"containers": [{"name": "c", "image": "r/c:1", "command": ["sleep", "130"]}]}
    meta = {"apiVersion": "v1", "kind": "Pod"}
    flags = {
        "eviction-soft": "memory.available<1Gi",
        "eviction-soft-grace-period": "memory.available=10s",
        "eviction-max-pod-grace-period": 30,
        "eviction-pressure-transition-period": "30s",
    }
    book = await told(
        tmp_path,
        {"at": "20s", "workload": {"name": "ends", "memory": "900Mi", "stop": "never"}},
        {
            "at": "2m",
            "name": "short",
            "pressure": {"nodes": {}, "resource": "memory", "available": "50Mi"},
            "for": "1m",
        },
        cluster={"nodes": [{"count": 1, "flags": flags}]},
        objects=[{**meta, "metadata": {"name": "ends"}, "spec": spec}, WEB],
    )
    evicted = decisions(book, "evict")
    assert evicted[0].values["target"] == "pods/default/ends" and len(evicted) > 2
    assert {root(book, record) for record in evicted} == {"short"}
    told_of = [r for r in book.records if any(c["what"] == "pressures" for c in book.changes(r))]
    assert [[one.kind for one in book.chain(record)][:-1] for record in told_of] == [
        ["step"],
        ["step", "step-end"],
    ]


async def test_a_crash_loop_is_a_chain_of_exits_waits_and_restarts(tmp_path: Path) -> None:
    looping = {"nodes": [{"count": 1, "runtime": {"exitAfter": "1s", "exitCode": 3}}]}
    book = await told(tmp_path, cluster=looping, duration="3m")
    restart = decisions(book, "restart")[-1]
    told_of = [r.values["what"] for r in book.chain(restart) if r.kind == "decision"]
    assert told_of[:3] == ["restart", "back-off", "restart"]
    assert told_of.count("restart") >= 3
    text = book.line(restart, None).text
    assert text.startswith("restarts container web of pods/default/web-")
    assert text.endswith("which had exited (3)")
    # Each exit is reported once, although the agent checks it several times.
    assert all(a != b for a, b in pairwise(told_of))


@pytest.mark.parametrize("behaviour", [
    {"exitAfter": "5s", "exitCode": 1}, {"startError": "no such file"}, {"ready": False}, {"memory": "300Mi"},
])  # fmt: skip
async def test_program_started_under_a_fault_is_caused_by_it_and_so_are_its_restarts(
    behaviour: dict[str, Any], tmp_path: Path
) -> None:
    fault = {"at": "10s", "name": "fault", "workload": {"name": "new-", **behaviour}}
    container = {
        "name": "web", "image": "r/web:1", "resources": {"limits": {"memory": "128Mi"}},
        "livenessProbe": {"tcpSocket": {"port": 80}, "periodSeconds": 5, "failureThreshold": 2},
    }  # fmt: skip
    template = {**WEB["spec"]["template"], "spec": {"containers": [container]}}
    new = {**WEB, "metadata": {"name": "new"}, "spec": {**WEB["spec"], "replicas": 1, "template": template}}
    steps = fault, {"at": "20s", "name": "new", "apply": {"objects": [new]}}
    book = await told(tmp_path, *steps, duration="2m")
    found = [r for r in book.records if r.kind == "decision" and "/new-" in r.values["target"]]
    assert found and [root(book, r) for r in found] == ["fault"] * len(found)
    restarts = [r.values.get("what") for r in book.chain(found[-1])].count("restart")
    assert restarts >= 2  # one chain, not one for each exit


@pytest.mark.parametrize(("fault", "what"), [
    ({"pressure": {"nodes": {"name": "node-1"}, "resource": "memory", "available": "50Mi"}}, "pressures"),
    ({"fail": {"nodes": {"name": "node-1"}, "how": "runtime-failure"}}, "ready"),
    ({"fail": {"nodes": {"name": "node-1"}, "how": "runtime-hang"}}, "ready"),
    ({"fail": {"nodes": {"name": "node-1"}, "how": "slow-disk", "by": "300s"}}, "ready"),
    ({"fail": {"nodes": {"name": "node-1"}, "how": "pod-network-failure"}}, "ready"),
])  # fmt: skip
async def test_what_an_agent_finds_wrong_as_it_starts_is_the_faults_not_its_starts(
    fault: dict[str, Any], what: str, tmp_path: Path
) -> None:
    away = {
        "at": "30s",
        "name": "away",
        "fail": {"nodes": {"name": "node-1"}, "how": "agent-crash"},
        "for": "60s",
    }
    ended = {"at": "50s", "name": "over by then", "for": "30s", **fault}
    book = await told(tmp_path, away, ended, {"at": "60s", "name": "fault", **fault})
    node = [r for r in book.records if r.kind == "change" and r.values["key"] == "//nodes//node-1"]
    bad = [r for r in node if r.values["what"] == what and r.values["after"] not in ("True", "Unknown", None)]
    assert root(book, next(r for r in bad if r.at_us > 90_000_000)) == "fault"


async def test_image_pull_back_off_shows_its_pauses_and_the_fault_behind_them(
    tmp_path: Path,
) -> None:
    away = {
        "at": "10s",
        "name": "away",
        "workload": {"image": "r/new:1", "pullError": "no route"},
        "for": "60s",
    }
    template = {**WEB["spec"]["template"]}
    template["spec"] = {"containers": [{"name": "web", "image": "r/new:1"}]}
    new = {**WEB, "metadata": {"name": "new"}, "spec": {**WEB["spec"], "replicas": 1, "template": template}}
    book = await told(tmp_path, away, {"at": "20s", "name": "new", "apply": {"objects": [new]}})
    pod = next(r for r in pods(book, "create", 20_000_000) if "/new-" in r.values["key"])
    running = chosen(about(book, pod.values["key"]), "phase=Running")
    assert running is not None and root(book, running) == "new"
    waits = [r.values["why"]["wait_us"] for r in book.chain(running) if r.kind == "decision"]
    assert waits == [10_000_000, 20_000_000, 40_000_000]
    story = book.story(running)
    (aside,) = [line for line in story if line.aside]
    blamed = (
        '(step "away": workload nodes node-0, node-1, node-2; image r/new:1; pull error no route (t.yaml:'
    )
    assert aside.text.startswith(blamed)
    following = story[story.index(aside) + 1]
    assert "cannot pull image r/new:1 of pods/default/new-" in following.text
    assert following.text.endswith(": no route; waits 10s before it tries again")


@pytest.mark.parametrize("pull", ["0s", "5s"])
async def test_what_waits_for_its_turn_on_a_node_leads_back_to_its_own_pod(pull: str, tmp_path: Path) -> None:
    """Statuses are written, and images pulled, one after the other."""
    nodes = {"nodes": [{"count": 1, "runtime": {"imagePull": pull}}]}
    slow = {"at": "5s", "storage": {"how": "slow", "by": "20ms"}}
    book = await told(tmp_path, slow, cluster=nodes, duration="2m")
    told_of = [r for r in pods(book, "patch status", 0) if r.values["user"].endswith("node-0")]
    assert len(told_of) >= 12
    for record in told_of:
        before = [str(r.values.get("key")) for r in book.chain(record)[:-1]]
        assert [key for key in before if key.startswith("//pods/")][-1] == record.values["key"]


async def test_pod_deleted_while_its_agent_pulls_the_image_ends_by_that(tmp_path: Path) -> None:
    nodes = {"nodes": [{"count": 1, "runtime": {"imagePull": "20s"}}]}
    lost = {"at": "20s", "name": "lost", "delete": {"resource": "pods", "selector": "app=web"}}
    book = await told(tmp_path, lost, cluster=nodes, duration="1m")
    removed = [each for each in pods(book, "delete", 0) if each.values["user"].endswith("node-0")]
    assert len({each.values["key"] for each in removed}) == 6
    assert {root(book, each) for each in removed} == {"lost"}


async def test_a_run_of_a_schedule_follows_from_that_not_from_the_run_before_it(tmp_path: Path) -> None:
    """Nor to later faults of one of them or of its controller: the next leader knows their cause
    too.
    """
    run = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "r/c:1", "command": ["true"]}]}
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": run}}}}
    tick = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"}, "spec": spec}
    faults = [
        {"at": "2m", "name": "slow", "workload": {"name": "tick-", "startError": "no such file"}, "for": "5s"},
        {"at": "3m30s", "name": "killed", "crash": {"actor": "controller-manager-leader"}, "for": "1s"},
        {"at": "5m30s", "name": "edit", "patch": {"resource": "cronjobs", "name": "tick", "merge": {"spec": {"schedule": "*/2 * * * *"}}}},
    ]  # fmt: skip
    book = await told(tmp_path, *faults, objects=[tick], duration="9m")
    made = [r for r in book.records if r.kind == "write" and r.values["verb"] == "create"]
    runs = [r for r in made if r.values["key"].startswith("/batch/jobs/")]
    found = [[str(r.values.get("name") or r.values["key"]) for r in book.chain(r)[:-1]] for r in runs]
    own = "/batch/cronjobs/default/tick"
    assert found[:3] == [[own]] * 3 and found[4:5] == [[own]] and found[-1] == ["edit", own]


async def test_image_pull_error_is_caused_by_the_fault_with_its_message(tmp_path: Path) -> None:
    broken = {"image": "r/web:1", "pullError": "no route"}
    both = {"at": "1s", "name": "first", "workload": {**broken, "pullError": "no registry"}, "for": "25s"}
    book = await told(tmp_path, both, {"at": "2s", "name": "second", "workload": broken}, duration="1m")
    steps = {r.values["name"]: r.ident for r in book.records if r.kind == "step"}
    found = [r.values["why"] for r in decisions(book, "pull-back-off")]
    assert len(found) > 6
    assert {(why["error"], why["fault"]) for why in found} == {("no route", steps["second"])}


async def test_relist_is_caused_by_the_absence_of_the_server_and_its_history(
    tmp_path: Path,
) -> None:
    gone = {"actor": "apiserver-0", "restartAfter": "5s"}
    book = await told(
        tmp_path, {"at": "2m", "name": "lost", "compact": {}}, {"at": "2m", "name": "down", "crash": gone}
    )
    again = [r for r in decisions(book, "relist") if r.at_us >= 120_000_000]
    assert {root(book, r) for r in again} == {"down"}


@pytest.mark.parametrize(
    "action",
    [{"loseLease": {"component": "scheduler"}}, {"crash": {"actor": "scheduler-leader", "gracefully": True}}],
)
async def test_a_lease_that_was_taken_or_given_up_has_its_next_holder_by_that(
    tmp_path: Path, action: dict[str, Any]
) -> None:
    schedulers = {"nodes": [{"count": 3}], "scheduler": {"replicas": 2}}
    over = {"at": "1m", "name": "over by then", "lag": {"apiServer": "apiserver-0", "by": "1s"}, "for": "50s"}
    book = await told(tmp_path, over, {"at": "2m", "name": "gone", **action}, cluster=schedulers)
    holders = [
        r
        for r in about(book, "/coordination.orch.io/leases/orch-system/orch-scheduler")
        if r.kind == "change" and r.values["what"] == "holder" and r.at_us > 100_000_000
    ]
    assert len(holders) == 2
    assert [root(book, r) for r in holders] == ["gone", "gone"]


async def test_pods_of_a_node_that_was_deleted_go_because_it_was(tmp_path: Path) -> None:
    book = await told(
        tmp_path, {"at": "2m", "name": "gone", "delete": {"resource": "nodes", "name": "node-1"}}
    )
    collected = pods(book, "delete", 120_000_000)
    assert collected
    assert {root(book, r) for r in collected} == {"gone"}


async def test_a_pod_that_its_agent_finds_in_a_list_is_begun_because_it_was_sent_there(
    tmp_path: Path,
) -> None:
    more = {"resource": "deployments", "name": "web", "replicas": 9}
    book = await told(
        tmp_path,
        {"at": "2m", "name": "stuck", "for": "2m", "storage": {"how": "lost-quorum"}},
        {"at": "4m", "name": "more", "scale": more},
    )
    again = [r for r in book.records if r.kind == "schedule" and r.at_us > 240_000_000]
    assert len(again) == 3
    begun = [r for r in pods(book, "patch status", 240_000_000) if book.changes(r)]
    assert len(begun) >= 3
    for record in begun:
        kinds = [r.kind for r in book.chain(record)]
        assert (root(book, record), kinds[-3:]) == ("more", ["schedule", "write", "write"])


async def test_a_pod_that_waited_is_placed_because_there_is_room(tmp_path: Path) -> None:
    """Of three nodes two are closed; the third holds five pods."""
    full: dict[str, Any] = {"cpu": 8, "memory": "8Gi", "pods": 5}
    closed = {"nodes": {"name": ["node-1", "node-2"]}}
    book = await told(
        tmp_path,
        {"at": "14s", "name": "closed", "cordon": closed},
        {"at": "3m", "name": "opened", "uncordon": {"nodes": {"name": "node-1"}}},
        cluster={"nodes": [{"count": 3, "capacity": full, "runtime": {"imagePull": "0s"}}]},
    )
    placed = [r for r in book.records if r.kind == "schedule" and r.values["node"] == "node-1"]
    assert placed and {root(book, r) for r in placed} == {"opened"}
    for record in placed:
        (aside,) = [line for line in book.story(record) if line.aside]
        assert f"finds no node for pods/{record.values['pod']}" in aside.text
        assert aside.at_us < 180_000_000


async def test_a_zone_is_disrupted_because_of_the_nodes_that_fell_silent(tmp_path: Path) -> None:
    zones = {"nodes": [{"count": 3, "zones": ["a", "b", "c"]}]}
    outage = {"nodes": {"zone": "a"}, "how": "power-loss"}
    book = await told(tmp_path, {"at": "2m", "name": "outage", "for": "2m", "fail": outage}, cluster=zones)
    told_of = [r for r in book.records if r.kind == "zone" and r.at_us > 120_000_000]
    assert [(r.values["state"], root(book, r)) for r in told_of] == [
        ("FullDisruption", "outage"),
        ("Normal", "outage"),
    ]


async def test_taints_come_off_because_the_last_node_fell_silent_and_all_are(tmp_path: Path) -> None:
    """The nodes lose the one API server that they use, and find the other one when their
    connections are dead.
    """
    two = {"nodes": [{"count": 3, "zones": ["a", "b", "c"]}], "apiServer": {"replicas": 2}}
    cut = {"between": ["nodes", "apiserver-0"]}
    book = await told(tmp_path, {"at": "2m", "name": "cut", "partition": cut}, cluster=two, seed=5)
    silenced = decisions(book, "unheard")
    assert silenced
    for record in silenced:
        node = f"//{record.values['target'].replace('nodes/', 'nodes//')}"
        facts = [r for r in about(book, node) if r.kind == "change" and r.at_us > 120_000_000]
        assert {"ready=Unknown", "ready=True", "taints=None"} <= {
            f"{r.values['what']}={r.values['after']}" for r in facts
        }
        assert {root(book, r) for r in facts} == {"cut"}


async def test_node_with_a_repaired_clock_is_silent_because_of_the_repair(tmp_path: Path) -> None:
    """What it says then is older than what it said before."""
    ahead = {"actor": "node-1", "offset": "10m"}
    again = {"at": "2m", "every": "63s", "times": 6, "for": "20s"}
    book = await told(tmp_path, {**again, "name": "ahead", "clock": ahead}, duration="10m")
    late = []
    for record in decisions(book, "unheard"):
        cause = book.chain(record)[-2]
        assert root(book, record).startswith("ahead/")
        late.append(
            cause.kind == "step-end" and record.at_us - record.values["why"]["silent_us"] > cause.at_us
        )
    assert any(late)  # received once more when the clock is already right


def six_to_eight(metric: dict[str, Any]) -> dict[str, Any]:
    """An autoscaler of the Deployment that has six pods, by one metric."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": target, "minReplicas": 6, "maxReplicas": 8, "metrics": [metric]},
    }


def up_by_the_rush_and_down_by_its_end(book: Book) -> Record:
    """That the autoscaler decided twice, and why; returns the first decision."""
    up, down = decisions(book, "autoscale")
    assert [r.kind for r in book.chain(up)] == ["step", "decision"]
    assert [r.kind for r in book.chain(down)] == ["step", "step-end", "decision"]
    assert {root(book, up), root(book, down)} == {"rush"}
    return up


async def test_autoscaling_follows_from_the_load_that_rose_and_from_its_end(tmp_path: Path) -> None:
    use = {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "1"}}
    scaler = six_to_eight({"type": "Resource", "resource": use})
    rush = {"selector": "app=web", "load": 8}
    book = await told(
        tmp_path,
        {"at": "2m", "name": "rush", "for": "2m", "workload": rush},
        {"at": "150s", "name": "other", "for": "10s", "workload": {"selector": "app=web", "stop": "5s"}},
        cluster={"nodes": [{"count": 3}], "metrics": True},
        objects=[WEB, scaler],
        duration="12m",
    )
    up = up_by_the_rush_and_down_by_its_end(book)
    assert book.line(up, None).text == "scales deployments/default/web from 6 to 8: cpu resource above target"
    made = [r for r in pods(book, "create", 120_000_000) if r.at_us < 240_000_000]
    assert [root(book, r) for r in made] == ["rush"] * 2


WHOLE = {"type": "Value", "value": "10"}
SHARE = {"type": "AverageValue", "averageValue": "2"}
SERVED = {"apiVersion": "v1", "kind": "Service", "name": "web"}


@pytest.mark.parametrize(
    ("told_of", "kind", "source"),
    [
        ({}, "External", {"target": WHOLE}),
        ({"of": "services/web"}, "Object", {"describedObject": SERVED, "target": WHOLE}),
        ({"of": "pods", "selector": "app=web"}, "Pods", {"target": SHARE}),
    ],
)
async def test_scaling_is_caused_by_the_measured_value_also_after_an_earlier_one_returns(
    told_of: dict[str, str], kind: str, source: dict[str, Any], tmp_path: Path
) -> None:
    """Of two series only that which the selector finds counts."""
    named = {"name": "m", "selector": {"matchLabels": {"queue": "mail"}}}
    scaler = six_to_eight({"type": kind, kind.lower(): {"metric": named, **source}})
    mail = {"name": "m", "labels": {"queue": "mail"}, **told_of}
    key = "load" if kind == "Pods" else "value"
    low, high = (12, 16) if kind == "Pods" else (7, "13500m")
    book = await told(
        tmp_path,
        {"at": "1m", "name": "calm", "metric": {**mail, key: low}},
        {"at": "1m", "name": "other", "metric": {**mail, "labels": {"queue": "news"}, key: 900}},
        {"at": "2m", "name": "rush", "for": "2m", "metric": {**mail, key: high}},
        cluster={"nodes": [{"count": 3}], "metrics": True},
        objects=[WEB, scaler],
        duration="12m",
    )
    up_by_the_rush_and_down_by_its_end(book)


async def test_delayed_records_and_those_found_by_a_new_leader_keep_their_causes(
    tmp_path: Path,
) -> None:
    """The API rejects everything; during that time a node runs short of memory, and leaders lose
    their leases.
    """
    refusing = {"apiServer": "apiserver-0", "inflight": 0}
    short = {"nodes": {"name": "node-1"}, "resource": "memory", "available": "50Mi"}
    book = await told(
        tmp_path,
        {"at": "2m", "name": "refusing", "for": "60s", "overload": refusing},
        {"at": "150s", "name": "short", "for": "60s", "pressure": short},
        cluster={"nodes": [{"count": 3}], "controllerManager": {"replicas": 2}},
    )
    pressed = chosen(about(book, "//nodes//node-1"), "pressures")
    assert pressed is not None and root(book, pressed) == "short"
    under = chosen(about(book, "//nodes//node-1"), "pressures=MemoryPressure")
    assert under is not None
    assert under.at_us > 180_000_000 and root(book, under) == "short"
    failed = [r for r in book.records if r.kind == "change" and r.values["after"] == "Failed"]
    replaced = pods(book, "create", 120_000_000)
    assert replaced and len(failed) == len(replaced)
    assert {root(book, r) for r in (*failed, *replaced)} == {"short"}
    assert decisions(book, "take-over")


async def test_effects_of_a_duplicated_request_are_caused_by_the_duplication(
    tmp_path: Path,
) -> None:
    doubled = {"network": {"between": ["controller-manager", "apiserver"], "duplication": 0.5}}
    book = await told(
        tmp_path,
        {"at": "2m", "for": "3m", "name": "proxy", **doubled},
        {"at": "3m", "name": "more", "scale": {"resource": "deployments", "name": "web", "replicas": 30}},
        duration="6m",
    )
    made = [root(book, r) for r in pods(book, "create", 180_000_000)]
    marked = [
        r for r in pods(book, "delete", 180_000_000) if r.values["user"].endswith(":replicaset-controller")
    ]
    surplus = len(made) - 24
    assert set(made) == {"more", "proxy"} and made.count("proxy") >= surplus == len(marked) >= 3


async def test_process_faults_are_described_once_at_their_begin_and_once_at_their_end(
    tmp_path: Path,
) -> None:
    server = {"apiServer": "apiserver-0"}
    book = await told(
        tmp_path,
        {"at": "2m", "for": "1s", "overload": {**server, "by": "2s"}},
        {"at": "2m10s", "for": "1s", "overload": {**server, "by": "1500ms", "inflight": 5}},
        {"at": "2m20s", "for": "1s", "lag": {**server, "by": "5s"}},
        {"at": "2m30s", "for": "1s", "diverge": server},
        {"at": "2m40s", "for": "1s", "storage": {"how": "lost-quorum"}},
        {"at": "2m50s", "for": "1s", "storage": {"how": "slow", "by": "300ms"}},
        {"at": "3m", "for": "1s", "slow": {"actor": "scheduler-0", "by": "40ms"}},
        {"at": "3m10s", "for": "1s", "stall": {"actor": "scheduler-0"}},
        {"at": "3m20s", "for": "1s", "workload": {"cpu": "250m"}},
        cluster={"nodes": [{"count": 3}], "metrics": True},
        duration="4m",
    )
    befell = [r for r in book.records if r.kind == "actor" and r.at_us >= 120_000_000]
    words = [book.line(r, None).text for r in befell]
    assert words[::2] == [
        "is overloaded: requests take 2s longer",
        "is overloaded: requests take 1.5s longer, 5 at once",
        "its watch caches lag: by 5s",
        "its watch caches are frozen",
        "has no quorum",
        "its disk becomes slow: by 300ms",
        "becomes slow: by 40ms",
        "stands still",
    ]
    assert words[1::2] == [
        "is overloaded no more",
        "is overloaded no more",
        "its watch caches no longer lag",
        "its watch caches follow the storage again",
        "has a quorum again",
        "its disk is slow no more",
        "goes on",
        "goes on",
    ]
    last = [r for r in book.records if r.kind == "step"][-1]
    assert "; cpu 250m (" in book.line(last, None).text


async def test_taint_is_caused_by_the_active_fault_and_not_by_one_that_had_ended(
    tmp_path: Path,
) -> None:
    """The controllers receive a cordon, its end and pressure at once, when the cache resumes."""
    node = {"name": "node-1"}
    short = {"nodes": node, "resource": "memory", "available": "50Mi"}
    book = await told(
        tmp_path,
        {"at": "100s", "name": "frozen", "for": "30s", "diverge": {"apiServer": "apiserver"}},
        {"at": "102s", "name": "cordon", "for": "2s", "cordon": {"nodes": node}},
        {"at": "106s", "name": "short", "for": "3m", "pressure": short},
    )
    tainted = [
        r for r in book.records if r.kind == "change" and r.values["what"] == "taints" and r.values["after"]
    ]
    found = [r for r in tainted if r.values["after"] == ("node.orch.io/memory-pressure:NoSchedule",)]
    assert [(r.at_us // 1_000_000, root(book, r)) for r in found] == [(130, "short")]
