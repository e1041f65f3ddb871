"""How a node comes to be in the API, what its agent keeps right of it, and what becomes of it when somebody else changes it."""

from itertools import pairwise
from typing import Any

from actors.node.runtime.profile import NodeSpec
from sim.api.types import Obj
from sim.options.node_agent import parse_node_agent
from sim.units import SECOND
from tests.actor.node.fake import NAMES_USED, FakeApi, one_node
from tests.actor.node.test_agent import behaving

OS, ARCH, ZONE = NAMES_USED.label_os, NAMES_USED.label_arch, NAMES_USED.label_zone


def held(api: FakeApi) -> Obj:
    return api.objects["nodes", "", "n1"]


def labelled(api: FakeApi, changes: dict[str, str | None], **spec: Any) -> None:
    """Somebody changes labels (None: takes them off) and the spec of the node."""
    node = held(api)
    labels = {**node["metadata"].get("labels", {}), **changes}
    kept = {key: value for key, value in labels.items() if value is not None}
    api.put(
        "nodes", {**node, "metadata": {**node["metadata"], "labels": kept}, "spec": {**node["spec"], **spec}}
    )


async def test_a_pass_puts_right_the_labels_that_say_what_the_machine_is_and_no_others() -> None:
    async with one_node(NodeSpec("n1", zone="a")) as (kernel, api, _):
        await kernel.run_until(32 * SECOND)
        labelled(api, {OS: None, ZONE: None})
        await kernel.run_until(43 * SECOND)
        assert held(api)["metadata"]["labels"][OS] == "linux" and ZONE not in held(api)["metadata"]["labels"]
        labelled(api, {ARCH: "odd"})
        await kernel.run_until(54 * SECOND)
        assert held(api)["metadata"]["labels"][ARCH] == "amd64"
        assert len(api.writes("patch", "nodes")) == 2


async def test_a_restarted_agent_brings_default_labels_and_one_annotation_up_to_date_and_leaves_the_rest() -> (
    None
):
    key = NAMES_USED.annotation_attach_detach
    options = parse_node_agent({"node-labels": f"{ZONE}=mine,team=blue"})
    async with one_node(NodeSpec("n1", zone="a"), options) as (kernel, api, node):
        assert held(api)["metadata"]["labels"][ZONE] == "mine"
        node.crash_agent()
        taints = [{"key": "k", "effect": "NoSchedule"}]
        labelled(api, {ZONE: "theirs", "team": None, "other": "stays"}, taints=taints, unschedulable=True)
        changed = held(api)
        api.put("nodes", {**changed, "metadata": {**changed["metadata"], "annotations": {key: "false"}}})
        node.start_agent()
        await kernel.run_until(22 * SECOND)
        meta = held(api)["metadata"]
        assert meta["labels"][ZONE] == "mine" and meta["annotations"] == {key: "true"}
        assert "team" not in meta["labels"] and meta["labels"]["other"] == "stays"
        assert held(api)["spec"] == {"taints": taints, "unschedulable": True}


async def test_an_unchanged_node_reports_with_the_first_pass_after_five_minutes_each_time_after_other_waits() -> (
    None
):
    async with one_node() as (kernel, api, _):
        await kernel.run_until(3000 * SECOND)
        gaps = [round(b - a, -5) for a, b in pairwise(api.writes("patch", "nodes"))]  # tenths of a second
        assert all(300 * SECOND <= gap <= 310.4 * SECOND for gap in gaps)
        assert len(gaps) == 8 and len({*gaps}) > 4


async def test_a_change_is_told_by_the_next_of_frequent_passes_however_far_off_the_next_report_is() -> None:
    options = parse_node_agent({"node-status-update-frequency": "2s"})
    async with one_node(options=options) as (kernel, api, node):
        await kernel.run_until(30 * SECOND)
        for at_s in (30, 400):
            await kernel.run_until(at_s * SECOND)
            node.fail_pod_network("cni down")
            await kernel.run_until((at_s + 8) * SECOND)
            node.heal_pod_network()
            told = [at for at in api.writes("patch", "nodes") if at > at_s * SECOND]
            assert len(told) == 1 and told[0] <= (at_s + 7.1) * SECOND  # a check each 5 s
            await kernel.run_until((at_s + 20) * SECOND)


def said(api: FakeApi, **status: Any) -> None:
    """Somebody changes the node's status."""
    node = held(api)
    api.put("nodes", {**node, "status": {**node["status"], **status}})


async def test_what_others_change_in_a_status_is_put_right_by_the_next_pass() -> None:
    async with one_node(options=parse_node_agent({"node-status-max-images": "1"})) as (kernel, api, _):
        await kernel.run_until(32 * SECOND)
        before = held(api)["status"]
        for at_s, change in enumerate(
            ({"allocatable": {**before["allocatable"], "cpu": "1"}}, {"addresses": []}, {"images": [{"names": ["x"]}]}, {"nodeInfo": {}})
        ):  # fmt: skip
            said(api, **change)
            await kernel.run_until((43 + 11 * at_s) * SECOND)
            now = held(api)["status"]
            assert {**now, "conditions": ()} == {**before, "conditions": ()}
        assert len(api.writes("patch", "nodes")) == 4


async def test_an_extended_resource_of_a_patch_may_be_allocated_until_its_agent_starts_anew() -> None:
    async with one_node() as (kernel, api, node):
        await kernel.run_until(32 * SECOND)
        before = held(api)["status"]
        said(api, capacity={**before["capacity"], "example.com/dongle": "4"})
        await kernel.run_until(400 * SECOND)
        assert held(api)["status"]["allocatable"] == {**before["allocatable"], "example.com/dongle": "4"}
        assert len(api.writes("patch", "nodes")) == 2  # for that, and the report of five minutes later
        node.crash_agent()
        node.start_agent()
        await kernel.run_until(412 * SECOND)
        status = held(api)["status"]
        assert status["capacity"]["example.com/dongle"] == status["allocatable"]["example.com/dongle"] == "0"
        said(api, capacity=before["capacity"])
        await kernel.run_until(423 * SECOND)
        assert held(api)["status"]["allocatable"] == before["allocatable"]


async def test_tries_to_register_come_after_growing_waits_and_each_tells_what_the_node_would_say() -> None:
    async with one_node() as (kernel, api, node):
        node.crash_agent()
        api.remove("nodes", "", "n1")
        api.failing = (("create", "nodes"),)
        told = len(api.events("NodeHasSufficientMemory"))
        node.start_agent()
        await kernel.run_until(55 * SECOND)
        tries = [at / SECOND - 20 for at in api.writes("create", "nodes")[1:]]
        assert [round(at, 1) for at in tries] == [0.1, 0.3, 0.7, 1.5, 3.1, 6.3, 12.7, 19.7, 26.7, 33.7]
        assert len(api.events("NodeHasSufficientMemory")) - told == len(tries)
        api.failing = ()
        await kernel.run_until(62 * SECOND)
        assert held(api)["metadata"]["name"] == "n1"


async def test_a_new_nodes_lease_is_made_at_the_second_look_and_that_of_a_known_one_at_the_first() -> None:
    async with one_node() as (kernel, api, node):
        (made,) = api.writes("create", "leases")
        assert (
            10 * SECOND <= made <= 10_500_000
        )  # without the Node of the first look there is nobody to own it
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


async def test_of_a_node_that_is_deleted_its_agent_makes_nothing_anew_before_it_is_there_again() -> None:
    manifest = {"metadata": {"name": "proxy"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    async with one_node(NodeSpec("n1", static_pods=(manifest,))) as (kernel, api, _):
        await kernel.run_until(30 * SECOND)
        before = held(api)
        api.remove("nodes", "", "n1")
        await kernel.run_until(31 * SECOND)
        api.remove("leases", NAMES_USED.lease_namespace, "n1")
        api.remove("pods", "default", "proxy-n1")
        await kernel.run_until(200 * SECOND)
        assert not api.objects and len(api.events("Started")) == 1
        api.put("nodes", {"kind": "Node", "metadata": {"name": "n1"}, "spec": {}})
        await kernel.run_until(211 * SECOND)
        uid = held(api)["metadata"]["uid"]
        assert (
            uid != before["metadata"]["uid"]
            and held(api)["status"]["capacity"] == before["status"]["capacity"]
        )
        lease = api.objects["leases", NAMES_USED.lease_namespace, "n1"]
        assert lease["metadata"]["ownerReferences"][0]["uid"] == uid
        await kernel.run_until(292 * SECOND)  # the static pod's next resync, 60 to 91 s after one before
        assert api.pod("proxy-n1")["metadata"]["ownerReferences"][0]["uid"] == uid


async def test_a_shutdown_is_told_at_once_also_when_a_pass_has_just_read_the_node() -> None:
    options = parse_node_agent({"shutdown-grace-period": "30s"})
    async with one_node(options=options) as (kernel, api, node):
        await kernel.run_until(21 * SECOND)
        node.fail_pod_network("cni down")  # so that a pass runs
        while not node.machine.agent.node_loop._running:
            await kernel.run_until(kernel.now_us + 500)
        await kernel.run_until(kernel.now_us + 1_000)  # it has read: its write is on its way
        node.shutdown()
        await kernel.run_until(kernel.now_us + 10_000)
        (ready,) = [c for c in held(api)["status"]["conditions"] if c["type"] == "Ready"]
        assert "node is shutting down" in ready["message"]


async def test_a_pass_at_a_shutdown_leaves_the_others_where_they_were() -> None:
    """Regular ones are at 30.3 and 40.4, or a little later."""
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


async def test_a_static_pod_has_its_mirror_with_the_first_sync_that_knows_the_node() -> None:
    """Its container is seen a second after it started; whether the API's pods are known by then does not matter."""
    manifest = {"metadata": {"name": "proxy"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    async with one_node(NodeSpec("n1", static_pods=(manifest,))) as (kernel, api, node):
        (made,) = api.writes("create", "pods")
        assert 1 * SECOND <= made <= 1_010_000
        uid = api.pod("proxy-n1")["metadata"]["uid"]
        node.crash_agent()
        node.start_agent()
        await kernel.run_until(200 * SECOND)
        assert api.pod("proxy-n1")["metadata"]["uid"] == uid and api.ready("proxy-n1")
        assert len(api.writes("create", "pods")) <= 2  # one may find that it is there


async def test_a_node_that_keeps_volumes_says_so_and_deletes_pods_that_have_any_with_the_batch() -> None:
    """Housekeeping comes each 2 s, a batch each 10 s; without the option it is a poll of 0.3 s."""
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
