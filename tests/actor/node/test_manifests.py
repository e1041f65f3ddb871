"""Files of static pods that appear, change, become invalid and disappear, and their mirrors."""

from random import Random
from typing import Any

import pytest

from actors.node.node import Node
from actors.node.runtime.profile import ContainerBehaviour, NodeSpec, Rule, RuntimeProfile
from actors.node.sources.mirrors import static_pod
from sim.api.types import Obj, WatchEvent
from sim.kernel import Kernel
from sim.options.node.agent import parse_node_agent
from sim.units import SECOND
from tests.actor.node.fake import NAMES_USED, FakeApi, one_node

STOP_US = 3 * SECOND


def manifest(name: str = "proxy", version: int = 1, **meta: Any) -> Obj:
    container = {"name": "c", "image": f"i:{version}"}
    return {"metadata": {"name": name, **meta}, "spec": {"containers": [container]}}


def machine(*pods: Obj) -> NodeSpec:
    rule = Rule(ContainerBehaviour(stop_us=STOP_US))
    return NodeSpec("n1", static_pods=pods, profile=RuntimeProfile(rules=(rule,)))


def uid_of(pod: Obj) -> str:
    return str(static_pod(pod, "n1", NAMES_USED, 0)["metadata"]["uid"])


def running(node: Node, kernel: Kernel) -> list[str]:
    return sorted(uid for uid, pod in node.machine.pods.items() if pod.running(kernel.now_us))


def mirrored(api: FakeApi, name: str = "proxy-n1") -> str:
    """The static pod that the mirror shows; "" without a mirror."""
    if not api.has(name):
        return ""
    return str(api.pod(name)["metadata"]["annotations"][NAMES_USED.annotation_mirror_pod])


async def test_new_manifest_runs_at_once_and_gets_a_mirror() -> None:
    async with one_node(machine()) as (kernel, api, node):
        node.write_manifest("proxy", manifest())
        await kernel.run_until(22 * SECOND)
        assert running(node, kernel) == [mirrored(api)] == [uid_of(manifest())]


async def test_changed_manifest_is_another_pod_that_waits_for_the_old_one() -> None:
    """The new pod is tried at once and then every 10 to 15 s, independent of the end of the old
    one.
    """
    async with one_node(machine(manifest())) as (kernel, api, node):
        node.write_manifest("proxy", manifest(version=2))
        await kernel.run_until(22 * SECOND)
        old, new = uid_of(manifest()), uid_of(manifest(version=2))
        assert running(node, kernel) == [old] and mirrored(api) == old
        await kernel.run_until(24 * SECOND)
        assert running(node, kernel) == [] and mirrored(api) == old
        await kernel.run_until(30 * SECOND)
        assert running(node, kernel) == []
        await kernel.run_until(37 * SECOND)
        assert running(node, kernel) == [new] and mirrored(api) == new and api.ready("proxy-n1")


async def test_mirror_of_removed_pod_stays_until_housekeeping_after_its_end() -> None:
    async with one_node(machine(manifest())) as (kernel, api, node):
        node.remove_manifest("proxy")
        await kernel.run_until(22_900_000)
        assert running(node, kernel) and mirrored(api)
        await kernel.run_until(25_200_000)
        assert not running(node, kernel) and not mirrored(api)


async def test_invalid_manifest_keeps_its_pod_until_directory_is_read() -> None:
    options = parse_node_agent({"file-check-frequency": "30s"})
    async with one_node(machine(manifest(), manifest("log")), options) as (kernel, _, node):
        node.write_manifest("proxy", None)
        await kernel.run_until(29_900_000)
        assert len(running(node, kernel)) == 2
        await kernel.run_until(35 * SECOND)
        assert running(node, kernel) == [uid_of(manifest("log"))]
        node.write_manifest("proxy", manifest())  # the same pod again, when nothing is left of it
        await kernel.run_until(37 * SECOND)
        assert len(running(node, kernel)) == 2


async def test_file_with_another_pod_name_runs_both_until_directory_is_read() -> None:
    async with one_node(machine(manifest())) as (kernel, api, node):
        await kernel.run_until(21 * SECOND)
        node.write_manifest("proxy", manifest("other"))
        await kernel.run_until(39 * SECOND)
        assert running(node, kernel) == sorted([uid_of(manifest()), uid_of(manifest("other"))])
        await kernel.run_until(46 * SECOND)
        assert running(node, kernel) == [uid_of(manifest("other"))]
        assert not mirrored(api) and mirrored(api, "other-n1")


async def test_manifest_with_uid_stays_the_same_pod() -> None:
    async with one_node(machine(manifest(uid="mine"))) as (kernel, api, node):
        seen = api.pod("proxy-n1")["metadata"]["annotations"][NAMES_USED.annotation_config_seen]
        node.write_manifest("proxy", manifest(version=2, uid="mine"))
        await kernel.run_until(27 * SECOND)
        (pod,) = node.machine.pods.values()
        newest = pod.newest("c")
        assert newest is not None and (newest.image, newest.attempt) == ("i:2", 1)
        assert (
            node.machine.agent.workers["mine"].pod["metadata"]["annotations"][
                NAMES_USED.annotation_config_seen
            ]
            == seen
        )


async def test_restored_manifest_starts_again_when_its_pod_has_ended() -> None:
    """The next housekeeping starts it: its name is free, and no other pod waits for it."""
    async with one_node(machine(manifest())) as (kernel, api, node):
        node.remove_manifest("proxy")
        await kernel.run_until(21 * SECOND)
        node.write_manifest("proxy", manifest())
        await kernel.run_until(22_900_000)
        assert len(api.events("Started")) == 1
        await kernel.run_until(27 * SECOND)
        assert len(api.events("Started")) == 2
        assert running(node, kernel) == [mirrored(api)] == [uid_of(manifest())]


async def test_changes_of_files_without_agent_are_found_by_the_next_agent() -> None:
    async with one_node(machine(manifest(), manifest("log"))) as (kernel, api, node):
        node.crash_agent()
        node.write_manifest("proxy", manifest(version=2))
        node.remove_manifest("log")
        await kernel.run_until(30 * SECOND)
        node.start_agent()
        await kernel.run_until(36 * SECOND)
        assert running(node, kernel) == [mirrored(api)] == [uid_of(manifest(version=2))]
        assert not mirrored(api, "log-n1")


async def test_foreign_mirror_is_deleted_by_housekeeping() -> None:
    async with one_node(machine(manifest())) as (kernel, api, _):
        made = api.pod("proxy-n1")
        meta = {k: v for k, v in made["metadata"].items() if k != "uid"}
        api.put("pods", {**made, "metadata": {**meta, "name": "fake"}})
        await kernel.run_until(22_100_000)
        assert not api.has("fake") and api.has("proxy-n1")


async def test_mirror_deleted_without_event_is_made_again_after_next_list() -> None:
    async with one_node(machine(manifest())) as (kernel, api, _):
        before = api.pod("proxy-n1")["metadata"]["uid"]
        del api.objects["pods", "default", "proxy-n1"]  # without an event
        for watch in api.watches:
            watch.events.append(WatchEvent("ERROR", None, 0))
            watch.tell(None)
        await kernel.run_until(30 * SECOND)
        assert api.ready("proxy-n1") and api.pod("proxy-n1")["metadata"]["uid"] != before


async def test_mirror_deleted_before_its_create_reply_is_made_again() -> None:
    async with one_node(machine()) as (kernel, api, node):
        answers = []
        call = api.call

        def late(request: Any, on_reply: Any) -> None:
            if (request.verb, request.resource) == ("create", "pods") and not answers:
                answers.append(0)
                call(request, lambda reply: kernel.call_later(3 * SECOND, lambda _: on_reply(reply)))
            else:
                call(request, on_reply)

        api.call = late  # type: ignore[method-assign]
        node.write_manifest("proxy", manifest())
        await kernel.run_until(22 * SECOND)
        api.remove("pods", "default", "proxy-n1")
        await kernel.run_until(30 * SECOND)
        assert answers and api.ready("proxy-n1")


async def test_mirror_of_changed_pod_is_retried_besides_that_of_the_old_pod() -> None:
    async with one_node(machine()) as (kernel, api, node):
        api.failing = (("create", "pods"),)
        node.write_manifest("proxy", manifest())
        await kernel.run_until(25 * SECOND)
        node.write_manifest("proxy", manifest(version=2))
        await kernel.run_until(50 * SECOND)
        assert running(node, kernel) == [uid_of(manifest(version=2))]
        api.failing = ()
        await kernel.run_until(135 * SECOND)
        assert mirrored(api) == uid_of(manifest(version=2))


async def test_refused_static_pod_does_not_make_agent_kill_unknown_pods() -> None:
    """While no API answers, the agent does not know which other containers belong to the node."""
    first, second = manifest("refused", uid="mine"), manifest("refused", uid="mine")
    second["spec"]["securityContext"] = {"sysctls": [{"name": "net.core.somaxconn", "value": "1"}]}
    async with one_node(machine(first)) as (kernel, api, node):
        api.bind("web")
        await kernel.run_until(25 * SECOND)
        assert len(running(node, kernel)) == 2
        node.crash_agent()
        node.write_manifest("refused", second)
        api.down = "ConnectionRefused"
        node.start_agent()
        await kernel.run_until(60 * SECOND)
        assert api.events("SysctlForbidden") and len(running(node, kernel)) == 2
        api.down = ""
        await kernel.run_until(100 * SECOND)
        assert len(running(node, kernel)) == 1 and api.ready("web")


# --- drawn ----------------------------------------------------------------------------------------

FILES = ("a", "b")


class Model:
    """The file source, computed file by file by the rules of file.go.

    store: its pods by name
    """

    def __init__(self, period_us: int) -> None:
        self._period_us = period_us
        self._files: dict[str, Obj | None] = {}
        self._mapping: dict[str, str] = {}
        self.store: dict[str, Obj] = {}
        self._looked_us = 0

    def at(self, now_us: int) -> None:
        """Every read of the whole directory that was due by then."""
        while self._looked_us + self._period_us <= now_us:
            self._looked_us += self._period_us
            self.store = {}
            for file, held in self._files.items():
                if held is not None:
                    self._hold(file, held)

    def _hold(self, file: str, held: Obj) -> None:
        self._mapping[file] = held["metadata"]["name"]
        self.store[held["metadata"]["name"]] = held

    def write(self, file: str, held: Obj | None) -> None:
        self._files[file] = held
        if held is not None:
            self._hold(file, held)

    def remove(self, file: str) -> None:
        self._files.pop(file, None)
        name = self._mapping.pop(file, None)
        if name is not None:
            self.store.pop(name, None)


@pytest.mark.parametrize("seed", range(12))
async def test_random_changes_of_files_match_the_naive_model(seed: int) -> None:
    draw = Random(seed)
    period_us = draw.choice([5, 20, 45]) * SECOND
    options = parse_node_agent({"file-check-frequency": f"{period_us // SECOND}s"})
    async with one_node(machine(), options, seed) as (kernel, api, node):
        model, settled = Model(period_us), dict[str, tuple[str, int]]()
        model.at(kernel.now_us)
        for _ in range(14):
            file = draw.choice(FILES)
            match draw.choice(["write", "write", "write", "other", "spoil", "remove", "mirror"]):
                case "write":
                    held = manifest(file, draw.randint(1, 3))
                    model.write(file, held)
                    node.write_manifest(file, held)
                case "other":
                    held = manifest(f"{file}x", draw.randint(1, 2))
                    model.write(file, held)
                    node.write_manifest(file, held)
                case "spoil":
                    model.write(file, None)
                    node.write_manifest(file, None)
                case "remove":
                    model.remove(file)
                    node.remove_manifest(file)
                case "mirror":
                    if api.has(f"{file}-n1"):
                        api.remove("pods", "default", f"{file}-n1")
            until_us = kernel.now_us + draw.choice([0, 1, 2, 7, 20, 70]) * SECOND + draw.randint(1, SECOND)
            while kernel.now_us < until_us:
                await kernel.run_until(min(until_us, kernel.now_us + SECOND // 4))
                model.at(kernel.now_us)
                names = [node.machine.pods[uid].key for uid in running(node, kernel)]
                assert len(names) == len(set(names))  # one pod of a name at a time
                for name in {*settled, *model.store}:
                    uid = uid_of(model.store[name]) if name in model.store else ""
                    if settled.get(name, ("", 0))[0] != uid:
                        settled[name] = uid, kernel.now_us
                    since_us = kernel.now_us - settled.setdefault(name, (uid, 0))[1]
                    if since_us > STOP_US + 20 * SECOND:
                        of_name = [
                            u
                            for u in running(node, kernel)
                            if node.machine.pods[u].key == f"default/{name}-n1"
                        ]
                        assert of_name == ([uid] if uid else [])
                        if since_us > STOP_US + 22 * SECOND:
                            assert mirrored(api, f"{name}-n1") in (uid, "")
        for _ in range(2):
            await kernel.run_until(kernel.now_us + 60 * SECOND)
            model.at(kernel.now_us)
        wanted = {f"{name}-n1": uid_of(held) for name, held in model.store.items()}
        assert running(node, kernel) == sorted(wanted.values())
        mirrors = {key[2] for key in api.objects if key[0] == "pods"}
        assert {name: mirrored(api, name) for name in mirrors} == wanted
