"""The DaemonSet controller against the real API server; nodes are objects without agents."""

from __future__ import annotations

from actors.controllers.daemonset.decide import target_node
from sim.api.types import Obj
from tests.actor.controllers.workload import World, template, workload, world

LOOPS = ("daemonset",)


def node(name: str, *taints: tuple[str, str], **labels: str) -> Obj:
    spec = {"taints": [{"key": key, "value": "v", "effect": effect} for key, effect in taints]}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec if taints else {}}


async def add(w: World, *nodes: Obj) -> None:
    for made in nodes:
        await w.create("nodes", made, "")
        names = w.plane.server.scheme.names
        # Admission taints new nodes as not ready; the node lifecycle controller would remove that.
        meta = made["metadata"]
        stored = (await w.plane.ask("get", "nodes", "", meta["name"])).obj
        kept = [t for t in stored["spec"].get("taints", ()) if t["key"] != names.taint_not_ready]
        reply = await w.plane.ask(
            "patch",
            "nodes",
            "",
            meta["name"],
            body={"spec": {"taints": kept or None}},
            content_type="application/merge-patch+json",
        )
        assert reply.ok, reply.message


async def places(w: World) -> list[str]:
    return sorted(target_node(pod) for pod in await w.stored("pods"))


async def test_every_matching_node_gets_one_daemon_pod() -> None:
    async with world(LOOPS) as w:
        await add(w, node("a"), node("b"), node("ns", ("k", "NoSchedule")), node("ne", ("k", "NoExecute")))
        await w.create("daemonsets", workload("DaemonSet", "ds"))
        await w.settle()
        assert await places(w) == ["a", "b"]
        await add(w, node("c"))
        await w.settle()
        assert await places(w) == ["a", "b", "c"]
        status = (await w.get("daemonsets", "ds"))["status"]
        assert (status["desiredNumberScheduled"], status["currentNumberScheduled"]) == (3, 3)
        assert status["numberUnavailable"] == 3


async def test_daemon_pods_tolerate_the_condition_taints() -> None:
    async with world(LOOPS) as w:
        await add(w, node("a"))
        await w.create("daemonsets", workload("DaemonSet", "ds"))
        await w.settle()
        (pod,) = await w.stored("pods")
        names = w.plane.server.scheme.names
        unlimited = [
            t["key"]
            for t in pod["spec"]["tolerations"]
            if t["effect"] == "NoExecute" and "tolerationSeconds" not in t
        ]
        assert unlimited == [names.taint_not_ready, names.taint_unreachable]


async def test_no_schedule_taint_keeps_the_daemon_pod_and_no_execute_taint_deletes_it() -> None:
    async with world(LOOPS) as w:
        await add(w, node("a"), node("b"))
        await w.create("daemonsets", workload("DaemonSet", "ds"))
        await w.settle()
        for name, effect in (("a", "NoSchedule"), ("b", "NoExecute")):
            taint = {"spec": {"taints": [{"key": "k", "value": "v", "effect": effect}]}}
            reply = await w.plane.ask(
                "patch", "nodes", "", name, body=taint, content_type="application/merge-patch+json"
            )
            assert reply.ok, reply.message
        await w.settle()
        assert await places(w) == ["a"]
        status = (await w.get("daemonsets", "ds"))["status"]
        assert (status["desiredNumberScheduled"], status["numberMisscheduled"]) == (0, 1)


async def test_max_unavailable_of_half_of_three_nodes_is_two() -> None:
    async with world(LOOPS) as w:
        await add(w, node("a"), node("b"), node("c"))
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%", "maxSurge": 0}}
        spec = {"updateStrategy": strategy, "template": template("ds", v="1")}
        await w.create("daemonsets", workload("DaemonSet", "ds", **spec))
        await w.settle()
        await w.make_all_ready()
        await w.settle()
        await w.patch("daemonsets", "ds", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
        await w.settle()
        assert sorted(pod["metadata"]["labels"]["v"] for pod in await w.stored("pods")) == ["1", "2", "2"]
        await w.make_all_ready()
        await w.settle()
        assert [pod["metadata"]["labels"]["v"] for pod in await w.stored("pods")] == ["2", "2", "2"]


async def test_failed_daemon_pod_is_replaced_with_an_event() -> None:
    async with world(LOOPS) as w:
        await add(w, node("a"))
        await w.create("daemonsets", workload("DaemonSet", "ds"))
        await w.settle()
        (first,) = await w.names("pods")
        await w.patch("pods", first, {"status": {"phase": "Failed"}}, "status")
        await w.settle()
        (second,) = await w.names("pods")
        assert second != first
        text = f"Found failed daemon pod default/{first} on node a, will try to kill it"
        assert ("FailedDaemonPod", text) in await w.events("ds")


async def relabelled(w: World, name: str, label: str | None) -> None:
    key = w.plane.server.scheme.names.label_controller_revision_hash
    await w.patch("controllerrevisions", name, {"metadata": {"labels": {key: label}}})


async def test_equal_revisions_are_merged_and_pods_relabelled() -> None:
    async with world(LOOPS) as w:
        await add(w, node("a"))
        await w.create("daemonsets", workload("DaemonSet", "ds"))
        await w.settle()
        key = w.plane.server.scheme.names.label_controller_revision_hash
        (revision,) = await w.stored("controllerrevisions")
        meta = {"name": "twin", "ownerReferences": revision["metadata"]["ownerReferences"]}
        labels = {**revision["metadata"]["labels"], key: "twin"}
        await w.create(
            "controllerrevisions", {**revision, "metadata": {**meta, "labels": labels}, "revision": 7}
        )
        await w.patch("daemonsets", "ds", {"metadata": {"labels": {"touched": "1"}}})
        await w.settle()
        assert await w.names("controllerrevisions") == ["twin"]
        (pod,) = await w.stored("pods")
        assert pod["metadata"]["labels"][key] == "twin"


async def test_unlabelled_revision_gets_its_name_as_label_and_orphan_is_adopted() -> None:
    async with world(LOOPS) as w:
        await add(w, node("a"))
        made = await w.create("daemonsets", workload("DaemonSet", "ds"))
        await w.settle()
        (revision,) = await w.stored("controllerrevisions")
        name = revision["metadata"]["name"]
        await relabelled(w, name, None)
        await w.settle()
        key = w.plane.server.scheme.names.label_controller_revision_hash
        assert (await w.get("controllerrevisions", name))["metadata"]["labels"][key] == name
        orphan = {"metadata": {"name": "old", "labels": {"app": "ds", key: "old"}}, "revision": 0, "data": {}}
        await w.create(
            "controllerrevisions", {"apiVersion": "apps/v1", "kind": "ControllerRevision", **orphan}
        )
        await w.settle()
        taken = await w.get("controllerrevisions", "old")
        assert taken["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
