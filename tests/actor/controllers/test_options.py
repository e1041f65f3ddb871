"""Options of single controllers: each at two values, with the difference that it makes."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest
from cryptography import x509

from actors.controllers.certificates.decide import Signer
from actors.controllers.certificates.issue import stand_in
from sim.kernel.kernel import DEFAULT_EPOCH_US
from sim.units import HOUR, SECOND, format_time
from tests.actor.controllers.test_certificates import CA, REQUESTS, approve, request, state
from tests.actor.controllers.test_endpoints_mirrored import SERVICE, by_hand, shown
from tests.actor.controllers.test_horizontalpodautoscaler import (
    LOOPS,
    Load,
    Sizes,
    autoscaler,
    begun,
    settle,
    target,
)
from tests.actor.controllers.test_job import end, job, running
from tests.actor.controllers.workload import World, world


@pytest.mark.parametrize(("tolerance", "sizes"), [(0.1, []), (0.01, [6])])
async def test_tolerance_decides_which_deviation_is_corrected(tolerance: float, sizes: list[int]) -> None:
    options: Any = {"horizontal_pod_autoscaler_tolerance": tolerance}
    async with world(LOOPS, metrics=Load(total=270), **options) as w:
        seen = await begun(w, 5, autoscaler())
        await settle(w, 20)
        assert [size for _, size in seen.seen] == sizes


async def become_unready(w: World, after_s: int) -> None:
    """Pods started now; they became unready so many seconds later."""
    now_us = w.kernel.now_us + DEFAULT_EPOCH_US
    changed = format_time(now_us + after_s * SECOND)
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": changed}
    body = {"status": {"phase": "Running", "conditions": [condition], "startTime": format_time(now_us)}}
    for pod in await w.stored("pods"):
        reply = await w.plane.ask(
            "patch",
            "pods",
            "default",
            pod["metadata"]["name"],
            body=body,
            subresource="status",
            content_type=w.plane.server.scheme.names.media_merge_patch,
        )
        assert reply.ok, reply.message


@pytest.mark.parametrize(
    ("option", "value_us", "wait_s", "grows"),
    [
        # A pod that is not ready does not count for cpu while it is being initialized.
        ("cpu_initialization_period_us", 300 * SECOND, 60, False),
        ("cpu_initialization_period_us", 10 * SECOND, 60, True),
        # Afterwards one counts that became unready later than this after its start.
        ("initial_readiness_delay_us", 30 * SECOND, 330, True),
        ("initial_readiness_delay_us", 120 * SECOND, 330, False),
    ],
)
async def test_periods_of_a_start_decide_if_an_unready_pod_counts(
    option: str, value_us: int, wait_s: int, grows: bool
) -> None:
    options: Any = {f"horizontal_pod_autoscaler_{option}": value_us}
    async with world(LOOPS, metrics=Load(each=100), **options) as w:
        await w.create("replicasets", target(2))
        await w.settle(5 * SECOND)
        await become_unready(w, 40)
        await w.settle(wait_s * SECOND)
        sizes = Sizes(w)
        await w.create("horizontalpodautoscalers", autoscaler())
        await w.settle(20 * SECOND)
        assert bool(sizes.seen) is grows


@pytest.mark.parametrize(("period_s", "after_2_s"), [(0, "10.9.7.2"), (20, "10.9.7.1")])
async def test_mirrored_changes_wait_for_their_batch_period(period_s: int, after_2_s: str) -> None:
    options: Any = {"mirroring_endpointslice_updates_batch_period_us": period_s * SECOND}
    async with world(("endpointslicemirroring",), **options) as w:
        await w.create("services", SERVICE)
        await w.create("endpoints", by_hand("10.9.7.1"))
        await w.settle(30 * SECOND)
        await w.patch("endpoints", "m", {"subsets": by_hand("10.9.7.2")["subsets"]})
        await w.settle(2 * SECOND)
        assert await shown(w) == [("IPv4", [(after_2_s, True)])]
        await w.settle(30 * SECOND)
        assert await shown(w) == [("IPv4", [("10.9.7.2", True)])]


@pytest.mark.parametrize(("hours", "lasts_s"), [(1, 3900), (24, 86_400)])
async def test_certificates_last_as_long_as_the_duration_of_the_signers(hours: int, lasts_s: int) -> None:
    """A short one begins five minutes before its duration, a long one within it."""
    options: Any = {"cluster_signing_duration_us": hours * HOUR}
    async with world(["csrsigning"], signing=lambda _: CA, **options) as w:
        await w.create(REQUESTS, request(Signer.CLIENT))
        await approve(w)
        await w.settle(SECOND)
        made = x509.load_pem_x509_certificate(b64decode((await state(w))["certificate"]))
        lasts = made.not_valid_after_utc - made.not_valid_before_utc
        assert lasts.total_seconds() == lasts_s


@pytest.mark.parametrize("own", [Signer.CLIENT, Signer.SERVING])
async def test_only_signers_with_files_of_their_own_sign_once_one_has(own: Signer) -> None:
    field = {Signer.CLIENT: "client", Signer.SERVING: "serving"}[own]
    options: Any = {f"cluster_signing_{field}_{half}_file": "x" for half in ("cert", "key")}
    other = stand_in("other", 6, DEFAULT_EPOCH_US)
    async with world(["csrsigning"], signing=lambda name: other, **options) as w:
        await w.create(REQUESTS, request(Signer.CLIENT))
        await approve(w)
        await w.settle(SECOND)
        assert ("certificate" in await state(w)) is (own is Signer.CLIENT)


@pytest.mark.parametrize("tracks", [True, False])
async def test_pods_of_jobs_have_a_finalizer_while_its_gate_is_on(tracks: bool) -> None:
    """Otherwise the pods that are there are counted, and the annotation goes."""
    gates = {"JobTrackingWithFinalizers": str(tracks).lower()}
    async with world(("job",), feature_gates=gates) as w:
        await w.create("jobs", job(completions=2, parallelism=2, backoffLimit=0))
        await w.settle()
        pods, names = await w.stored("pods"), w.plane.server.scheme.names
        assert [bool(pod["metadata"].get("finalizers")) for pod in pods] == [tracks] * 2
        made = await w.get("jobs", "work")
        marked = names.annotation_job_tracking in made["metadata"].get("annotations", {})
        assert marked is ("uncountedTerminatedPods" in made["status"]) is tracks
        await end(w, pods[0], "Succeeded")
        await w.settle()
        assert (await w.get("jobs", "work"))["status"]["succeeded"] == 1
        await w.delete("pods", pods[0]["metadata"]["name"])
        await w.settle()
        status = (await w.get("jobs", "work"))["status"]
        assert status.get("succeeded", 0) == (1 if tracks else 0)  # a deleted pod is forgotten
        for pod in await running(w):
            await end(w, pod, "Failed")
        await w.settle()
        status = (await w.get("jobs", "work"))["status"]
        (condition,) = status["conditions"]
        assert (condition["type"], condition["reason"]) == ("Failed", "BackoffLimitExceeded")
        assert status["failed"] == (1 if tracks else 2)
