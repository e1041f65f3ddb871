"""How a node comes to be in the API, what its agent keeps right of it, and what becomes of it when somebody else changes it."""

from typing import Any

from actors.node.profile import NodeSpec
from sim.options.node_agent import parse_node_agent
from sim.units import SECOND
from tests.actor.node.fake import NAMES_USED, FakeApi, one_node

Obj = dict[str, Any]
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
