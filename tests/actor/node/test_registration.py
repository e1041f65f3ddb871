"""How a node is registered, what its agent restores, and how it reacts to changes by others."""

from itertools import pairwise
from typing import Any

from actors.node.heartbeat.node_loop import PassKind
from actors.node.runtime.profile import NodeSpec
from sim.api.types import Obj
from sim.options.node.agent import parse_node_agent
from sim.units import SECOND
from tests.actor.node.fake import NAMES_USED, FakeApi, one_node
from tests.actor.node.test_agent import behaving

OS, ARCH, ZONE = NAMES_USED.label_os, NAMES_USED.label_arch, NAMES_USED.label_zone


def held(api: FakeApi) -> Obj:
    return api.objects["nodes", "", "n1"]


def change_labels(api: FakeApi, changes: dict[str, str | None], **spec: Any) -> None:
    """Change labels (None removes one) and the spec of the node, as another client."""
    node = held(api)
    labels = {**node["metadata"].get("labels", {}), **changes}
    kept = {key: value for key, value in labels.items() if value is not None}
    api.put(
        "nodes", {**node, "metadata": {**node["metadata"], "labels": kept}, "spec": {**node["spec"], **spec}}
    )


async def test_status_pass_restores_labels_of_the_machine_and_no_others() -> None:
    async with one_node(NodeSpec("n1", zone="a")) as (kernel, api, _):
        await kernel.run_until(32 * SECOND)
        change_labels(api, {OS: None, ZONE: None})
        await kernel.run_until(43 * SECOND)
        assert held(api)["metadata"]["labels"][OS] == "linux" and ZONE not in held(api)["metadata"]["labels"]
        change_labels(api, {ARCH: "odd"})
        await kernel.run_until(54 * SECOND)
        assert held(api)["metadata"]["labels"][ARCH] == "amd64"
        assert len(api.writes("patch", "nodes")) == 2


async def test_restarted_agent_updates_default_labels_and_one_annotation_only() -> None:
    key = NAMES_USED.annotation_attach_detach
    options = parse_node_agent({"node-labels": f"{ZONE}=mine,team=blue"})
    async with one_node(NodeSpec("n1", zone="a"), options) as (kernel, api, node):
        assert held(api)["metadata"]["labels"][ZONE] == "mine"
        node.crash_agent()
        taints = [{"key": "k", "effect": "NoSchedule"}]
        change_labels(
            api, {ZONE: "theirs", "team": None, "other": "stays"}, taints=taints, unschedulable=True
        )
        changed = held(api)
        api.put("nodes", {**changed, "metadata": {**changed["metadata"], "annotations": {key: "false"}}})
        node.start_agent()
        await kernel.run_until(22 * SECOND)
        meta = held(api)["metadata"]
        assert meta["labels"][ZONE] == "mine" and meta["annotations"] == {key: "true"}
        assert "team" not in meta["labels"] and meta["labels"]["other"] == "stays"
        assert held(api)["spec"] == {"taints": taints, "unschedulable": True}


async def test_unchanged_node_reports_at_first_pass_after_five_minutes() -> None:
    async with one_node() as (kernel, api, _):
        await kernel.run_until(3000 * SECOND)
        # tenths of a second
        gaps = [round(b - a, -5) for a, b in pairwise(api.writes("patch", "nodes"))]
        assert all(300 * SECOND <= gap <= 310.4 * SECOND for gap in gaps)
        assert len(gaps) == 8 and len({*gaps}) > 4


async def test_change_is_reported_by_next_pass_even_if_next_report_is_far_off() -> None:
    options = parse_node_agent({"node-status-update-frequency": "2s"})
    async with one_node(options=options) as (kernel, api, node):
        await kernel.run_until(30 * SECOND)
        for at_s in (30, 400):
            await kernel.run_until(at_s * SECOND)
            node.fail_pod_network("cni down")
            await kernel.run_until((at_s + 8) * SECOND)
            node.heal_pod_network()
            writes = [at for at in api.writes("patch", "nodes") if at > at_s * SECOND]
            assert len(writes) == 1 and writes[0] <= (at_s + 7.1) * SECOND  # a check every 5 s
            await kernel.run_until((at_s + 20) * SECOND)


def change_status(api: FakeApi, **status: Any) -> None:
    """Change the node's status, as another client."""
    node = held(api)
    api.put("nodes", {**node, "status": {**node["status"], **status}})


async def test_foreign_change_of_node_status_is_restored_by_next_pass() -> None:
    async with one_node(options=parse_node_agent({"node-status-max-images": "1"})) as (kernel, api, _):
        await kernel.run_until(32 * SECOND)
        before = held(api)["status"]
        for at_s, change in enumerate(
            ({"allocatable": {**before["allocatable"], "cpu": "1"}}, {"addresses": []}, {"images": [{"names": ["x"]}]}, {"nodeInfo": {}})
        ):  # fmt: skip
            change_status(api, **change)
            await kernel.run_until((43 + 11 * at_s) * SECOND)
            now = held(api)["status"]
            assert {**now, "conditions": ()} == {**before, "conditions": ()}
        assert len(api.writes("patch", "nodes")) == 4


async def test_patched_extended_resource_is_allocatable_until_agent_restarts() -> None:
    async with one_node() as (kernel, api, node):
        await kernel.run_until(32 * SECOND)
        before = held(api)["status"]
        change_status(api, capacity={**before["capacity"], "example.com/dongle": "4"})
        await kernel.run_until(400 * SECOND)
        assert held(api)["status"]["allocatable"] == {**before["allocatable"], "example.com/dongle": "4"}
        # one for that, and the report of five minutes later
        assert len(api.writes("patch", "nodes")) == 2
        node.crash_agent()
        node.start_agent()
        await kernel.run_until(412 * SECOND)
        status = held(api)["status"]
        assert status["capacity"]["example.com/dongle"] == status["allocatable"]["example.com/dongle"] == "0"
        change_status(api, capacity=before["capacity"])
        await kernel.run_until(423 * SECOND)
        assert held(api)["status"]["allocatable"] == before["allocatable"]


async def test_registration_attempts_follow_growing_waits_with_current_status() -> None:
    async with one_node() as (kernel, api, node):
        node.crash_agent()
        api.remove("nodes", "", "n1")
        api.failing = (("create", "nodes"),)
        writes = len(api.events("NodeHasSufficientMemory"))
        node.start_agent()
        await kernel.run_until(55 * SECOND)
        tries = [at / SECOND - 20 for at in api.writes("create", "nodes")[1:]]
        assert [round(at, 1) for at in tries] == [0.1, 0.3, 0.7, 1.5, 3.1, 6.3, 12.7, 19.7, 26.7, 33.7]
        assert len(api.events("NodeHasSufficientMemory")) - writes == len(tries)
        api.failing = ()
        await kernel.run_until(62 * SECOND)
        assert held(api)["metadata"]["name"] == "n1"


async def test_lease_of_new_node_is_created_at_second_attempt_of_known_at_first() -> None:
    async with one_node() as (kernel, api, node):
        (made,) = api.writes("create", "leases")
        assert (
            10 * SECOND <= made <= 10_500_000
        )  # without the Node at the first attempt the lease would have no owner
        lease = api.objects["leases", NAMES_USED.lease_namespace, "n1"]
        assert lease["metadata"]["ownerReferences"][0]["uid"] == held(api)["metadata"]["uid"]
        node.crash_agent()
        api.remove("leases", NAMES_USED.lease_namespace, "n1")
        node.start_agent()
        await kernel.run_until(20_100_000)
        assert len(api.writes("create", "leases")) == 2
        api.remove("leases", NAMES_USED.lease_namespace, "n1")
        await kernel.run_until(31 * SECOND)
        assert len(api.writes("create", "leases")) == 3


async def test_agent_of_deleted_node_creates_nothing_before_node_exists_again() -> None:
    manifest = {"metadata": {"name": "proxy"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    async with one_node(NodeSpec("n1", static_pods=(manifest,))) as (kernel, api, _):
        await kernel.run_until(30 * SECOND)
        before = held(api)
        api.remove("nodes", "", "n1")
        await kernel.run_until(31 * SECOND)
        api.remove("leases", NAMES_USED.lease_namespace, "n1")
        api.remove("pods", "default", "proxy-n1")
        await kernel.run_until(200 * SECOND)
        assert not [key for key in api.objects if key[0] == "nodes"] and len(api.events("Started")) == 1
        api.put("nodes", {"kind": "Node", "metadata": {"name": "n1"}, "spec": {}})
        await kernel.run_until(211 * SECOND)
        uid = held(api)["metadata"]["uid"]
        assert (
            uid != before["metadata"]["uid"]
            and held(api)["status"]["capacity"] == before["status"]["capacity"]
        )
        lease = api.objects["leases", NAMES_USED.lease_namespace, "n1"]
        assert lease["metadata"]["ownerReferences"][0]["uid"] == uid
        # the static pod's next resync, 60 to 91 s after the one before
        await kernel.run_until(292 * SECOND)
        assert api.pod("proxy-n1")["metadata"]["ownerReferences"][0]["uid"] == uid


async def test_shutdown_is_reported_at_once_even_if_a_pass_has_just_read_the_node() -> None:
    options = parse_node_agent({"shutdown-grace-period": "30s"})
    async with one_node(options=options) as (kernel, api, node):
        await kernel.run_until(21 * SECOND)
        node.fail_pod_network("cni down")  # so that a pass runs
        while node.machine.agent.node_loop._pass_kind is PassKind.NONE:
            await kernel.run_until(kernel.now_us + 500)
        # the pass has read, and its write is on its way
        await kernel.run_until(kernel.now_us + 1_000)
        node.shutdown()
        await kernel.run_until(kernel.now_us + 10_000)
        (ready,) = [c for c in held(api)["status"]["conditions"] if c["type"] == "Ready"]
        assert "node is shutting down" in ready["message"]


async def test_pass_at_shutdown_keeps_rhythm_of_the_others() -> None:
    """Regular passes are at 30.3 s and 40.4 s, or a little later."""
    options = parse_node_agent({"shutdown-grace-period": "30s"})
    async with one_node(behaving(stop_us=4 * SECOND), options) as (kernel, api, node):
        api.bind("web")
        await kernel.run_until(35 * SECOND)
        node.shutdown()
        await kernel.run_until(35_010_000)
        (ready,) = [c for c in held(api)["status"]["conditions"] if c["type"] == "Ready"]
        assert ready["status"] == "False"
        node.cancel_shutdown()
        await kernel.run_until(41_800_000)
        (ready,) = [c for c in held(api)["status"]["conditions"] if c["type"] == "Ready"]
        assert ready["status"] == "True"


async def test_static_pod_gets_mirror_with_first_sync_that_knows_the_node() -> None:
    """Its container is found a second after it started; the API's pods need not be known by then."""
    manifest = {"metadata": {"name": "proxy"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    async with one_node(NodeSpec("n1", static_pods=(manifest,))) as (kernel, api, node):
        (made,) = api.writes("create", "pods")
        assert 1 * SECOND <= made <= 1_010_000
        uid = api.pod("proxy-n1")["metadata"]["uid"]
        node.crash_agent()
        node.start_agent()
        await kernel.run_until(200 * SECOND)
        assert api.pod("proxy-n1")["metadata"]["uid"] == uid and api.ready("proxy-n1")
        assert len(api.writes("create", "pods")) <= 2  # one request may find that it exists


async def test_node_that_keeps_volumes_deletes_pods_with_volumes_in_the_batch() -> None:
    """Housekeeping runs every 2 s, a batch every 10 s; without the option it is a poll of 0.3 s."""
    options = parse_node_agent(
        {"keep-terminated-pod-volumes": True, "enable-controller-attach-detach": False}
    )
    async with one_node(options=options) as (kernel, api, _):
        assert held(api)["metadata"]["annotations"] == {NAMES_USED.annotation_keep_volumes: "true"}
        volumes = {"containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "v", "emptyDir": {}}]}
        api.bind("with", volumes)
        api.bind("without")
        await kernel.run_until(30_500_000)
        api.delete("with", 30)
        api.delete("without", 30)
        await kernel.run_until(33 * SECOND)
        assert api.has("with") and not api.has("without")
        await kernel.run_until(45 * SECOND)
        assert not api.has("with")
