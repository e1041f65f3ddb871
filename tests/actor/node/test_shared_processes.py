"""Containers that share a namespace of processes: those of a pod, and one that debugs another."""

from typing import Any

from sim.api.types import Obj
from sim.units import SECOND
from tests.actor.node.fake import FakeApi, one_node


def shell(name: str, script: str, **fields: Any) -> Obj:
    return {"name": name, "image": "busybox", "command": ["sh", "-c", script], **fields}


def ended(api: FakeApi, name: str, key: str = "containerStatuses") -> dict[str, int]:
    statuses = api.pod(name)["status"].get(key) or ()
    return {
        one["name"]: one["state"]["terminated"]["exitCode"]
        for one in statuses
        if "terminated" in one["state"]
    }


def lines(node: Any, container: str) -> list[str]:
    (runtime,) = node.machine.pods.values()
    found = node.machine.output_of(runtime.newest(container))
    return [line.data.decode().rstrip("\n") for line in found.lines]


async def test_containers_of_a_shared_namespace_see_each_other_below_a_pause_program() -> None:
    containers = [
        {"name": "unknown", "image": "registry.example/team/app:1"},
        shell("first", "exec sleep 100"),
        shell(
            "second",
            "sleep 1; ps -o pid,user,comm; cat /proc/1/cmdline; cd /proc/3/root/etc; pwd; cat hostname",
        ),
    ]
    spec = {"shareProcessNamespace": True, "containers": containers, "restartPolicy": "Never"}
    async with one_node() as (kernel, api, node):
        api.bind("a", spec)
        await kernel.run_until(30 * SECOND)
        printed = lines(node, "second")
        assert [line.split() for line in printed[:5]] == [
            ["PID", "USER", "COMMAND"],
            ["1", "65535", "pause"],
            ["2", "root", "app"],
            ["3", "root", "sleep"],
            ["4", "root", "sh"],
        ]
        assert printed[6:] == ["/pause\x00/proc/3/root/etc", "a"]


async def test_signals_reach_other_containers_of_a_shared_namespace_only() -> None:
    script = "sleep 1; found=$(pidof sleep) || exit 4; kill -9 $found"
    for shared, codes in ((True, {"victim": 137, "killer": 0}), (False, {"killer": 4})):
        containers = [shell("victim", "exec sleep 100"), shell("killer", script)]
        async with one_node() as (kernel, api, _):
            api.bind(
                "a", {"shareProcessNamespace": shared, "containers": containers, "restartPolicy": "Never"}
            )
            await kernel.run_until(30 * SECOND)
            assert ended(api, "a") == codes


async def test_end_of_the_pause_program_ends_the_sandbox_and_a_new_one_is_made() -> None:
    containers = [
        shell("a", "exec sleep 1000"),
        shell("b", "[ -e /data/x ] && exec sleep 1000; >/data/x; sleep 2; kill 1"),
    ]
    mounted = [{**one, "volumeMounts": [{"name": "v", "mountPath": "/data"}]} for one in containers]
    spec = {"shareProcessNamespace": True, "containers": mounted, "volumes": [{"name": "v", "emptyDir": {}}]}
    async with one_node() as (kernel, api, node):
        api.bind("a", spec)
        await kernel.run_until(60 * SECOND)
        (runtime,) = node.machine.pods.values()
        assert runtime.attempt == 1 and api.ready("a")
        assert [one["restartCount"] for one in api.pod("a")["status"]["containerStatuses"]] == [1, 1]


async def test_ephemeral_container_enters_the_namespace_of_its_target() -> None:
    target = shell("app", "trap 'echo got it' USR1; echo secret >/tmp/file; while true; do sleep 1; done")
    debug = shell("debugger", "ps -o pid,comm | head -2; cat /proc/1/root/tmp/file; kill -USR1 1; sleep 100")
    async with one_node() as (kernel, api, node):
        api.bind("a", {"containers": [target], "restartPolicy": "Never"})
        await kernel.run_until(30 * SECOND)
        pod = api.pod("a")
        ephemeral = [{**debug, "targetContainerName": "app"}]
        api.put("pods", {**pod, "spec": {**pod["spec"], "ephemeralContainers": ephemeral}})
        await kernel.run_until(40 * SECOND)
        assert [line.split() for line in lines(node, "debugger")] == [
            ["PID", "COMMAND"],
            ["1", "sh"],
            ["secret"],
        ]
        assert lines(node, "app") == ["got it"]
        node.end_container("default", "a", "app", 7)
        await kernel.run_until(60 * SECOND)
        assert ended(api, "a") == {"app": 7}
        assert ended(api, "a", "ephemeralContainerStatuses") == {"debugger": 137}


async def test_sigterm_ends_the_first_process_of_a_container_in_a_shared_namespace() -> None:
    for shared, latest_s in ((True, 31), (False, 60)):
        async with one_node() as (kernel, api, _):
            api.bind(
                "a",
                {"shareProcessNamespace": shared, "containers": [shell("c", "while :; do sleep 1; done")]},
            )
            await kernel.run_until(30 * SECOND)
            api.delete("a", 25)
            await kernel.run_until((latest_s + 1) * SECOND)
            gone_s = next(at for at, verb, *_ in api.log if verb == "delete") // SECOND
            assert abs(gone_s - (31 if shared else 55)) <= 1
