"""Chains of causes, the end that is meant, and the words for it."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.store import path_of
from sim.kernel import Record
from sim.report.perfetto import events
from sim.report.story import Book, about, choices, chosen, clock, names, notable, tell, who

POD = "//pods/default/web-1"
NODE = "//nodes//node-1"


def write(user: str, verb: str, key: str, rev: int) -> tuple[str, dict[str, Any]]:
    return "write", {"user": user, "verb": verb, "key": key, "rev": rev}


def change(key: str, what: str, before: Any, after: Any) -> tuple[str, dict[str, Any]]:
    return "change", {"key": key, "what": what, "before": before, "after": after}


def decision(actor: str, what: str, target: str, **why: Any) -> tuple[str, dict[str, Any]]:
    return "decision", {"actor": actor, "what": what, "target": target, "why": why}


def book(*rows: tuple[int, int, tuple[str, dict[str, Any]]]) -> Book:
    """Records of (at in ms, cause, (kind, values))."""
    return Book(
        Record(number, at * 1000, cause, kind, values)
        for number, (at, cause, (kind, values)) in enumerate(rows, 1)
    )


FAIL = {
    "name": "outage",
    "kind": "fail",
    "place": "z.yaml:3:7",
    "detail": {"nodes": ("a", "b", "c", "d"), "how": "power-loss"},
}
OUTAGE = book(
    (0, 0, ("actor", {"what": "start", "name": "node-1", "reason": ""})),
    (1, 1, write("system:node:node-1", "create", NODE, 5)),
    (2, 2, change(NODE, "ready", None, "True")),
    (3, 1, write("admin", "create", POD, 6)),
    (4, 4, change(POD, "phase", None, "Pending")),
    (300_000, 0, ("step", FAIL)),
    (300_000, 6, ("actor", {"what": "crash", "name": "node-1", "reason": "power loss"})),
    (341_000, 7, decision("manager-0", "unheard", "nodes/node-1", silent_us=41_000_000, lease="5")),
    (341_100, 8, write("system:orch-controller-manager", "update status", NODE, 7)),
    (341_100, 9, change(NODE, "ready", "True", "Unknown")),
    (
        400_000,
        0,
        decision("manager-1", "take-over", "leases/s/m", silent_us=16_000_000, holder="manager-0_x"),
    ),
    (641_000, 9, decision("manager-1", "evict", "pods/default/web-1", node="node-1")),
    (641_000, 12, write("system:orch-controller-manager", "delete", POD, 8)),
    (641_000, 13, change(POD, "deleting", None, "2026-01-01T00:00:00Z")),
    (641_000, 13, change(POD, "phase", "Pending", "Failed")),
)


def test_a_story_goes_from_the_fault_to_the_end_with_what_each_did() -> None:
    lines = OUTAGE.story(notable(about(OUTAGE, POD)))
    assert [(line.ident, line.delta_us, line.actor, line.text) for line in lines if not line.aside] == [
        (6, None, "scenario", 'step "outage": fail power-loss; nodes a, b, c and 1 more (z.yaml:3:7)'),
        (7, 0, "node-1", "the process is gone: power loss"),
        (
            8,
            41_000_000,
            "manager-0",
            "has had no heartbeat of nodes/node-1 for 41s: it becomes Unknown; last renewal at 0m00.001s, "
            "seen at 5m00.000s",
        ),
        (9, 100_000, "orch-controller-manager", "updates the status of nodes/node-1: ready True → Unknown"),
        (
            12,
            299_900_000,
            "manager-1",
            "evicts pods/default/web-1: its time on a tainted node is over",
        ),
        (
            13,
            0,
            "orch-controller-manager",
            "deletes pods/default/web-1: marked for deletion, phase Pending → Failed",
        ),
    ]


def test_control_plane_faults_during_a_long_link_are_shown_aside() -> None:
    lines = OUTAGE.story(OUTAGE.records[12])
    assert [(line.ident, line.text) for line in lines if line.aside] == [
        (11, "(takes over leases/s/m: manager-0 has not renewed it for 16s)")
    ]


def test_step_that_started_a_process_by_its_end_is_shown_aside() -> None:
    """To see it fail: show only the start of the process."""
    away = {**FAIL, "name": "away", "kind": "driver", "detail": {"name": "d", "how": "away"}}
    grown = book(
        (0, 0, ("step", away)),
        (0, 1, ("actor", {"what": "crash", "name": "csi-d", "reason": "the driver is away"})),
        (1_000, 0, write("admin", "create", POD, 6)),
        (90_000, 1, ("step-end", {"name": "away", "step": 1})),
        (90_000, 4, ("actor", {"what": "start", "name": "csi-d", "reason": ""})),
        (91_000, 3, write("scheduler", "update", POD, 7)),
    )
    lines = grown.story(grown.records[5])
    assert [(line.ident, line.text) for line in lines if line.aside] == [
        (4, '(end of step "away": driver away; name d (z.yaml:3:7))'),
        (5, "(the process starts)"),
    ]


@pytest.mark.parametrize(
    ("key", "what", "ident"),
    [
        (POD, "created", 4),
        (POD, "deleted", 14),
        (POD, "phase", 15),
        (POD, "phase=Pending", 5),
        (NODE, "ready=True", 3),
        (NODE, "ready", 10),
        (NODE, "deleted", None),
        (NODE, "ready=False", None),
    ],
)
def test_the_end_of_an_object_can_be_chosen(key: str, what: str, ident: int | None) -> None:
    found = chosen(about(OUTAGE, key), what)
    assert (found.ident if found is not None else None) == ident


def test_the_notable_end_is_the_deletion_else_the_last_change_of_state() -> None:
    assert notable(about(OUTAGE, POD)).ident == 14
    assert notable(about(OUTAGE, NODE)).ident == 10
    assert choices(about(OUTAGE, POD)) == ["created", "deleted", "phase", "deleting"]


def test_of_several_objects_of_one_name_the_last_deletion_is_meant_however_it_came() -> None:
    gone = change(POD, "removed", None, True)
    marked = change(POD, "deleting", None, True)
    made = change(POD, "phase", None, "Pending")
    for rows, ident in (
        ((made, marked, gone, made, gone, made), 5),
        ((made, gone, made, marked, gone, made), 4),
        ((made, marked, gone, made, marked), 5),
        ((made, marked), 2),
    ):
        found = about(book(*((at, 0, row) for at, row in enumerate(rows))), POD)
        assert notable(found).ident == ident
        deleted = chosen(found, "deleted")
        assert deleted is not None and deleted.ident == ident


def test_the_notable_end_is_none_that_an_object_began_with() -> None:
    pressed = book(
        (0, 0, write("n", "create", NODE, 1)),
        (0, 1, change(NODE, "ready", None, "True")),
        (9, 0, write("n", "update status", NODE, 2)),
        (9, 3, change(NODE, "pressures", None, ("DiskPressure", "PIDPressure"))),
        (12, 0, write("n", "update status", NODE, 3)),
        (12, 5, change(NODE, "pressures", ("DiskPressure", "PIDPressure"), ("PIDPressure",))),
    )
    found = about(pressed, NODE)
    assert notable(found).ident == 6
    assert notable(found[:2]).ident == 2
    for what, ident in (
        ("DiskPressure=True", 4),
        ("diskpressure=False", 6),
        ("PIDPressure", 4),
        ("Ready=true", 2),
        ("MemoryPressure", None),
    ):
        record = chosen(found, what)
        assert (record and record.ident) == ident, what


def test_a_taint_that_came_and_a_value_may_be_asked_for_by_themselves() -> None:
    closed, given_up = "x/unreachable:NoSchedule", "x/unreachable:NoExecute"
    tainted = book(
        (0, 0, write("n", "create", NODE, 1)),
        (0, 1, change(NODE, "ready", None, "True")),
        (9, 0, write("m", "patch", NODE, 2)),
        (9, 3, change(NODE, "taints", None, (closed,))),
        (12, 0, write("m", "patch", NODE, 3)),
        (12, 5, change(NODE, "taints", (closed,), (given_up, closed))),
        (20, 0, write("m", "patch", NODE, 4)),
        (20, 7, change(NODE, "taints", (given_up, closed), None)),
    )
    found = about(tainted, NODE)
    for what, ident in (
        ("NoExecute", 6),
        ("taint unreachable:NoSchedule", 4),
        ("unreachable", 6),
        ("taint", 6),
        ("taints", 8),
        ("true", 2),
        ("not-ready", None),
    ):
        record = chosen(found, what)
        assert (record and record.ident) == ident, what


def test_a_renewal_by_a_clock_that_is_behind_is_said_not_to_count() -> None:
    skewed = book(
        (0, 0, write("system:node:node-1", "update", "/c/leases/orch-node-lease/node-1", 4)),
        (41_000, 1, write("system:node:node-1", "update", "/c/leases/orch-node-lease/node-1", 5)),
        (41_200, 1, decision("manager-0", "unheard", "nodes/node-1", silent_us=40_000_000, lease="5")),
    )
    text = skewed.story(skewed.records[-1])[-1].text
    assert text.endswith("; the renewal at 0m41.000s has no later time, and does not count")


@pytest.mark.parametrize(
    ("kind", "detail", "told"),
    [
        (
            "partition",
            {"sources": ["a"], "targets": ["x", "y"], "cut": True, "one_way": True, "loss": 0.0, "duplication": 0.0},
            "partition from a to x, y",
        ),
        (
            "network",
            {"sources": ["a"], "targets": ["x"], "cut": False, "one_way": False, "latency_us": [50_000, 200_000], "loss": 0.01, "duplication": 0.0},
            "network between a and x; loss 0.01; latency 50ms to 200ms",
        ),
        ("cordon", {"nodes": ["a"], "on": True}, "cordon nodes a"),
        ("taint", {"nodes": ["a"], "taints": [{"key": "k", "value": "v", "effect": "NoExecute"}], "on": True}, "taint nodes a; taints k=v:NoExecute"),
        ("metric", {"name": "queue", "value_milli": 300_000, "namespace": "default", "labels": {"q": "a"}, "kind": "", "about": "", "load": False}, "metric name queue; namespace default; labels q=a; value 300"),
        ("metric", {"name": "hits", "value_milli": 500, "kind": "Pod", "selector": {"app": "w"}, "load": True}, "metric name hits; kind Pod; selector app=w; shared; value 500m"),
        ("untaint", {"nodes": ["a"], "taints": [{"key": "k"}], "on": False}, "untaint nodes a; taints k"),
        ("crash", {"what": "terminate", "actors": ["s"]}, "crash gracefully; actors s"),
        ("slow", {"what": "slow", "actors": ["s"], "amount_us": 50_000}, "slow actors s; by 50ms"),
        ("clock", {"actors": ["a"], "offset_us": 0, "drift_ppm": 500}, "clock actors a; drift ppm 500"),
        ("workload", {"nodes": ["a"], "prefix": "web-", "unready": False, "stop_us": -1}, "workload nodes a; name web-*; ready; never stops"),
        ("workload", {"nodes": ["a"], "exit_after_us": 0, "exit_code": 0}, "workload nodes a; exit code 0; exit after 0s"),
        ("load", {"mean_gap_us": 500_000, "list_of": "pods"}, "load lists pods; one each 500ms on average"),
        ("load", {"mean_gap_us": 10_000, "scale": ["deployments", "default", "web", 3, 12]}, "load scales deployments/default/web from 3 to 12; one each 10ms on average"),
        ("pressure", {"nodes": ["a"], "resource": "memory", "available": 80 << 20, "ramp_us": 0}, "pressure nodes a; resource memory; available 80Mi"),
    ],
)  # fmt: skip
def test_step_is_described_in_words_without_empty_parts(kind: str, detail: dict[str, Any], told: str) -> None:
    record = Record(1, 0, 0, "step", {"name": "s", "kind": kind, "place": "f:1:1", "detail": detail})
    assert tell(record) == f'step "s": {told} (f:1:1)'


def test_times_and_names_read_as_people_write_them() -> None:
    assert [clock(us) for us in (0, 61_500_000, 600_000_999, 3_723_004_000)] == [
        "0m00.000s",
        "1m01.500s",
        "10m00.000s",
        "1h02m03.004s",
    ]
    assert path_of("/apps/deployments/default/web") == "deployments/default/web"
    assert names(["a", "b"]) == "a, b"


def test_every_kind_of_record_has_words_and_an_unknown_one_its_values() -> None:
    assert tell(Record(1, 0, 0, "new", {"a": 1, "b": ("x", "y")})) == "a 1, b x, y"
    placed = Record(1, 0, 0, "schedule", {"pod": "default/a", "node": "", "message": "none fits"})
    assert tell(placed) == "finds no node for pods/default/a: none fits"
    strange = decision("a", "ponders", "x", deep=True)
    assert tell(Record(1, 0, 0, *strange)) == "ponders x (deep True)"


def test_perfetto_gets_tracks_lasting_slices_arrows_between_tracks_and_counters() -> None:
    made = list(events(OUTAGE))
    named = {(e["pid"], e["tid"]): e["args"]["name"] for e in made if e["name"] == "thread_name"}
    down = next(e for e in made if e["name"] == "the process is gone: power loss")
    assert (named[down["pid"], down["tid"]], down["ts"], down["dur"]) == ("node-1", 300_000_000, 341_000_000)
    arrows = [(e["id"], e["ph"]) for e in made if e["ph"] in "sf"]
    assert (8, "s") in arrows and (8, "f") in arrows
    assert [e["args"] for e in made if e["name"] == "nodes"] == [{"ready": 1}, {"ready": 0}]
    tracks = {(e["pid"], e["tid"]) for e in made if e["ph"] == "X"}
    assert tracks <= named.keys()


def test_slices_of_a_perfetto_track_are_disjoint_or_nested_with_one_per_arrow() -> None:
    def step(name: str) -> tuple[str, dict[str, Any]]:
        return "step", {**FAIL, "name": name}

    def end(name: str) -> tuple[str, dict[str, Any]]:
        return "step-end", {"name": name, "step": 0}

    def process(what: str) -> tuple[str, dict[str, Any]]:
        return "actor", {"what": what, "name": "node-1", "reason": ""}

    overlapping = book(
        (10, 0, step("one")),
        (10, 1, process("crash")),
        (20, 0, step("two")),
        (20, 3, process("pause")),
        (25, 0, step("moment")),
        (30, 0, end("one")),
        (30, 6, process("start")),
        (30, 3, process("pause")),
        (30, 0, step("three")),
        (40, 3, end("two")),
        (40, 10, process("resume")),
        (50, 9, end("three")),
    )
    made = list(events(overlapping))
    named = {(e["pid"], e["tid"]): e["args"]["name"] for e in made if e["name"] == "thread_name"}
    slices = [(e["ts"], e["ts"] + e["dur"], named[e["pid"], e["tid"]]) for e in made if e["ph"] == "X"]
    assert len(slices) == len(overlapping.records)
    lasting = [one for one in slices if one[1] - one[0] > 1]
    assert sorted(lasting) == [
        (10_000, 20_000, "node-1"),
        (10_000, 30_000, "scenario"),
        (20_000, 30_000, "node-1"),
        (20_000, 40_000, "scenario 2"),
        (30_000, 40_000, "node-1"),
        (30_000, 50_000, "scenario"),
    ]
    for number, (start, stop, track) in enumerate(slices):
        assert not [one for one in slices[:number] if one[2] == track and start < one[0] < stop < one[1]]
        assert not [one for one in slices[:number] if one[2] == track and one[0] < start < one[1] < stop]
        assert not [one for one in slices[:number] if one[2] == track and one[0] == start and one[1] < stop]
    ends = [(e["ts"], named[e["pid"], e["tid"]]) for e in made if e["ph"] in "sf"]
    assert (40_000, "scenario 2") in ends
    assert all(any(s <= at < e and on == track for s, e, track in slices) for at, on in ends)


def test_story_shows_the_first_and_last_of_equal_failures_in_a_row() -> None:
    def failed(error: str) -> tuple[str, dict[str, str]]:
        return "sync-error", {"queue": "replicaset", "key": "default/web", "error": error}

    kinds = [("start", {}), *[failed("is forbidden")] * 4, *[failed("not found")] * 2, failed("is forbidden")]
    records = [
        Record(number, number * 1000, number - 1, kind, values)
        for number, (kind, values) in enumerate(kinds, 1)
    ]
    lines = Book(records).story(records[-1])
    assert [(line.ident, line.text) for line in lines[1:]] == [
        (2, "replicaset: sync of default/web failed: is forbidden"),
        (5, "replicaset: sync of default/web failed the same way 3 more times"),
        (6, "replicaset: sync of default/web failed: not found"),
        (7, "replicaset: sync of default/web failed: not found"),
        (8, "replicaset: sync of default/web failed: is forbidden"),
    ]
    assert [line.delta_us for line in lines[1:3]] == [1000, 3000]


@pytest.mark.parametrize(
    ("user", "shown"),
    [
        ("system:node:node-1", "node-1"),
        ("system:orch-scheduler", "orch-scheduler"),
        ("system:serviceaccount:orch-system:job-controller", "job-controller"),
        ("system:serviceaccount:shop:web", "serviceaccount:shop:web"),
        ("admin", "admin"),
    ],
)
def test_user_is_shown_in_short(user: str, shown: str) -> None:
    assert who(Record(1, 0, 0, *write(user, "create", POD, 1))) == shown
