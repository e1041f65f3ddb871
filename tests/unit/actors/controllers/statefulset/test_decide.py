"""The order of a StatefulSet's acts."""

from __future__ import annotations

from typing import Any

import pytest

from actors.controllers.statefulset.decide import (
    Act,
    Plan,
    Revisions,
    _wants_current,
    identity_matches,
    is_inconsistent,
    ordinal_of,
    status_of,
    steps,
)
from sim.api.types import Obj
from sim.ident import NAMES
from sim.units import parse_time

NAMES_ORCH = NAMES["orch"]
TEMPLATE: Obj = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}


def stateful(replicas: int, **spec: Any) -> Obj:
    base = {"replicas": replicas, "serviceName": "s", "selector": {"matchLabels": {"app": "web"}}}
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    meta = {"name": "web", "namespace": "d", "uid": "u", "generation": 1}
    return {"metadata": meta, "spec": {**base, "updateStrategy": strategy, "template": TEMPLATE, **spec}}


def pod(ordinal: int, ready: bool = True, revision: str = "r1", **meta: Any) -> Obj:
    name = f"web-{ordinal}"
    labels = {
        NAMES_ORCH.label_controller_revision_hash: revision,
        NAMES_ORCH.label_statefulset_pod_name: name,
    }
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "metadata": {"name": name, "namespace": "d", "uid": f"u{ordinal}", "labels": labels, **meta},
        "spec": {},
        "status": {"phase": "Running", "conditions": conditions},
    }


def run(
    owner: Obj, pods: list[Obj], update: str = "r1", fail: bool = False, several: bool = False
) -> tuple[list[str], Plan]:
    revisions = Revisions("r1", update, TEMPLATE, TEMPLATE)
    plan = Plan(owner, {}, revisions, pods, NAMES_ORCH, 0, several=several)
    acts: list[Act] = []
    generator = steps(plan)
    try:
        acts.append(next(generator))
        while True:
            acts.append(generator.send("refused" if fail else None))
    except StopIteration:
        pass
    return [f"{act.verb.value} {act.pod['metadata']['name']}" for act in acts], plan


PARALLEL = {"podManagementPolicy": "Parallel"}
GOING: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def test_ordered_set_creates_one_pod_and_waits_for_it() -> None:
    assert run(stateful(3), [])[0] == ["create web-0"]
    assert run(stateful(3), [pod(0, ready=False)])[0] == []
    assert run(stateful(3), [pod(0)])[0] == ["create web-1"]


def test_parallel_set_creates_all_pods_at_once() -> None:
    assert run(stateful(3, **PARALLEL), [pod(1, ready=False)])[0] == ["create web-0", "create web-2"]


def test_ordered_set_scales_down_from_the_top_and_waits_for_terminating_pods() -> None:
    pods = [pod(0), pod(1), pod(2)]
    assert run(stateful(1), pods)[0] == ["delete web-2"]
    assert run(stateful(1), [pod(0), pod(1), pod(2, **GOING)])[0] == []
    assert run(stateful(1, **PARALLEL), pods)[0] == ["delete web-2", "delete web-1"]


def test_unready_surplus_pod_is_deleted_only_if_it_is_the_first_unhealthy_one() -> None:
    assert run(stateful(1), [pod(0), pod(1), pod(2, ready=False)])[0] == ["delete web-2"]
    assert run(stateful(1), [pod(0), pod(1, ready=False), pod(2, ready=False)])[0] == []


def test_update_replaces_one_pod_from_the_top_even_in_parallel_set() -> None:
    pods = [pod(0), pod(1), pod(2)]
    assert run(stateful(3, **PARALLEL), pods, update="r2")[0] == ["delete web-2"]
    newest = [pod(0), pod(1), pod(2, ready=False, revision="r2")]
    assert run(stateful(3, **PARALLEL), newest, update="r2")[0] == []
    on_delete = stateful(3, updateStrategy={"type": "OnDelete"})
    assert run(on_delete, pods, update="r2")[0] == []


@pytest.mark.parametrize(("partition", "ordinals"), [(None, [2, 1, 0]), (0, [2, 1, 0]), (2, [2])])
def test_update_of_several_pods_goes_down_to_the_partition(
    partition: int | None, ordinals: list[int]
) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": partition, "maxUnavailable": 3}}
    pods = [pod(0), pod(1), pod(2)]
    acts, _ = run(stateful(3, updateStrategy=strategy), pods, update="r2", several=True)
    assert acts == [f"replace web-{ordinal}" for ordinal in ordinals]


def test_update_of_several_pods_replaces_one_by_default_and_none_that_terminates() -> None:
    def acts(going: bool, **limit: int) -> list[str]:
        strategy = {"type": "RollingUpdate", "rollingUpdate": limit}
        pods = [pod(0), pod(1), pod(2, **(GOING if going else {}))]
        return run(stateful(3, updateStrategy=strategy, **PARALLEL), pods, update="r2", several=True)[0]

    assert acts(going=False) == ["replace web-2"]
    assert acts(going=True, maxUnavailable=2) == ["replace web-1"]


def test_set_being_deleted_does_nothing() -> None:
    owner = stateful(3)
    owner["metadata"].update(GOING)
    assert run(owner, [])[0] == []


def test_failed_pod_is_deleted_and_recreated_in_one_sync() -> None:
    failed = {**pod(0), "status": {"phase": "Failed"}}
    assert run(stateful(1), [failed])[0] == ["recreate web-0", "delete web-0", "create web-0"]


def test_status_counts_only_acts_that_succeeded() -> None:
    _, plan = run(stateful(1), [], fail=True)
    assert status_of(plan, 0)["replicas"] == 0
    _, plan = run(stateful(1), [])
    status = status_of(plan, 0)
    assert (status["replicas"], status["currentReplicas"], status["updatedReplicas"]) == (1, 1, 1)
    assert status["availableReplicas"] == 0


def test_update_revision_becomes_current_when_all_pods_have_it_and_are_ready() -> None:
    _, plan = run(stateful(1), [pod(0, revision="r2")], update="r2")
    assert status_of(plan, 0)["currentRevision"] == "r2"


def test_only_set_name_with_a_number_makes_a_pod_a_member() -> None:
    assert ordinal_of(stateful(1), pod(12)) == 12
    assert ordinal_of(stateful(1), pod(0, name="other-0")) == -1
    assert ordinal_of(stateful(1), pod(0, name="web-x")) == -1


def test_ordered_set_waits_for_surplus_pod_unless_it_is_the_first_unhealthy() -> None:
    owner = stateful(1, minReadySeconds=10)
    fresh = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    old = {**fresh, "lastTransitionTime": "2020-01-01T00:00:00Z"}

    def seen(ordinal: int, condition: Obj) -> Obj:
        return {**pod(ordinal), "status": {"phase": "Running", "conditions": [condition]}}

    now_us = parse_time("2026-01-01T00:00:05Z")
    pods = [seen(0, old), seen(1, fresh)]
    plan = Plan(owner, {}, Revisions("r1", "r1", TEMPLATE, TEMPLATE), pods, NAMES_ORCH, now_us)
    assert list(steps(plan)) == []
    plan.wall_us = now_us + 10_000_000
    assert [act.pod["metadata"]["name"] for act in steps(plan)] == ["web-1"]


def test_name_with_leading_zeros_is_repaired() -> None:
    padded = {**pod(0), "metadata": {**pod(0)["metadata"], "name": "web-00"}}
    assert ordinal_of(stateful(1), padded) == 0
    assert run(stateful(1), [padded])[0] == ["update web-00"]
    assert ordinal_of(stateful(1), {"metadata": {"name": "web-2147483648"}}) == -1
    assert ordinal_of(stateful(1), {"metadata": {"name": "web-2147483647"}}) == 2147483647


def test_collision_count_alone_causes_no_status_write() -> None:
    status = status_of(run(stateful(1), [pod(0)])[1], 0)
    assert not is_inconsistent(status, {**status, "collisionCount": 3})
    assert is_inconsistent(status, {**status, "readyReplicas": 0})
    assert is_inconsistent(status, {**status, "updateRevision": "r2"})


def test_ordinals_below_the_partition_or_the_old_count_keep_their_revision() -> None:
    parted = stateful(3, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 2}})
    assert [_wants_current(parted, each) for each in range(3)] == [True, True, False]
    for kind, expected in (("RollingUpdate", [True, False]), ("OnDelete", [False, False])):
        owner = {**stateful(2, updateStrategy={"type": kind}), "status": {"currentReplicas": 1}}
        assert [_wants_current(owner, each) for each in range(2)] == expected


def test_pod_without_the_label_of_its_name_lacks_its_identity() -> None:
    pod = {"metadata": {"name": "web-7"}}
    assert not identity_matches(stateful(8), pod, 7, NAMES_ORCH)
    pod["metadata"]["labels"] = {NAMES_ORCH.label_statefulset_pod_name: "web-7"}
    assert identity_matches(stateful(8), pod, 7, NAMES_ORCH)
    assert not identity_matches(stateful(8), pod, 6, NAMES_ORCH)
