"""The Job controller against the real API server; the tests finish the pods."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.types import Obj
from sim.units import SECOND
from tests.actor.apiserver.cluster import SCHEME
from tests.actor.controllers.workload import POD_SPEC, World, world

LOOPS = ("job",)
NAMES = SCHEME.names


def job(name: str = "work", restart: str = "Never", **spec: Any) -> Obj:
    template = {"spec": {**POD_SPEC, "restartPolicy": restart}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template, **spec},
    }


async def end(w: World, pod: Obj, phase: str) -> None:
    await w.patch("pods", pod["metadata"]["name"], {"status": {"phase": phase}}, "status")


async def running(w: World) -> list[Obj]:
    return [
        pod
        for pod in await w.stored("pods")
        if pod["status"]["phase"] in ("Pending", "Running") and "deletionTimestamp" not in pod["metadata"]
    ]


async def end_all(w: World, phase: str) -> None:
    for pod in await running(w):
        await end(w, pod, phase)


def conditions(stored: Obj) -> list[tuple[str, str, str]]:
    return [(c["type"], c["status"], c.get("reason", "")) for c in stored["status"].get("conditions") or ()]


async def test_job_is_complete_when_its_pods_have_succeeded() -> None:
    async with world(LOOPS) as w:
        await w.create("jobs", job(completions=3, parallelism=2))
        await w.settle()
        pods = await w.stored("pods")
        assert len(pods) == 2
        assert all(p["metadata"]["finalizers"] == [NAMES.finalizer_job_tracking] for p in pods)
        assert (await w.get("jobs", "work"))["status"]["active"] == 2
        await end_all(w, "Succeeded")
        await w.settle()
        assert len(await running(w)) == 1  # one completion is left
        await end_all(w, "Succeeded")
        await w.settle()
        stored = await w.get("jobs", "work")
        status = stored["status"]
        assert status["succeeded"] == 3 and "active" not in status and status["completionTime"]
        assert status["uncountedTerminatedPods"] == {} and conditions(stored) == [("Complete", "True", "")]
        assert all("finalizers" not in p["metadata"] for p in await w.stored("pods"))
        assert [r for r, _ in await w.events("work")] == ["SuccessfulCreate"] * 3 + ["Completed"]


async def test_replacements_of_failing_pods_wait_ten_seconds_doubling_each_time() -> None:
    async with world(LOOPS) as w:
        made = w.watch_commits("pods")
        await w.create("jobs", job(backoffLimit=5))
        await w.settle(5 * SECOND)
        gaps = []
        for _ in range(5):
            before = len(made)
            await w.settle(60 * SECOND)  # longer than any earlier delay
            failed_us = w.kernel.now_us
            await end_all(w, "Failed")
            await w.settle(200 * SECOND)
            assert len(made) == before + 1
            gaps.append((made[-1][0] - failed_us) / SECOND)
        assert gaps == pytest.approx([1, 10, 20, 40, 80], abs=0.2)
        await end_all(w, "Failed")
        await w.settle(400 * SECOND)
        stored = await w.get("jobs", "work")
        assert len(made) == 6 and stored["status"]["failed"] == 6
        assert conditions(stored) == [("Failed", "True", "BackoffLimitExceeded")]


@pytest.mark.parametrize(("tells_ready", "wait_s"), [(True, 1), (False, 0)])
async def test_pod_changes_are_batched_for_a_second_with_ready_pods_in_the_status(
    tells_ready: bool, wait_s: int
) -> None:
    async with world(LOOPS, feature_gates={"JobReadyPods": tells_ready}) as w:
        await w.create("jobs", job(completions=2))
        await w.settle(5 * SECOND)
        made = w.watch_commits("pods")
        ended_us = w.kernel.now_us
        await end_all(w, "Succeeded")
        await w.settle(3 * SECOND)
        assert [(at_us - ended_us) / SECOND for at_us, _ in made] == pytest.approx([wait_s], abs=0.1)


async def test_success_resets_the_backoff() -> None:
    async with world(LOOPS) as w:
        made = w.watch_commits("pods")
        await w.create("jobs", job(completions=9))
        for _ in range(3):
            await w.settle(60 * SECOND)
            await end_all(w, "Failed")
        await w.settle(60 * SECOND)
        await end_all(w, "Succeeded")
        await w.settle(60 * SECOND)
        failed_us = w.kernel.now_us
        await end_all(w, "Failed")
        await w.settle(20 * SECOND)
        assert (made[-1][0] - failed_us) / SECOND == pytest.approx(1, abs=0.2)


async def test_job_runs_no_longer_than_its_deadline() -> None:
    async with world(LOOPS) as w:
        await w.create("jobs", job(activeDeadlineSeconds=30, parallelism=2, completions=2))
        await w.settle(28 * SECOND)
        assert len(await running(w)) == 2
        await w.settle(3 * SECOND)
        assert await running(w) == []
        stored = await w.get("jobs", "work")
        assert conditions(stored) == [("Failed", "True", "DeadlineExceeded")]
        assert stored["status"]["failed"] == 2  # stopped pods count as failed
        assert ("DeadlineExceeded", "Job was active longer than specified deadline") in await w.events("work")


async def test_each_index_runs_until_it_succeeds_once() -> None:
    async with world(LOOPS) as w:
        await w.create("jobs", job(completions=6, parallelism=6, completionMode="Indexed"))
        await w.settle()
        pods = {pod["spec"]["hostname"]: pod for pod in await running(w)}
        assert sorted(pods) == [f"work-{i}" for i in range(6)]
        pod = pods["work-3"]
        assert pod["metadata"]["generateName"] == "work-3-"
        assert pod["metadata"]["annotations"] == {NAMES.annotation_job_completion_index: "3"}
        assert pod["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"
        for index in (0, 2, 3, 4):
            await end(w, pods[f"work-{index}"], "Succeeded")
        await end(w, pods["work-1"], "Failed")
        await w.settle()
        status = (await w.get("jobs", "work"))["status"]
        assert (status["completedIndexes"], status["succeeded"], status["failed"]) == ("0,2-4", 4, 1)
        assert sorted(p["spec"]["hostname"] for p in await running(w)) == ["work-1", "work-5"]
        await end_all(w, "Succeeded")
        await w.settle()
        stored = await w.get("jobs", "work")
        assert stored["status"]["completedIndexes"] == "0-5"
        assert conditions(stored) == [("Complete", "True", "")]


async def test_suspended_job_has_no_pods_and_counts_none_as_failed() -> None:
    async with world(LOOPS) as w:
        await w.create("jobs", job(parallelism=2, completions=2))
        await w.settle()
        before = (await w.get("jobs", "work"))["status"]["startTime"]
        await w.patch("jobs", "work", {"spec": {"suspend": True}})
        await w.settle()
        stored = await w.get("jobs", "work")
        assert await w.stored("pods") == [] and "failed" not in stored["status"]
        assert conditions(stored) == [("Suspended", "True", "JobSuspended")]
        await w.patch("jobs", "work", {"spec": {"suspend": False}})
        await w.settle()
        stored = await w.get("jobs", "work")
        assert len(await running(w)) == 2 and stored["status"]["startTime"] > before
        assert conditions(stored) == [("Suspended", "False", "JobResumed")]
        reasons = [reason for reason, _ in await w.events("work")]
        assert "Suspended" in reasons and "Resumed" in reasons


async def test_deleted_pod_counts_as_failed_and_is_replaced() -> None:
    async with world(LOOPS) as w:
        await w.create("jobs", job())
        await w.settle()
        (pod,) = await running(w)
        await w.delete("pods", pod["metadata"]["name"])
        await w.settle()
        (new,) = await w.stored("pods")
        assert new["metadata"]["uid"] != pod["metadata"]["uid"]
        assert (await w.get("jobs", "work"))["status"]["failed"] == 1


async def test_pods_of_a_deleted_job_lose_their_finalizer() -> None:
    async with world(LOOPS) as w:
        await w.create("jobs", job())
        await w.settle()
        reply = await w.plane.ask(
            "delete", "jobs", "default", "work", body={"propagationPolicy": "Background"}
        )
        assert reply.ok
        await w.settle()
        (pod,) = await w.stored("pods")
        assert "finalizers" not in pod["metadata"]


async def test_deleted_pod_of_a_finished_job_loses_its_finalizer() -> None:
    async with world(LOOPS) as w:
        await w.create("jobs", job())
        await w.settle()
        await end_all(w, "Succeeded")
        await w.settle()
        (pod,) = await w.stored("pods")
        name = pod["metadata"]["name"]
        await w.patch("pods", name, {"metadata": {"finalizers": [NAMES.finalizer_job_tracking]}})
        await w.settle()
        assert await w.names("pods") == [name]
        await w.delete("pods", name)
        await w.settle()
        assert await w.names("pods") == []


async def test_conflicting_status_write_waits_for_the_backoff() -> None:
    async with world(LOOPS) as w:
        await w.create("jobs", job(backoffLimit=6, parallelism=2))
        await w.settle()
        first, _ = await running(w)
        await end(w, first, "Failed")
        await w.settle(2 * SECOND)  # two seconds later the pod has been replaced
        _, second = await running(w)
        writes = w.quota.watch("update", "jobs/status")
        w.quota.refuse_once("update", "jobs/status", 409, "Conflict", "the object has been modified")
        await end(w, second, "Succeeded")
        await w.settle(60 * SECOND)
        assert writes[1] - writes[0] > 5 * SECOND


async def test_container_restarts_count_towards_the_backoff_limit() -> None:
    async with world(LOOPS) as w:
        await w.create("jobs", job(restart="OnFailure", backoffLimit=3))
        await w.settle()
        (pod,) = await running(w)
        state = {"name": "c", "image": "i:1", "imageID": "", "ready": False, "restartCount": 2}
        for count in (2, 3):
            status = {"phase": "Running", "containerStatuses": [{**state, "restartCount": count}]}
            await w.patch("pods", pod["metadata"]["name"], {"status": status}, "status")
            await w.settle()
            ends = conditions(await w.get("jobs", "work"))
            assert ends == ([] if count == 2 else [("Failed", "True", "BackoffLimitExceeded")])


async def test_suspension_resets_the_backoff() -> None:
    async with world(LOOPS) as w:
        made = w.watch_commits("pods")
        await w.create("jobs", job(backoffLimit=9))
        for _ in range(3):
            await w.settle(90 * SECOND)
            await end_all(w, "Failed")
        await w.settle(90 * SECOND)
        for suspend, wait_s in ((True, 10), (False, 60)):
            await w.patch("jobs", "work", {"spec": {"suspend": suspend}})
            await w.settle(wait_s * SECOND)
        failed_us = w.kernel.now_us
        await end_all(w, "Failed")
        await w.settle(5 * SECOND)
        assert (made[-1][0] - failed_us) / SECOND == pytest.approx(1, abs=0.2)


async def test_job_resumed_after_its_deadline_fails_at_once() -> None:
    """Quirk: the old start time counts until the sync that resumes the Job, which checks the
    deadline.
    """
    async with world(LOOPS) as w:
        await w.create("jobs", job(activeDeadlineSeconds=30))
        await w.settle(20 * SECOND)
        for suspend in (True, False):
            await w.patch("jobs", "work", {"spec": {"suspend": suspend}})
            await w.settle(20 * SECOND)
        assert conditions(await w.get("jobs", "work")) == [
            ("Suspended", "True", "JobSuspended"),
            ("Failed", "True", "DeadlineExceeded"),
        ]


async def test_succeeded_orphan_is_adopted_and_can_exceed_the_completions() -> None:
    async with world(LOOPS) as w:
        made = await w.create("jobs", job(completions=1))
        await w.settle()
        labels = made["spec"]["template"]["metadata"]["labels"]
        await w.create("pods", {"metadata": {"name": "orphan", "labels": labels}, "spec": POD_SPEC})
        await end_all(w, "Succeeded")
        await w.settle()
        orphan = await w.get("pods", "orphan")
        assert [ref["uid"] for ref in orphan["metadata"]["ownerReferences"]] == [made["metadata"]["uid"]]
        assert "finalizers" not in orphan["metadata"]  # it had one until it was counted
        assert (await w.get("jobs", "work"))["status"]["succeeded"] == 2
        assert (await w.events("work"))[1:] == [
            ("TooManySucceededPods", "Too many succeeded pods running after completion count reached"),
            ("Completed", "Job completed"),
        ]


async def test_job_without_completions_starts_no_pod_after_the_first_success() -> None:
    async with world(LOOPS) as w:
        await w.create("jobs", job(parallelism=3))
        await w.settle()
        one, two, three = await running(w)
        await end(w, one, "Succeeded")
        await end(w, two, "Failed")
        await w.settle(60 * SECOND)
        assert [pod["metadata"]["name"] for pod in await running(w)] == [three["metadata"]["name"]]
        assert conditions(await w.get("jobs", "work")) == []
        await end(w, three, "Failed")
        await w.settle()
        stored = await w.get("jobs", "work")
        assert conditions(stored) == [("Complete", "True", "")]
        assert (stored["status"]["succeeded"], stored["status"]["failed"]) == (1, 2)


POLICED = {"feature_gates": {"JobPodFailurePolicy": "true"}}
ON_42 = {"onExitCodes": {"operator": "In", "values": [42]}}
DISRUPTED = {"onPodConditions": [{"type": "DisruptionTarget"}]}


async def fail_with(w: World, code: int, **condition: str) -> None:
    """Finish all pods with an exit code, or with a condition."""
    ended = [{"name": "c", "image": "i:1", "state": {"terminated": {"exitCode": code}}}]
    for pod in await running(w):
        status = {
            "phase": "Failed",
            "containerStatuses": ended,
            "conditions": [condition] if condition else [],
        }
        await w.patch("pods", pod["metadata"]["name"], {"status": status}, "status")
    await w.settle()


async def test_exit_code_rule_fails_the_job_at_once_with_its_gate() -> None:
    async with world(LOOPS, **POLICED) as w:
        rules = [{"action": "FailJob", **ON_42}]
        await w.create("jobs", job(parallelism=2, completions=2, podFailurePolicy={"rules": rules}))
        await w.settle()
        reported = w.watch_conditions("jobs")
        first, _ = sorted(pod["metadata"]["name"] for pod in await running(w))
        ended = [{"name": "c", "image": "i:1", "state": {"terminated": {"exitCode": 42}}}]
        await w.patch("pods", first, {"status": {"phase": "Failed", "containerStatuses": ended}}, "status")
        await w.settle()
        stored = await w.get("jobs", "work")
        reason = "PodFailurePolicy"
        assert conditions(stored) == [("FailureTarget", "True", reason), ("Failed", "True", reason)]
        text = (
            f"Container c for pod default/{first} failed with exit code 42 matching FailJob rule at index 0"
        )
        assert reported[0] == (reason, text) and set(reported) == {(reason, text)}
        assert (reason, text) in await w.events("work")
        assert stored["status"]["failed"] == 2 and await running(w) == []
        assert all("finalizers" not in pod["metadata"] for pod in await w.stored("pods"))


@pytest.mark.parametrize(
    ("action", "failed", "over"), [("Ignore", 0, []), ("Count", 1, ["Failed"]), ("None", 1, ["Failed"])]
)
async def test_failure_policy_rule_decides_if_a_failure_counts(
    action: str, failed: int, over: list[str]
) -> None:
    async with world(LOOPS, **POLICED) as w:
        rules = [{"action": "FailJob", **ON_42}, {"action": action, **DISRUPTED}]
        policy = {} if action == "None" else {"podFailurePolicy": {"rules": rules}}
        await w.create("jobs", job(backoffLimit=0, **policy))
        await w.settle()
        await fail_with(w, 137, type="DisruptionTarget", status="True")
        stored = await w.get("jobs", "work")
        assert stored["status"].get("failed", 0) == failed
        assert [kind for kind, *_ in conditions(stored)] == over
        assert len(await running(w)) == (not over)


async def test_failure_policy_is_ignored_without_its_gate() -> None:
    async with world(LOOPS) as w:
        rules = [{"action": "Ignore", **ON_42}]
        made = await w.create("jobs", job(backoffLimit=0, podFailurePolicy={"rules": rules}))
        assert "podFailurePolicy" not in made["spec"]
        await w.settle()
        await fail_with(w, 42)
        assert conditions(await w.get("jobs", "work")) == [("Failed", "True", "BackoffLimitExceeded")]
