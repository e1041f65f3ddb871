"""Programs of containers: their output, their ends, their signals, and what outlives the agent."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from itertools import pairwise
from typing import Any

import pytest

from actors.node.node import Node
from actors.node.programs.ends import send
from actors.node.programs.network.http import Request, Response, serve
from actors.node.programs.network.tasks import Tasks
from actors.node.programs.process import Process, Signal
from actors.node.programs.waits import Main, Wait
from actors.node.runtime.interpreter import Interpreter
from actors.node.server.logs import read_log
from sim.api.types import Obj
from sim.options.node.agent import parse_node_agent
from sim.units import MS, SECOND
from tests.actor.node.fake import FakeApi, one_node

Program = Callable[[Process], Main]


def wait(process: Process, seconds: float) -> Main:
    """Wait so long, or until a signal comes that the process has caught."""
    until_us = process.now_us + round(seconds * SECOND)
    while process.now_us < until_us and not process.pending:
        yield Wait(until_us=until_us)
    return 0


def steps(process: Process) -> Main:
    """`steps STEP...`: write a word, or do what begins with a colon."""
    for word in process.words[1:]:
        match word.partition("=")[::2]:
            case ":wait", seconds:
                yield from wait(process, float(seconds))
            case ":exit", code:
                return int(code)
            case ":catch", number:
                process.caught.add(int(number))
            case ":message", text:
                process.container.files.write("/dev/termination-log", text.encode(), process)
            case ":make", path:
                process.container.files.write(path, b"x", process)
            case ":delete", path:
                process.container.files.unlink(path, process)
            case ":needs", path:
                if not process.container.files.exists(path, process):
                    yield from send(process.ends[2], f"no {path}\n".encode())
                    return 1
            case ":mode", path:
                inode = process.container.files.lookup(path, process)
                yield from send(process.ends[1], f"{inode.mode:o} {inode.gid}\n".encode())
            case ":file", path:
                yield from send(process.ends[1], process.container.files.read(path, process))
            case ":variable", name:
                yield from send(process.ends[1], f"{process.env.get(name)}\n".encode())
            case _:
                yield from send(process.ends[1], word.encode() + b"\n")
    return 0


INTERPRETER = Interpreter({"steps": steps})


def running(*words: str, **fields: Any) -> Obj:
    """The spec of a pod with a container that runs these steps."""
    policy = fields.pop("restartPolicy", "Never")
    container = {"name": "c", "image": "busybox", "command": ["steps", *words], **fields}
    return {"containers": [container], "restartPolicy": policy}


def log_of(node: Node, name: str = "web") -> str:
    return read_log(node.machine.agent, "default", name, "c")[1]


def state(api: FakeApi, name: str = "web") -> Mapping[str, Any]:
    found: Mapping[str, Any] = api.pod(name)["status"]["containerStatuses"][0]["state"]
    return found


def first_start_us(node: Node) -> int:
    (pod,) = node.machine.pods.values()
    return pod.containers[0].started_us


async def test_output_is_in_the_log_once_written_and_the_code_ends_the_container() -> None:
    async with one_node() as (kernel, api, node):
        node.machine.interpreter = INTERPRETER
        api.bind("web", running("one", ":wait=30", "two", ":wait=5", ":exit=3"))
        await kernel.run_until(30 * SECOND)
        assert log_of(node) == "one\n"
        began_us = first_start_us(node)
        await kernel.run_until(began_us + 30 * SECOND)
        assert log_of(node) == "one\ntwo\n"
        (log,) = node.machine.outputs.values()
        assert [(line.at_us - began_us) // SECOND for line in log.lines] == [0, 30]
        await kernel.run_until(70 * SECOND)
        ended = state(api)["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (3, "Error")
        assert api.pod("web")["status"]["phase"] == "Failed"
        (pod,) = node.machine.pods.values()
        assert pod.containers[0].exit_us == began_us + 35 * SECOND


async def test_a_program_with_nothing_to_do_takes_a_tenth_of_a_second() -> None:
    async with one_node() as (kernel, api, node):
        node.machine.interpreter = INTERPRETER
        api.bind("web", running("hello"))
        await kernel.run_until(30 * SECOND)
        (pod,) = node.machine.pods.values()
        assert pod.containers[0].exit_us == first_start_us(node) + 100 * MS
        assert api.pod("web")["status"]["phase"] == "Succeeded"


@pytest.mark.parametrize(
    ("words", "code", "after_s"),
    [
        ((":wait=1000",), 137, 30),  # process 1 gets no signal that it has no handler for
        ((f":catch={Signal.TERM}", ":wait=1000", "bye", ":exit=7"), 7, 0),
        ((f":catch={Signal.TERM}", ":wait=1000", ":wait=0", ":exit=143"), 143, 0),
    ],
)
async def test_a_deleted_pods_program_gets_sigterm_and_after_the_grace_period_sigkill(
    words: tuple[str, ...], code: int, after_s: int
) -> None:
    async with one_node() as (kernel, api, node):
        node.machine.interpreter = INTERPRETER
        api.bind("web", running(*words))
        await kernel.run_until(30 * SECOND)
        (pod,) = node.machine.pods.values()
        (container,) = pod.containers
        api.delete("web", 30)
        await kernel.run_until(70 * SECOND)
        assert container.exit_code == code
        assert container.exit_us is not None
        assert (container.exit_us - 30 * SECOND) // SECOND == after_s
        assert not node.machine.programs


async def test_programs_continue_without_an_agent_and_end_with_the_power() -> None:
    async with one_node() as (kernel, api, node):
        node.machine.interpreter = INTERPRETER
        api.bind("web", running("one", ":wait=30", "two", ":wait=100", "three", restartPolicy="Always"))
        await kernel.run_until(30 * SECOND)
        began_us = first_start_us(node)
        node.crash_agent()
        await kernel.run_until(began_us + 40 * SECOND)
        (log,) = node.machine.outputs.values()
        assert [line.data for line in log.lines] == [b"one\n", b"two\n"]
        node.power_loss()
        assert not any(one.table.processes for one in node.machine.programs.values())
        await kernel.run_until(began_us + 200 * SECOND)
        assert len(log.lines) == 2
        node.power_on()
        await kernel.run_until(began_us + 230 * SECOND)
        (pod,) = node.machine.pods.values()
        assert [one.exit_code for one in pod.containers if one.exit_us] == [255]
        assert log_of(node) == "one\n"


async def test_a_fault_that_ends_a_container_ends_its_processes() -> None:
    async with one_node() as (kernel, api, node):
        node.machine.interpreter = INTERPRETER
        api.bind("web", running("one", ":wait=30", "two"))
        await kernel.run_until(30 * SECOND)
        assert node.end_container("default", "web", "c", 9)
        (programs,) = node.machine.programs.values()
        assert not programs.table.processes
        await kernel.run_until(100 * SECOND)
        assert state(api)["terminated"]["exitCode"] == 9


@pytest.mark.parametrize(
    ("words", "fields", "message"),
    [
        ((":message=why", ":exit=1"), {}, "why"),
        (("said", ":exit=1"), {}, None),
        (("said", ":exit=1"), {"terminationMessagePolicy": "FallbackToLogsOnError"}, "said\n"),
        (("said", ":exit=0"), {"terminationMessagePolicy": "FallbackToLogsOnError"}, None),
        (
            ("said", ":message=why", ":exit=1"), {"terminationMessagePolicy": "FallbackToLogsOnError"}, "why",
        ),
        (("x" * 3000, ":exit=1"), {"terminationMessagePolicy": "FallbackToLogsOnError"}, "x" * 2047 + "\n"),
        ((f":message={'x' * 5000}",), {}, "x" * 4096),
        (("a", *["b"] * 80, ":exit=1"), {"terminationMessagePolicy": "FallbackToLogsOnError"}, "b\n" * 80),
    ],
)  # fmt: skip
async def test_termination_message_is_the_files_or_after_an_error_the_end_of_the_log(
    words: tuple[str, ...], fields: dict[str, Any], message: str | None
) -> None:
    async with one_node() as (kernel, api, node):
        node.machine.interpreter = INTERPRETER
        api.bind("web", running(*words, **fields))
        await kernel.run_until(30 * SECOND)
        assert state(api)["terminated"].get("message") == message


async def test_programs_see_variables_of_services_and_the_files_of_the_runtime() -> None:
    async with one_node() as (kernel, api, node):
        node.machine.interpreter = INTERPRETER
        ports = [{"port": 80}]
        api.put(
            "services",
            {
                "metadata": {"name": "db", "namespace": "default"},
                "spec": {"clusterIP": "10.0.0.9", "ports": ports},
            },
        )
        shown = (":variable=DB_SERVICE_HOST", ":variable=HOSTNAME", "$(A)", ":file=/etc/hosts")
        api.bind("web", running(*shown, env=[{"name": "A", "value": "<$(DB_SERVICE_PORT)>"}]))
        await kernel.run_until(30 * SECOND)
        lines = log_of(node).splitlines()
        assert lines[:4] == ["10.0.0.9", "web", "<80>", "# Kubernetes-managed hosts file."]
        assert lines[-1].endswith("\tweb")


async def test_a_container_of_an_unknown_program_or_of_sleeps_has_no_processes() -> None:
    async with one_node() as (kernel, api, node):
        node.machine.interpreter = INTERPRETER
        plain = {"name": "c", "image": "busybox", "command": ["sleep", "5"]}
        api.bind("web", {"containers": [plain], "restartPolicy": "Never"})
        api.bind("other", {"containers": [{"name": "c", "image": "mine", "command": ["/server"]}]})
        await kernel.run_until(30 * SECOND)
        assert not node.machine.programs
        assert state(api)["terminated"]["exitCode"] == 0
        assert "running" in state(api, "other")


async def test_a_program_that_the_files_lack_fails_the_start_of_its_container() -> None:
    async with one_node() as (kernel, api, node):
        node.machine.interpreter = INTERPRETER
        api.bind("web", running("x", command=["/sbin/steps"]))
        await kernel.run_until(30 * SECOND)
        ended = state(api)["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
        assert 'exec: "/sbin/steps": stat /sbin/steps: no such file or directory: unknown' in ended["message"]


READY = {"exec": {"command": ["steps", ":needs=/tmp/ready"]}, "periodSeconds": 5}


async def test_a_probe_runs_its_command_in_the_container_and_shows_its_output() -> None:
    async with one_node() as (kernel, api, node):
        node.machine.interpreter = INTERPRETER
        words = (":wait=12", ":make=/tmp/ready", ":wait=20", ":delete=/tmp/ready", ":wait=1000")
        api.bind("web", running(*words, readinessProbe={**READY, "failureThreshold": 1}))
        await kernel.run_until(30 * SECOND)
        began_us = first_start_us(node)
        await kernel.run_until(began_us + 10 * SECOND)
        assert not api.ready("web")
        await kernel.run_until(began_us + 20 * SECOND)
        assert api.ready("web")
        await kernel.run_until(began_us + 40 * SECOND)
        assert not api.ready("web")
        assert {text for _, text in api.events("Unhealthy")} == {"Readiness probe failed: no /tmp/ready\n"}


async def test_a_probes_command_that_takes_too_long_is_ended_and_counts_as_failed() -> None:
    async with one_node() as (kernel, api, node):
        node.machine.interpreter = INTERPRETER
        slow = {"exec": {"command": ["steps", ":wait=3"]}, "periodSeconds": 10, "timeoutSeconds": 2}
        api.bind(
            "web",
            running(":wait=1000", livenessProbe={**slow, "failureThreshold": 1}, restartPolicy="Always"),
        )
        await kernel.run_until(30 * SECOND)
        began_us = first_start_us(node)
        await kernel.run_until(began_us + 15 * SECOND)
        ((at_us, text), *_) = api.events("Unhealthy")
        assert text == 'Liveness probe failed: command "steps :wait=3" timed out'
        ticks = [at for at, _ in api.events("Killing")]
        assert at_us % SECOND == (began_us + at_us - began_us) % SECOND and ticks


@pytest.mark.parametrize(("gate", "text", "kills"), [
    (True, 'Liveness probe failed: command "steps :wait=3" timed out', True),
    (False, 'Liveness probe errored: command "steps :wait=3" timed out', False),
])  # fmt: skip
async def test_exec_probe_timeout_decides_if_a_late_command_fails_the_probe(
    gate: bool, text: str, kills: bool
) -> None:
    options = parse_node_agent({"feature-gates": f"ExecProbeTimeout={str(gate).lower()}"})
    async with one_node(options=options) as (kernel, api, node):
        node.machine.interpreter = INTERPRETER
        slow = {"exec": {"command": ["steps", ":wait=3"]}, "periodSeconds": 10, "timeoutSeconds": 2}
        probe = {**slow, "failureThreshold": 1}
        api.bind("web", running(":wait=1000", livenessProbe=probe, restartPolicy="Always"))
        await kernel.run_until(60 * SECOND)
        assert {found for _, found in api.events("Unhealthy")} == {text}
        assert bool(api.events("Killing")) is kills
        took_s = [(at - first_start_us(node)) // SECOND % 10 for at, _ in api.events("Unhealthy")]
        assert took_s[0] == (1 if kills else 5)  # after one try, and after three


async def test_a_probes_command_that_takes_its_time_succeeds_within_its_limit() -> None:
    async with one_node() as (kernel, api, node):
        node.machine.interpreter = INTERPRETER
        slow = {"exec": {"command": ["steps", ":wait=3"]}, "periodSeconds": 10, "timeoutSeconds": 4}
        api.bind("web", running(":wait=1000", livenessProbe={**slow, "failureThreshold": 1}))
        await kernel.run_until(100 * SECOND)
        assert api.events("Unhealthy") == []
        (programs,) = node.machine.programs.values()
        assert len(programs.table.processes) <= 2


async def test_a_probes_command_that_cannot_be_started_counts_neither_way() -> None:
    async with one_node() as (kernel, api, node):
        node.machine.interpreter = INTERPRETER
        probe = {"exec": {"command": ["no-such"]}, "periodSeconds": 5, "failureThreshold": 1}
        api.bind("web", running(":wait=1000", livenessProbe=probe))
        await kernel.run_until(60 * SECOND)
        texts = {text for _, text in api.events("Unhealthy")}
        (text,) = texts
        assert text.startswith(
            "Liveness probe errored: rpc error: code = Unknown desc = failed to exec in container"
        )
        assert text.endswith('exec: "no-such": executable file not found in $PATH: unknown')
        assert "running" in state(api)


@pytest.mark.parametrize(
    ("hook", "term_s", "events"),
    [
        ((":wait=5", ":make=/tmp/ready"), 5, 0),
        ((":wait=5", ":needs=/tmp/none"), 5, 1),
        ((":wait=500",), 30, 1),
    ],
)
async def test_sigterm_follows_the_command_of_a_prestop_hook(
    hook: tuple[str, ...], term_s: int, events: int
) -> None:
    async with one_node() as (kernel, api, node):
        node.machine.interpreter = INTERPRETER
        lifecycle = {"preStop": {"exec": {"command": ["steps", *hook]}}}
        api.bind("web", running(f":catch={Signal.TERM}", ":wait=1000", lifecycle=lifecycle))
        await kernel.run_until(30 * SECOND)
        (pod,) = node.machine.pods.values()
        (container,) = pod.containers
        began_us = kernel.now_us
        api.delete("web", 30)
        await kernel.run_until(100 * SECOND)
        assert container.exit_us is not None
        assert (container.exit_us - began_us) // SECOND == term_s
        assert container.exit_code == 0
        assert len(api.events("FailedPreStopHook")) == events


async def test_a_poststart_hook_that_fails_ends_its_container_with_its_output() -> None:
    async with one_node() as (kernel, api, node):
        node.machine.interpreter = INTERPRETER
        hook = ["steps", ":wait=2", "said", ":needs=/none"]
        api.bind(
            "web",
            running(
                f":catch={Signal.TERM}", ":wait=1000", lifecycle={"postStart": {"exec": {"command": hook}}}
            ),
        )
        await kernel.run_until(40 * SECOND)
        ((_, text),) = api.events("FailedPostStartHook")
        assert text.endswith('exited with 1: no /none\n, message: "said\\nno /none\\n"')
        (pod,) = node.machine.pods.values()
        container = pod.containers[0]
        assert container.exit_us is not None
        assert (container.exit_us - container.started_us) // SECOND == 2


@pytest.mark.parametrize("restarts", [False, True])
async def test_programs_read_volumes_of_objects_and_see_their_changes_at_a_later_sync(restarts: bool) -> None:
    async with one_node() as (kernel, api, node):
        node.machine.interpreter = INTERPRETER
        settings = {"metadata": {"name": "settings", "namespace": "default"}, "data": {"key": "old\n"}}
        api.put("configmaps", settings)
        api.put(
            "secrets", {"metadata": {"name": "keys", "namespace": "default"}, "data": {"k": "c2VjcmV0Cg=="}}
        )
        words = (
            ":file=/etc/settings/key",
            ":file=/keys/k",
            ":mode=/keys/k",
            ":wait=110",
            ":file=/etc/settings/key",
            ":wait=99",
        )
        spec = running(*words)
        spec["volumes"] = [
            {"name": "s", "configMap": {"name": "settings"}},
            {"name": "k", "secret": {"secretName": "keys", "defaultMode": 0o400}},
        ]
        spec["containers"][0]["volumeMounts"] = [
            {"name": "s", "mountPath": "/etc/settings"}, {"name": "k", "mountPath": "/keys"},
        ]  # fmt: skip
        spec["securityContext"] = {"fsGroup": 2000}
        api.bind("web", spec)
        await kernel.run_until(30 * SECOND)
        assert log_of(node) == "old\nsecret\n440 2000\n"
        if restarts:
            node.crash_agent()
            node.start_agent()
        api.put("configmaps", {**settings, "data": {"key": "new\n"}})
        await kernel.run_until(150 * SECOND)
        assert log_of(node) == "old\nsecret\n440 2000\nnew\n"


async def test_an_emptydir_is_shared_by_containers_outlives_them_and_ends_with_its_pod() -> None:
    async with one_node() as (kernel, api, node):
        node.machine.interpreter = INTERPRETER
        spec = running(":wait=1", ":needs=/data/x", ":wait=5", ":exit=1", restartPolicy="OnFailure")
        other = {"name": "d", "image": "busybox", "command": ["steps", ":make=/shared/x"]}
        spec["containers"].append(other)
        spec["volumes"] = [{"name": "v", "emptyDir": {}}]
        spec["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/data", "readOnly": True}]
        other["volumeMounts"] = [{"name": "v", "mountPath": "/shared"}]
        api.bind("web", spec)
        await kernel.run_until(60 * SECOND)
        (pod,) = node.machine.pods.values()
        newest = pod.newest("c")
        assert newest is not None and newest.attempt > 0 and newest.exit_us is not None
        assert (newest.exit_us - newest.started_us) // SECOND == 6  # it has found the file
        api.delete("web", 1)
        await kernel.run_until(100 * SECOND)
        api.bind("web", running(":needs=/data/x"))
        await kernel.run_until(130 * SECOND)
        assert state(api)["terminated"]["exitCode"] == 1


async def test_a_hostpath_outlives_its_pod_and_a_subpath_shows_a_part() -> None:
    async with one_node() as (kernel, api, node):
        node.machine.interpreter = INTERPRETER
        for name, word, part in (
            ("first", ":make=/data/x", "a"),
            ("second", ":needs=/data/x", "a"),
            ("third", ":needs=/data/x", "b"),
        ):
            spec = running(word)
            spec["volumes"] = [{"name": "v", "hostPath": {"path": "/srv/data"}}]
            mount = {"name": "v", "mountPath": "/data", "subPathExpr": "$(PART)"}
            spec["containers"][0] |= {"volumeMounts": [mount], "env": [{"name": "PART", "value": part}]}
            api.bind(name, spec)
            await kernel.run_until(kernel.now_us + 30 * SECOND)
        codes = [state(api, name)["terminated"]["exitCode"] for name in ("first", "second", "third")]
        assert codes == [0, 0, 1]


async def test_data_of_a_claim_outlive_the_pod_and_follow_the_volume_to_another_node() -> None:
    disks: dict[str, Any] = {}
    claimed = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    for word, uid, code in (
        (":make=/data/x", "one", 0),
        (":needs=/data/x", "one", 0),
        (":needs=/data/x", "two", 1),
    ):
        async with one_node() as (kernel, api, node):
            node.machine.interpreter, node.machine.disks = INTERPRETER, disks
            meta = {"name": "c", "namespace": "default", "uid": "uid-c"}
            bound = {"volumeName": "pv"}
            api.put("persistentvolumeclaims", {"metadata": meta, "spec": bound, "status": {"phase": "Bound"}})
            reference = {"uid": "uid-c", "namespace": "default", "name": "c"}
            disk = {"claimRef": reference, "nfs": {"path": "/"}, "capacity": {"storage": "1Gi"}}
            api.put("persistentvolumes", {"metadata": {"name": "pv", "uid": uid}, "spec": disk})
            spec = running(word)
            spec["volumes"] = [claimed]
            spec["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/data"}]
            api.bind("web", spec)
            await kernel.run_until(60 * SECOND)
            assert state(api)["terminated"]["exitCode"] == code
            assert disks[uid].filesystem.bytes_max == 1 << 30


async def test_containers_of_a_pod_share_one_network_at_its_address() -> None:
    async with one_node() as (kernel, api, node):
        node.machine.interpreter = INTERPRETER
        spec = running(":wait=100")
        spec["containers"].append({**spec["containers"][0], "name": "d"})
        api.bind("web", spec)
        api.bind("other", running(":wait=100"))
        await kernel.run_until(30 * SECOND)
        hosts: dict[str, list[Any]] = {}
        for programs in node.machine.programs.values():
            networks = [one.launch.surroundings.network for one in programs.held.values()]
            assert all(network.host == programs.pod.ip for network in networks)
            hosts[programs.pod.key] = networks
        assert len({id(network) for network in hosts["default/web"]}) == 1
        assert hosts["default/other"][0] is not hosts["default/web"][0]


async def test_a_tick_during_a_probes_command_leads_to_the_next_probe_at_once() -> None:
    async with one_node() as (kernel, api, node):
        node.machine.interpreter = INTERPRETER
        slow = {
            "exec": {"command": ["steps", ":wait=3", ":needs=/none"]},
            "periodSeconds": 2,
            "timeoutSeconds": 9,
        }
        api.bind("web", running(":wait=1000", livenessProbe={**slow, "failureThreshold": 99}))
        await kernel.run_until(60 * SECOND)
        times = [at_us for at_us, _ in api.events("Unhealthy")]
        assert len(times) > 5
        assert {later - earlier for earlier, later in pairwise(times)} == {3 * SECOND}


def listening(process: Process) -> Main:
    """`listens PORT SECONDS [CODE]`: answer HTTP after so long."""
    yield from wait(process, float(process.words[2]))
    code = int(process.words[3]) if len(process.words) > 3 else 200

    def answer(_: Request) -> Generator[Wait, None, Response]:
        yield from ()
        return Response(code)

    tasks = Tasks(process)
    tasks.listen(int(process.words[1]), lambda connection: serve(connection, answer, lambda: process.now_us))
    return (yield from tasks.run())


@pytest.mark.parametrize(
    ("handler", "words", "ready", "text"),
    [
        ({"httpGet": {"path": "/x", "port": 80}}, ("80", "10"), True,
         'Get "http://{ip}:80/x": dial tcp {ip}:80: connect: connection refused'),
        ({"httpGet": {"port": 80}}, ("80", "0", "503"), False, "HTTP probe failed with statuscode: 503"),
        ({"tcpSocket": {"port": 80}}, ("80", "10"), True, "dial tcp {ip}:80: connect: connection refused"),
        ({"tcpSocket": {"port": 81}}, ("80", "0"), False, "dial tcp {ip}:81: connect: connection refused"),
    ],
)  # fmt: skip
async def test_a_probe_connects_to_what_the_containers_program_listens_on(
    handler: Obj, words: tuple[str, ...], ready: bool, text: str
) -> None:
    async with one_node() as (kernel, api, node):
        node.machine.interpreter = Interpreter({"listens": listening})
        probe = {**handler, "periodSeconds": 2}
        api.bind("web", running(command=["listens", *words], readinessProbe=probe))
        await kernel.run_until(60 * SECOND)
        (pod,) = node.machine.pods.values()
        assert api.ready("web") is ready
        wanted = f"Readiness probe failed: {text.format(ip=pod.ip)}"
        assert {shown for _, shown in api.events("Unhealthy")} == {wanted}


async def test_what_is_not_simulated_is_in_the_log_once() -> None:
    async with one_node() as (kernel, api, node):
        script = "for i in 1 2 3; do bash -c 'select x in a; do :; done'; done; echo end; nope"
        container = {"name": "c", "image": "debian", "command": ["bash", "-c", script]}
        api.bind("web", {"containers": [container], "restartPolicy": "Never"})
        await kernel.run_until(30 * SECOND)
        lines = log_of(node).splitlines()
        assert lines.count("orrery: the shell: select is not understood") == 1
        assert lines[-1] == "bash: line 1: nope: command not found"
        assert state(api)["terminated"]["exitCode"] == 127


def writing(script: str, volume: Obj | None = None, **limits: str) -> Obj:
    """The spec of a pod that runs a script, with an emptyDir at /v."""
    container = {
        "name": "c", "image": "busybox", "command": ["sh", "-c", script], "resources": {"limits": limits},
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }  # fmt: skip
    return {
        "containers": [container],
        "restartPolicy": "Never",
        "volumes": [{"name": "v", "emptyDir": volume or {}}],
    }


FILL = "sleep 5; dd if=/dev/zero of={path} bs=1M count=3; sleep 600"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (writing(FILL.format(path="/v/x"), {"sizeLimit": "2Mi"}), 'Usage of EmptyDir volume "v" exceeds the limit "2Mi". '),
        (
            writing(FILL.format(path="/v/x"), **{"ephemeral-storage": "2Mi"}),
            "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. ",
        ),
        (
            writing(FILL.format(path="/tmp/x"), **{"ephemeral-storage": "2Mi"}),
            "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. ",
        ),
        (writing(FILL.format(path="/v/x"), {"sizeLimit": "4Mi"}), ""),
        (writing(FILL.format(path="/v/x"), {"medium": "Memory", "sizeLimit": "2Mi"}), ""),
    ],
)  # fmt: skip
async def test_a_pod_that_writes_more_than_its_limit_is_evicted(spec: Obj, message: str) -> None:
    async with one_node() as (kernel, api, _):
        api.bind("web", spec)
        await kernel.run_until(100 * SECOND)
        status = api.pod("web")["status"]
        assert (status.get("message", ""), status.get("reason", "")) == (
            message,
            "Evicted" if message else "",
        )


async def test_a_full_volume_in_memory_is_full_for_programs_and_counts_as_memory() -> None:
    async with one_node() as (kernel, api, node):
        script = "dd if=/dev/zero of=/v/x bs=1M count=9 2>&1; sleep 600"
        api.bind("web", writing(script, {"medium": "Memory"}, memory="4Mi"))
        await kernel.run_until(30 * SECOND)
        assert "No space left on device" in log_of(node)
        (programs,) = node.machine.programs.values()
        assert programs.use()[2] == 4 << 20
