"""What is removed from a node that is short of a resource: by which use, and in which order."""

import pytest

from actors.node.runtime.profile import ContainerBehaviour, NodeSpec, Rule, RuntimeProfile
from sim.api.types import Obj
from sim.options.node.agent import parse_node_agent
from sim.units import SECOND
from tests.actor.node.fake import FakeApi, one_node

GI = 1 << 30


def writing(own_disk: int = 0, images: Obj | None = None, **behaviours: Obj) -> NodeSpec:
    """A node with 100 GiB and these programs, by the prefix of their pods' names."""
    rules = tuple(Rule(ContainerBehaviour(**held), pod_prefix=name) for name, held in behaviours.items())
    profile = RuntimeProfile(
        warm=images is None, images=images or {}, rules=rules, image_disk_bytes=own_disk, pull_us=SECOND
    )
    return NodeSpec(
        "n1", capacity={"cpu": "8", "memory": "8Gi", "ephemeral-storage": "100Gi"}, profile=profile
    )


def asking(image: str = "img:1", **resources: Obj) -> Obj:
    return {"containers": [{"name": "c", "image": image, "resources": resources}]}


def evicted(api: FakeApi) -> list[str]:
    return [name for _, verb, name, body in api.log if verb == "event" and body[0] == "Evicted"]


async def test_logs_of_earlier_instances_count_until_they_are_removed() -> None:
    """4 GiB each: one instance ends at 45 s and the next starts at once, so that the check at 50 s
    finds the logs of both.
    """
    crashing = {"log_bytes": 4 * GI, "exit_after_us": 25 * SECOND, "exit_code": 1}
    async with one_node(writing(web=crashing)) as (kernel, api, _):
        api.bind("web", asking(limits={"ephemeral-storage": "7Gi"}))
        await kernel.run_until(51 * SECOND)
        message = "Pod ephemeral local storage usage exceeds the total limit of containers 7Gi. "
        assert api.events("Evicted") == [(50 * SECOND, message)]


async def test_pod_with_large_byte_request_is_last_to_be_evicted_for_inodes() -> None:
    """Of two pods over their request for inodes, which is none, upstream evicts the one with the
    larger excess of inodes over requested bytes.
    """
    many, few = {"inodes": 300_000}, {"inodes": 200_000}
    async with one_node(writing(many=many, few=few)) as (kernel, api, node):
        api.bind("many", asking(requests={"ephemeral-storage": "1Gi"}))
        api.bind("few", asking())
        await kernel.run_until(25 * SECOND)
        node.set_pressure("nodefs-inodes", 1000)
        await kernel.run_until(31 * SECOND)
        assert evicted(api) == ["few"]


async def test_inodes_of_node_disk_do_not_count_for_inodes_of_image_disk() -> None:
    options = parse_node_agent({"eviction-hard": "imagefs.inodesFree<5%"})
    spec = writing(50 * GI, a={"inodes": 1}, b={"inodes": 500_000})
    async with one_node(spec, options) as (kernel, api, node):
        for name in "ab":
            api.bind(name, asking())
        await kernel.run_until(25 * SECOND)
        node.set_pressure("imagefs-inodes", 1000)
        await kernel.run_until(31 * SECOND)
        assert evicted(api) == ["a"]  # they are equal, so the name decides


async def test_check_that_clears_images_makes_new_ones_known() -> None:
    """Pulled at 21 s and found at 40 s, before the first pass at 300 s: the check at 170 s may
    remove it.
    """
    spec = writing(images={"old:1": GI}, web={"exit_after_us": 5 * SECOND})
    options = parse_node_agent({"eviction-pressure-transition-period": "1s"})
    async with one_node(spec, options) as (kernel, api, node):
        api.bind("web", asking() | {"restartPolicy": "Never"})
        await kernel.run_until(35 * SECOND)
        node.set_pressure("nodefs", 1000)
        await kernel.run_until(41 * SECOND)
        assert list(node.machine.images) == ["img:1"]
        node.end_pressure("nodefs")
        for until, left in ((155, ["img:1"]), (165, [])):
            node.set_pressure("nodefs", 1000)
            await kernel.run_until(until * SECOND)
            assert list(node.machine.images) == left


async def test_at_least_one_image_is_removed_even_if_no_byte_is_wanted() -> None:
    """A disk of 101 bytes a GiB: 51 % of it, rounded down, is available, which is less than 51 %."""
    spec = writing(101, images={"a:1": 20, "b:1": 30})
    options = parse_node_agent(
        {"image-gc-high-threshold": 50, "image-gc-low-threshold": 49, "eviction-hard": ""}
    )
    async with one_node(spec, options) as (kernel, api, node):
        await kernel.run_until(299 * SECOND)
        assert len(node.machine.images) == 2
        await kernel.run_until(301 * SECOND)
        assert list(node.machine.images) == ["b:1"] and not api.events("FreeDiskSpaceFailed")


@pytest.mark.parametrize(("healed", "gone"), [(299, 300), (350, 350), (410, 410), (430, 430), (900, 900)])
async def test_image_pass_that_waits_runs_when_runtime_answers(healed: int, gone: int) -> None:
    """The pass at 300 s waits without a limit."""
    spec = writing(images={"old:1": 40 * GI})
    options = parse_node_agent({"eviction-hard": ""})
    async with one_node(spec, options) as (kernel, _, node):
        node.set_pressure("nodefs", 5 * GI)
        await kernel.run_until(290 * SECOND)
        node.hang_runtime()
        await kernel.run_until(healed * SECOND)
        assert node.machine.images
        node.heal_runtime()
        await kernel.run_until(gone * SECOND - 1)
        assert bool(node.machine.images) == (gone > healed)
        await kernel.run_until(gone * SECOND)
        assert not node.machine.images


async def test_image_used_only_between_two_passes_counts_as_unused() -> None:
    """Of two images that no pass has found in use the first by name is removed, which is enough."""
    crashing = {"exit_after_us": SECOND, "exit_code": 1}
    spec = writing(images={"a:1": 40 * GI, "b:1": 30 * GI}, web=crashing)
    options = parse_node_agent(
        {"image-gc-high-threshold": 75, "image-gc-low-threshold": 45, "eviction-hard": ""}
    )
    async with one_node(spec, options) as (kernel, api, node):
        await kernel.run_until(310 * SECOND)
        api.bind("web", asking("a:1"))
        await kernel.run_until(320 * SECOND)
        assert api.pod("web")["status"]["containerStatuses"][0]["restartCount"] == 1
        api.delete("web", 1)
        await kernel.run_until(590 * SECOND)
        node.set_pressure("nodefs", 20 * GI)
        await kernel.run_until(601 * SECOND)
        assert list(node.machine.images) == ["b:1"]


async def test_overhead_alone_is_no_request_in_the_ranking() -> None:
    spec = writing(alone={"memory_bytes": GI}, asked={"memory_bytes": 3 * GI // 2})
    async with one_node(spec) as (kernel, api, node):
        overhead = {"overhead": {"memory": "2Gi"}}
        api.bind("alone", asking() | overhead)
        api.bind("asked", asking(requests={"memory": "1Mi"}) | overhead)
        await kernel.run_until(25 * SECOND)
        node.set_pressure("memory", 0)
        await kernel.run_until(31 * SECOND)
        assert evicted(api) == ["alone"]


GROWING = {"memory_bytes": 8 * GI, "memory_ramp_us": 80 * SECOND, "stop_us": None}


async def grown(**given: object) -> tuple[list[int], list[int], FakeApi]:
    """The end of a pod that grows by 102.4 MiB a second from 20.9 s on, on a node with 8 GiB.

    Returns when it is evicted, and when thresholds are met.
    """
    async with one_node(writing(web=GROWING), parse_node_agent(given)) as (kernel, api, _):
        api.bind("web", asking() | {"terminationGracePeriodSeconds": 3})
        await kernel.run_until(130 * SECOND)
        met = [at for at, _ in api.events("EvictionThresholdMet")]
        return [at for at, _ in api.events("Evicted")], met, api


async def test_memory_notification_evicts_at_once() -> None:
    """4 GiB are available 40 s after the start, and a byte less at once; a check is due every 10 s."""
    hard = {"eviction-hard": "memory.available<4Gi", "enforce-node-allocatable": "none"}
    (polled,), met, _ = await grown(**hard)
    assert polled == 70 * SECOND and met == [polled]
    (notified,), met, api = await grown(**hard, **{"kernel-memcg-notification": True})
    started = next(at for at, verb, _, body in api.log if verb == "event" and body[0] == "Started")
    assert 0 < notified - started - 40 * SECOND <= 1 and met == [notified]
    assert [at for at, _ in api.events("Killing")] == [notified]


async def test_grace_of_soft_threshold_begins_with_notification() -> None:
    """Below 4 GiB at about 60.9 s: with a grace of 15 s the check at 80 s evicts; with polls alone
    it would be the one at 90 s.
    """
    soft = {
        "eviction-hard": "",
        "eviction-soft": "memory.available<4Gi",
        "eviction-soft-grace-period": "memory.available=15s",
    }
    (polled,), _, _ = await grown(**soft)
    (notified,), _, _ = await grown(**soft, **{"kernel-memcg-notification": True})
    assert (polled, notified) == (90 * SECOND, 80 * SECOND)


@pytest.mark.parametrize("waited_s", [20, 140, 700])
async def test_image_passes_follow_five_minutes_after_the_answer(waited_s: int) -> None:
    """The pass at 600 s waits; those after it fail, and report the second failure in a row and each
    later one.
    """
    async with one_node(writing(), parse_node_agent({"eviction-hard": ""})) as (kernel, api, node):
        await kernel.run_until(590 * SECOND)
        node.hang_runtime()
        await kernel.run_until((600 + waited_s) * SECOND)
        node.heal_runtime()
        await kernel.run_until((600 + waited_s + 7) * SECOND)
        node.set_pressure("nodefs", 5 * GI)
        await kernel.run_until((600 + waited_s + 901) * SECOND)
        failed = [at / SECOND - 600 - waited_s for at, _ in api.events("FreeDiskSpaceFailed")]
        again = [at / SECOND - 600 - waited_s for at, _ in api.events("ImageGCFailed")]
        assert (failed, again) == ([300, 600, 900], [600, 900])


async def test_image_pass_that_waited_counts_as_next_one_after_a_failure() -> None:
    async with one_node(writing(), parse_node_agent({"eviction-hard": ""})) as (kernel, api, node):
        node.set_pressure("nodefs", 5 * GI)
        await kernel.run_until(1190 * SECOND)
        assert [at / SECOND for at, _ in api.events("ImageGCFailed")] == [300, 600, 900]
        node.hang_runtime()
        await kernel.run_until(1777 * SECOND)
        assert len(api.events("ImageGCFailed")) == 3
        node.heal_runtime()
        await kernel.run_until(2080 * SECOND)
        assert [at / SECOND for at, _ in api.events("ImageGCFailed")][3:] == [1777, 2077]


@pytest.mark.parametrize(("period", "limited", "first"), [("1m", ["web"], "web"), ("0", [], "other")])
async def test_without_volume_statistics_volumes_count_for_no_pod(
    period: str, limited: list[str], first: str
) -> None:
    options = parse_node_agent({"volume-stats-agg-period": period})
    spec = writing(web={"volume_bytes": 2 * GI}, other={"log_bytes": GI})
    mounts = asking()
    mounts["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
    for size, pressed, wanted in (("1Gi", False, limited), ("9Gi", True, [first])):
        async with one_node(spec, options) as (kernel, api, node):
            api.bind("web", mounts | {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": size}}]})
            api.bind("other", asking())
            await kernel.run_until(25 * SECOND)
            if pressed:
                node.set_pressure("nodefs", 9 * GI)
            await kernel.run_until(31 * SECOND)
            assert evicted(api) == wanted
