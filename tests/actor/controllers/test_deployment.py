"""The Deployment and ReplicaSet controllers against the real API server."""

from __future__ import annotations

import pytest

from actors.controllers.shared.pod_template_hash import pod_template_hash
from sim.api.types import Obj
from sim.units import SECOND
from tests.actor.controllers.workload import World, template, workload, world

LOOPS = ("replicaset", "deployment")


async def roll(w: World, **labels: str) -> None:
    await w.patch("deployments", "web", {"spec": {"template": {"metadata": {"labels": labels}}}})


async def by_version(w: World) -> dict[str, Obj]:
    return {rs["spec"]["template"]["metadata"]["labels"]["v"]: rs for rs in await w.stored("replicasets")}


def reasons(deployment: Obj) -> dict[str, str]:
    return {c["type"]: c["reason"] for c in deployment["status"]["conditions"]}


async def test_deployment_becomes_available_and_reports_it() -> None:
    async with world(LOOPS) as w:
        await w.create("deployments", workload("Deployment", "web", replicas=2))
        await w.settle()
        (rs,) = await w.stored("replicasets")
        meta, names = rs["metadata"], w.plane.server.scheme.names
        hashed = meta["labels"][names.label_pod_template_hash]
        assert meta["name"] == f"web-{hashed}"
        assert meta["annotations"][names.annotation_desired_replicas] == "2"
        assert meta["annotations"][names.annotation_max_replicas] == "3"
        await w.make_all_ready()
        await w.settle()
        stored = await w.get("deployments", "web")
        assert stored["metadata"]["annotations"][names.annotation_revision] == "1"
        assert reasons(stored) == {
            "Available": "MinimumReplicasAvailable",
            "Progressing": "NewReplicaSetAvailable",
        }
        assert await w.events("web") == [("ScalingReplicaSet", f"Scaled up replica set {meta['name']} to 2")]


async def test_rollout_stops_at_surge_and_unavailable_until_new_pods_are_ready() -> None:
    async with world(LOOPS) as w:
        await w.create(
            "deployments", workload("Deployment", "web", replicas=4, template=template("web", v="1"))
        )
        await w.settle()
        await w.make_all_ready()
        await w.settle()
        await roll(w, v="2")
        await w.settle()
        sizes = {v: rs["spec"]["replicas"] for v, rs in (await by_version(w)).items()}
        assert sizes == {"1": 3, "2": 2}  # 25% of 4 each: at most 5 pods, at least 3 available
        for _ in range(3):
            await w.make_all_ready()
            await w.settle()
        sets = await by_version(w)
        assert {v: rs["spec"]["replicas"] for v, rs in sets.items()} == {"1": 0, "2": 4}
        texts = [text for _, text in await w.events("web")]
        old, new = sets["1"]["metadata"]["name"], sets["2"]["metadata"]["name"]
        if texts != [
            f"Scaled up replica set {old} to 4",
            f"Scaled up replica set {new} to 1",
            f"Scaled down replica set {old} to 3 from 4",
            f"Scaled up replica set {new} to 2 from 1",
            f"Scaled down replica set {old} to 2 from 3",
            f"Scaled up replica set {new} to 3 from 2",
            f"Scaled down replica set {old} to 1 from 2",
            f"Scaled up replica set {new} to 4 from 3",
            f"Scaled down replica set {old} to 0 from 1",
        ]:
            assert len(texts) >= 6


async def test_pods_still_counted_by_a_scaled_down_set_cause_no_further_scale_down() -> None:
    """The ReplicaSet controller lags: its status counts pods of a size that was reduced before."""
    async with world(["deployment"]) as w:
        for version, size, available in (("1", 3, 3), ("2", 0, 2), ("3", 2, 1)):
            made = workload("ReplicaSet", "web", replicas=size, template=template("web", v=version))
            made["metadata"] = {"name": f"web-{version}", "labels": {"app": "web"}}
            await w.create("replicasets", made)
            counts = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas"), available)
            await w.patch("replicasets", f"web-{version}", {"status": counts}, "status")
        made = workload("Deployment", "web", replicas=4, template=template("web", v="3"))
        await w.create("deployments", made)
        await w.settle()
        # 3 and 1 are available and 3 are required: one may be removed, not three.
        sizes = {v: rs["spec"]["replicas"] for v, rs in (await by_version(w)).items()}
        assert sizes == {"1": 2, "2": 0, "3": 3}


async def test_return_to_an_old_template_renumbers_its_replica_set() -> None:
    async with world(LOOPS) as w:
        await w.create(
            "deployments", workload("Deployment", "web", replicas=1, template=template("web", v="1"))
        )
        await w.settle()
        await roll(w, v="2")
        await w.settle()
        await roll(w, v="1")
        await w.settle()
        names = w.plane.server.scheme.names
        old = (await by_version(w))["1"]
        # No pod was ready, so the set keeps its own; its annotations change no generation.
        assert old["metadata"]["generation"] == 1 and "minReadySeconds" not in old["spec"]
        annotations = old["metadata"]["annotations"]
        assert annotations[names.annotation_revision] == "3"
        assert annotations[names.annotation_revision_history] == "1"
        stored = await w.get("deployments", "web")
        assert stored["metadata"]["annotations"][names.annotation_revision] == "3"


async def test_recreate_creates_no_pod_while_an_old_one_exists() -> None:
    async with world(LOOPS) as w:
        spec = {"replicas": 2, "strategy": {"type": "Recreate"}, "template": template("web", v="1")}
        await w.create("deployments", workload("Deployment", "web", **spec))
        await w.settle()
        blocked = (await w.names("pods"))[0]
        await w.patch("pods", blocked, {"metadata": {"finalizers": ["x.io/hold"]}})
        await roll(w, v="2")
        await w.settle()
        assert await w.names("pods") == [blocked]
        await w.patch("pods", blocked, {"metadata": {"finalizers": None}})
        await w.settle()
        versions = [pod["metadata"]["labels"]["v"] for pod in await w.stored("pods")]
        assert versions == ["2", "2"]


async def test_recreate_ignores_a_terminating_pod_with_changed_labels() -> None:
    """Its ReplicaSet no longer releases it, but the Deployment's selector does not match it."""
    async with world(LOOPS) as w:
        spec = {"replicas": 2, "strategy": {"type": "Recreate"}, "template": template("web", v="1")}
        await w.create("deployments", workload("Deployment", "web", **spec))
        await w.settle()
        relabelled, other = await w.names("pods")
        for blocked in (relabelled, other):
            await w.patch("pods", blocked, {"metadata": {"finalizers": ["x.io/hold"]}})
        await roll(w, v="2")
        await w.settle()
        await w.patch("pods", relabelled, {"metadata": {"labels": {"app": "x"}}})
        await w.patch("pods", other, {"metadata": {"finalizers": None}})
        await w.settle()
        versions = [pod["metadata"]["labels"]["v"] for pod in await w.stored("pods")]
        assert sorted(versions) == ["1", "2", "2"]


async def test_stuck_rollout_times_out_at_its_deadline() -> None:
    async with world(LOOPS) as w:
        await w.create("deployments", workload("Deployment", "web", replicas=1, progressDeadlineSeconds=60))
        await w.settle(50 * SECOND)
        assert reasons(await w.get("deployments", "web"))["Progressing"] == "ReplicaSetUpdated"
        await w.settle(20 * SECOND)
        stored = await w.get("deployments", "web")
        assert reasons(stored)["Progressing"] == "ProgressDeadlineExceeded"


async def test_paused_deployment_scales_but_does_not_roll() -> None:
    async with world(LOOPS) as w:
        await w.create(
            "deployments", workload("Deployment", "web", replicas=1, template=template("web", v="1"))
        )
        await w.settle()
        await w.patch("deployments", "web", {"spec": {"paused": True, "replicas": 3}})
        await roll(w, v="2")
        await w.settle()
        sets = await by_version(w)
        assert {v: rs["spec"]["replicas"] for v, rs in sets.items()} == {"1": 3}
        assert reasons(await w.get("deployments", "web"))["Progressing"] == "DeploymentPaused"


async def test_history_beyond_the_limit_is_deleted_oldest_first() -> None:
    async with world(LOOPS) as w:
        spec = {"replicas": 0, "revisionHistoryLimit": 1, "template": template("web", v="1")}
        await w.create("deployments", workload("Deployment", "web", **spec))
        for version in ("2", "3", "4"):
            await w.settle()
            await roll(w, v=version)
        await w.settle()
        assert sorted(await by_version(w)) == ["3", "4"]


@pytest.mark.parametrize("text", ["--5", "²", "1" * 5000, "99999999999999999999"])
async def test_invalid_number_annotations_stop_neither_rollout_nor_scaling(text: str) -> None:
    async with world(LOOPS) as w:
        names = w.plane.server.scheme.names
        await w.create(
            "deployments", workload("Deployment", "web", replicas=1, template=template("web", v="1"))
        )
        await w.settle()
        await w.make_all_ready()
        await w.settle()
        (old,) = await w.names("replicasets")
        keys = (
            names.annotation_revision,
            names.annotation_desired_replicas,
            names.annotation_max_replicas,
        )
        await w.patch("replicasets", old, {"metadata": {"annotations": dict.fromkeys(keys, text)}})
        await w.settle()
        await roll(w, v="2")
        await w.settle()
        for pod in await w.stored("pods"):
            if pod["metadata"]["labels"]["v"] == "2":
                await w.make_ready(pod["metadata"]["name"])
        await w.settle()
        await w.patch("deployments", "web", {"spec": {"replicas": 3}})
        await w.settle()
        sizes = {v: rs["spec"].get("replicas") for v, rs in (await by_version(w)).items()}
        assert sizes == {"1": 0, "2": 3}


async def test_rollback_to_an_invalid_number_is_ignored() -> None:
    async with world(LOOPS) as w:
        await w.create("deployments", workload("Deployment", "web", replicas=1))
        await w.settle()
        key = w.plane.server.scheme.names.annotation_rollback_to
        patch = {"metadata": {"annotations": {key: "the last"}}, "spec": {"replicas": 2}}
        await w.patch("deployments", "web", patch)
        await w.settle()
        assert [rs["spec"]["replicas"] for rs in await w.stored("replicasets")] == [2]
        assert [reason for reason, _ in await w.events("web")] == ["ScalingReplicaSet"] * 2


async def rolled_twice(w: World) -> None:
    first = template("web", v="1")
    await w.create("deployments", workload("Deployment", "web", replicas=1, template=first))
    await w.settle()
    await roll(w, v="2")
    await w.settle()


async def ask_for_rollback(w: World, revision: int) -> list[tuple[str, str]]:
    """Request a rollback; returns the events about it."""
    key = w.plane.server.scheme.names.annotation_rollback_to
    before = len(await w.events("web"))
    await w.patch("deployments", "web", {"metadata": {"annotations": {key: str(revision)}}})
    await w.settle()
    stored = await w.get("deployments", "web")
    assert key not in stored["metadata"]["annotations"]
    return [event for event in (await w.events("web"))[before:] if event[0] != "ScalingReplicaSet"]


async def test_rollback_event_is_recorded_after_the_write() -> None:
    """A conflict delays the rollback; the Deployment then gets a new revision number."""
    async with world(LOOPS) as w:
        await rolled_twice(w)
        w.quota.refuse_once("update", "deployments", 409, "Conflict", "the object has been modified")
        assert await ask_for_rollback(w, 0) == [
            ("DeploymentRollback", 'Rolled back deployment "web" to revision 1')
        ]
        names = w.plane.server.scheme.names
        stored = await w.get("deployments", "web")
        assert stored["spec"]["template"]["metadata"]["labels"] == {"app": "web", "v": "1"}
        assert stored["metadata"]["annotations"][names.annotation_revision] == "3"


async def test_rollback_without_target_records_the_reason() -> None:
    async with world(LOOPS) as w:
        await rolled_twice(w)
        reason = "DeploymentRollbackRevisionNotFound"
        assert await ask_for_rollback(w, 9) == [(reason, "Unable to find the revision to rollback to.")]
        text = 'The rollback revision contains the same template as current deployment "web"'
        assert await ask_for_rollback(w, 2) == [("DeploymentRollbackTemplateUnchanged", text)]
        # An old ReplicaSet without a number is not the last revision.
        key = w.plane.server.scheme.names.annotation_revision
        first = (await by_version(w))["1"]["metadata"]["name"]
        await w.patch("replicasets", first, {"metadata": {"annotations": {key: None}}})
        assert await ask_for_rollback(w, 0) == [(reason, "Unable to find last revision.")]


async def test_rollout_after_a_broken_one_removes_the_broken_pods_first() -> None:
    """Of 13 pods five may be removed: those that never became ready; the ready set keeps its eight."""
    async with world(LOOPS) as w:
        first = template("web", v="1")
        await w.create("deployments", workload("Deployment", "web", replicas=10, template=first))
        await w.settle()
        await w.make_all_ready()
        await w.settle()
        for version, wanted in (("2", {"1": 8, "2": 5}), ("3", {"1": 8, "2": 0, "3": 5})):
            await roll(w, v=version)
            await w.settle()
            sizes = {v: rs["spec"]["replicas"] for v, rs in (await by_version(w)).items()}
            assert sizes == wanted


async def test_rejected_replica_set_is_reported_and_dropped_after_fifteen_retries() -> None:
    """It stays dropped until the Deployment changes."""
    async with world(LOOPS) as w:
        w.quota.refuse(17, "create", "replicasets", 403, "Forbidden", "no")
        request_times = w.quota.watch("create", "replicasets")
        reported = w.watch_conditions("deployments")
        await w.create("deployments", workload("Deployment", "web", replicas=1))
        await w.settle(3600 * SECOND)
        assert len(request_times) == 16
        # The delays grow from 5 ms to 2^14 times that.
        assert round((request_times[-1] - request_times[-2]) / SECOND) == 82
        hashed = pod_template_hash((await w.get("deployments", "web"))["spec"]["template"], None)
        text = f'Failed to create new replica set "web-{hashed}": no'
        assert {*reported} == {("ReplicaSetCreateError", text)}
        assert {*await w.events("web")} == {("ReplicaSetCreateError", text)}
        await w.patch("deployments", "web", {"metadata": {"labels": {"x": "y"}}})
        await w.settle()
        assert len(request_times) == 18  # rejected once more, then created
        assert reported.index(("NewReplicaSetCreated", f'Created new replica set "web-{hashed}"')) > 0
        assert reasons(await w.get("deployments", "web")) == {
            "Available": "MinimumReplicasUnavailable",
            "Progressing": "ReplicaSetUpdated",
        }


async def test_existing_replica_set_name_is_a_collision_and_the_next_name_is_used() -> None:
    async with world(LOOPS) as w:
        reported = w.watch_conditions("deployments")
        await w.create("deployments", workload("Deployment", "web", replicas=1, paused=True))
        await w.settle()
        spec = (await w.get("deployments", "web"))["spec"]["template"]
        other = workload("ReplicaSet", "other", replicas=0)
        other["metadata"]["name"] = f"web-{pod_template_hash(spec, None)}"
        await w.create("replicasets", other)
        await w.patch("deployments", "web", {"spec": {"paused": None}})
        await w.settle()
        stored = await w.get("deployments", "web")
        assert stored["status"]["collisionCount"] == 1
        name = f"web-{pod_template_hash(spec, 1)}"
        assert await w.events("web") == [("ScalingReplicaSet", f"Scaled up replica set {name} to 1")]
        progress = [pair for pair in dict.fromkeys(reported) if not pair[0].startswith("MinimumReplicas")]
        assert progress == [
            ("DeploymentPaused", "Deployment is paused"),
            ("DeploymentResumed", "Deployment is resumed"),
            ("NewReplicaSetCreated", f'Created new replica set "{name}"'),
            ("ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.'),
        ]


async def test_orphan_with_the_present_template_is_adopted_as_new_replica_set() -> None:
    async with world(LOOPS) as w:
        found = workload("ReplicaSet", "web", replicas=2)
        found["metadata"] = {"name": "found", "labels": {"app": "web"}}
        await w.create("replicasets", found)
        await w.settle()
        await w.make_all_ready()
        await w.settle()
        reported = w.watch_conditions("deployments")
        made = await w.create("deployments", workload("Deployment", "web", replicas=2))
        await w.settle()
        (rs,) = await w.stored("replicasets")
        assert [(ref["uid"], ref["controller"]) for ref in rs["metadata"]["ownerReferences"]] == [
            (made["metadata"]["uid"], True)
        ]
        assert rs["metadata"]["annotations"] == {w.plane.server.scheme.names.annotation_revision: "1"}
        assert ("FoundNewReplicaSet", 'Found new replica set "found"') in reported
        assert reasons(await w.get("deployments", "web"))["Progressing"] == "NewReplicaSetAvailable"
        assert await w.events("web") == []


async def test_zero_value_field_is_no_template_change() -> None:
    """Go omits a zero that is no pointer: no new generation and no new ReplicaSet."""
    async with world(LOOPS) as w:
        await w.create("deployments", workload("Deployment", "web", replicas=1))
        await w.settle()
        before = await w.get("deployments", "web")
        zeros = {"hostNetwork": False, "hostname": "", "priorityClassName": "", "tolerations": []}
        await w.patch("deployments", "web", {"spec": {"paused": False, "template": {"spec": zeros}}})
        await w.settle()
        assert await w.get("deployments", "web") == before
        assert len(await w.names("replicasets")) == 1


async def test_min_ready_seconds_changes_without_a_new_replica_set() -> None:
    async with world(LOOPS) as w:
        await w.create("deployments", workload("Deployment", "web", replicas=1))
        await w.settle()
        for wanted in (5, 0):
            await w.patch("deployments", "web", {"spec": {"minReadySeconds": wanted}})
            await w.settle()
            (rs,) = await w.stored("replicasets")
            assert rs["spec"].get("minReadySeconds") == (wanted or None)


@pytest.mark.parametrize(
    ("sizes", "most", "surge", "reported"),
    [
        # 8 wanted and 3 more allowed, of 9: each gets 11/13 of its size, the larger gets the rest.
        ([5, 4], "13", 3, ["up replica set a to 8 from 5", "up replica set b to 3 from 4"]),
        # 8 of 9: each gets 8/3 of its size, and the first one can lose at most its own pods.
        (
            [3, 3, 3],
            "3",
            0,
            [
                "down replica set a to 0 from 3",
                "down replica set b to 8 from 3",
                "down replica set c to 8 from 3",
            ],
        ),
    ],
)
async def test_scaling_event_names_the_direction_of_the_total(
    sizes: list[int], most: str, surge: int, reported: list[str]
) -> None:
    async with world(("deployment",)) as w:
        names = w.plane.server.scheme.names
        known = {names.annotation_desired_replicas: "10", names.annotation_max_replicas: most}
        for name, size in zip("abc", sizes, strict=False):
            pods = template("web", v=name)
            made = workload("ReplicaSet", name, replicas=size, template=pods, selector=selecting(name))
            made["metadata"] |= {"labels": {"app": "web", "v": name}, "annotations": known}
            await w.create("replicasets", made)
        rolling = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": 5}}
        web = workload("Deployment", "web", replicas=8, template=template("web", v="b"), strategy=rolling)
        await w.create("deployments", web)
        await w.settle()
        events = [text for reason, text in await w.events("web") if reason == "ScalingReplicaSet"]
        assert events[: len(reported)] == [f"Scaled {text}" for text in reported]


async def test_saturated_new_set_scales_down_old_sets_newest_first() -> None:
    async with world(LOOPS) as w:
        names = w.plane.server.scheme.names
        for name, version, desired in (("z-first", "1", "9"), ("a-second", "2", "9"), ("new", "3", "1")):
            pods = template("web", v=version)
            made = workload("ReplicaSet", name, replicas=1, template=pods, selector=selecting(version))
            known = {names.annotation_desired_replicas: desired}
            made["metadata"] |= {"labels": {"app": "web", "v": version}, "annotations": known}
            await w.create("replicasets", made)
            await w.settle()
        await w.make_all_ready()
        await w.create(
            "deployments", workload("Deployment", "web", replicas=1, template=template("web", v="3"))
        )
        await w.settle()
        assert [text for _, text in await w.events("web")] == [
            "Scaled down replica set a-second to 0 from 1",
            "Scaled down replica set z-first to 0 from 1",
        ]


def selecting(version: str) -> Obj:
    return {"matchLabels": {"app": "web", "v": version}}
