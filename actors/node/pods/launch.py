"""The start of a container with simulated programs.

Turns a container's spec, its variables and its pod's volumes into its surroundings and its first
process, or into the runtime's message about a program that cannot be started.

Mirrors  pkg/kubelet/kubelet_pods.go: GenerateRunContainerOptions, makeMounts;
         kuberuntime_container.go: generateContainerConfig; containerd
         pkg/cri/server/container_create.go (hostname in the environment), runc
         libcontainer/init_linux.go: finalizeNamespace (v1.25).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from actors.node.pods.ports import PodWorker
from actors.node.pods.volume_content import is_unauthorized, mounts_of
from actors.node.pressure.oom import oom_score_adj
from actors.node.programs.files.errors import FileError
from actors.node.programs.files.inodes import File, Filesystem
from actors.node.programs.files.layout import make_folders
from actors.node.programs.files.tree import Mount
from actors.node.programs.lookup import PATH, NotRunnable, program
from actors.node.programs.network.fabric import Wakes
from actors.node.programs.process import NoProcess, Process, Signal
from actors.node.programs.surroundings import Answer, Limits, NodeFacts, Surroundings
from actors.node.programs.table import PROCESSES_MAX
from actors.node.programs.waits import Main, Wait
from actors.node.runtime.containers import Container
from actors.node.runtime.interpreter import Interpreter
from actors.node.runtime.pod_programs import POD_MESSAGE_BYTES_MAX, Launch, PodPrograms, reason_of
from actors.node.runtime.probe_answers import declares
from actors.node.runtime.programs import name_of, words_of
from actors.node.runtime.security.identities import identity_of
from actors.node.runtime.security.profiles import is_filtered
from actors.node.runtime.shell_scripts import program_of
from actors.node.sources.environment import expanded_words
from actors.node.sources.host_files import hosts_file, kernel_name
from actors.node.sources.pod_dns import resolver_file
from sim.api import status
from sim.api.types import NOT_FOUND, Json, Obj, Reply, Verb
from sim.kernel.causes import caused_by
from sim.options.node.agent import NodeAgentOptions
from sim.options.node.machine import KERNEL_DEFAULTS
from sim.units import quantity_milli, quantity_value

MESSAGE_PATH = "/dev/termination-log"
NOT_STARTED = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    'unable to start container process: exec: "{program}": {why}: unknown'
)
START_ERROR_CODE = 128
NOTES_MAX = 100  # of one container: a script could make up commands without end


def programs_of(worker: PodWorker) -> PodPrograms:
    """The processes of a pod."""
    assert worker.runtime is not None
    agent = worker.agent
    found = agent.machine.programs_of(worker.runtime, agent.ctx.kernel)
    if (limit := agent.options.pod_max_pids) > 0:
        found.table.limit = min(limit, PROCESSES_MAX)
    return found


def launch(
    worker: PodWorker,
    spec: Obj,
    container: Container,
    variables: Mapping[str, str],
    interpreter: Interpreter,
    *,
    woken: bool = False,
) -> None:
    """Start the first process of a container that has just been started.

    woken: True if the container has run for a while without it
    """
    agent = worker.agent
    programs = programs_of(worker)
    made = _launch(worker, spec, container, variables, interpreter)
    made.surroundings.woken = woken
    try:
        programs.start(container, made, _space(worker, spec, programs))
    except NotRunnable as error:
        path = made.words[0]
        why = reason_of(error, path)
        container.end(agent.now_us, START_ERROR_CODE, "StartError", NOT_STARTED.format(program=path, why=why))
    except NoProcess:
        text = "failed to create task: fork: resource temporarily unavailable: unknown"
        container.end(agent.now_us, START_ERROR_CODE, "StartError", text)


class Notes:
    """What the interpreter cannot do for one container: each thing once in the log and the trace."""

    def __init__(self, worker: PodWorker, container: Container) -> None:
        self._worker = worker
        self._container = container
        self._noted: set[str] = set()

    def unknown(self, text: str) -> None:
        """Note what only the log can say."""
        if self._is_new(text):
            kernel = self._worker.agent.ctx.kernel
            running = programs_of(self._worker).held.get(self._container.ident)
            if running is not None:
                running.log.note(f"orrery: {text}", kernel.now_us)

    def missing(self, text: str) -> None:
        """Note what the program has printed itself."""
        self._is_new(text)

    def _is_new(self, text: str) -> bool:
        if text in self._noted or len(self._noted) >= NOTES_MAX:
            return False
        self._noted.add(text)
        meta, ctx = self._worker.pod["metadata"], self._worker.agent.ctx
        with caused_by(ctx.kernel, ctx.kernel.cause):
            target = f"pods/{meta.get('namespace', 'default')}/{meta['name']}"
            ctx.decided("unknown", target, {"container": self._container.name, "message": text})
        return True


def _ask(
    worker: PodWorker,
    verb: Verb,
    resource: str,
    namespace: str = "",
    name: str = "",
    body: Json = None,
    content_type: str = "application/json",
) -> Answer:
    """Send a request of a program of the pod, with the rights of its service account."""
    pod, agent, answer = worker.pod, worker.agent, Answer()
    if is_unauthorized(worker, programs_of(worker)):
        answer.take(Reply(401, body=status.unauthorized()))
        return answer
    client = agent.clients.account(agent.ctx, pod)
    if client.scheme.named(resource) is None:
        answer.take(Reply(code=NOT_FOUND))
        return answer
    request = client.request(verb, resource, namespace, name, body=body, content_type=content_type)
    client.call(request, answer.take)
    return answer


def launch_idle(worker: PodWorker, spec: Obj, container: Container, interpreter: Interpreter) -> None:
    """Give a container that runs without processes a first one, so that others can be started.

    It ends as the container's behaviour says: some time after SIGTERM, or only by SIGKILL.
    """
    variables = {one["name"]: one["value"] for one in spec.get("env") or () if "value" in one}
    made, behaviour = _launch(worker, spec, container, variables, interpreter), container.behaviour

    def idle(process: Process) -> Main:
        process.caught.add(Signal.TERM)
        while Signal.TERM not in process.pending or behaviour.stop_us is None:
            process.pending.clear()
            yield Wait()
        until_us = process.now_us + behaviour.stop_us
        while process.now_us < until_us:
            yield Wait(until_us=until_us)
        return behaviour.stop_exit_code

    def find(process: Process, words: tuple[str, ...]) -> Callable[[Process], Main]:
        return idle if words is made.words else program(process, words)

    programs = programs_of(worker)
    programs.start(container, replace(made, find=find, idle=True), _space(worker, spec, programs))


def start_idle(worker: PodWorker, container: Container) -> None:
    """Give a container without processes a first one, which does what its behaviour says."""
    from actors.node.runtime.interpreter import interpreter

    known = worker.agent.machine.interpreter or interpreter()
    kinds = ("initContainers", "containers", "ephemeralContainers")
    specs = [one for kind in kinds for one in worker.pod["spec"].get(kind) or ()]
    spec = next((one for one in specs if one["name"] == container.name), None)
    if known is None or spec is None:
        return
    if program_of(words_of(spec)) in known.asleep:
        wake_server(worker, spec, container, known)
        return
    with suppress(NoProcess):  # the pod has as many as it may
        launch_idle(worker, spec, container, known)


def _space(worker: PodWorker, spec: Obj, programs: PodPrograms) -> object:
    """The namespace of processes that a container enters; None: one of its own.

    Raises NoProcess.

    Mirrors  pkg/kubelet/util/util.go: PodPIDMode and namespacesForPod (v1.25).
    """
    if worker.pod["spec"].get("shareProcessNamespace"):
        return programs.shared_space()
    target = spec.get("targetContainerName")
    if not target:
        return None
    assert worker.runtime is not None
    container = worker.runtime.newest(target)
    if container is None or not container.running(worker.agent.now_us):
        return None
    if container.ident not in programs.held:
        start_idle(worker, container)
    return programs.held[container.ident].first.space if container.ident in programs.held else None


def _launch(
    worker: PodWorker, spec: Obj, container: Container, variables: Mapping[str, str], interpreter: Interpreter
) -> Launch:
    agent, pod = worker.agent, worker.pod
    pod_spec, meta, options = pod["spec"], pod["metadata"], agent.options
    security = spec.get("securityContext") or {}
    domain = options.cluster_domain
    hostname = kernel_name(pod, domain, agent.spec.name)
    ctx = agent.ctx

    def wall_us() -> int:
        return ctx.said_us(ctx.kernel.now_us)

    message = _file(Filesystem("ext4"), 0o666, b"", wall_us())
    message_path = spec.get("terminationMessagePath") or MESSAGE_PATH
    mounts = [
        *_own_files(worker, spec, wall_us()), Mount(message_path, message),
        *mounts_of(worker, spec, programs_of(worker), variables, wall_us()),
    ]  # fmt: skip
    read_only = bool(security.get("readOnlyRootFilesystem"))
    image, own = spec.get("image") or "", agent.resources.devices(pod, spec["name"])
    files = interpreter.tree(image, mounts, wall_us, name=container.ident, read_only=read_only, devices=own)
    cwd = spec.get("workingDir") or "/"
    with suppress(FileError):
        make_folders(files, cwd)
    views = agent.resources.views(pod, spec["name"], container.ident)
    limits, capacity = (spec.get("resources") or {}).get("limits") or {}, agent.spec.capacity
    surroundings = Surroundings(
        spec["name"], spec.get("image") or "", meta["name"], meta.get("namespace", "default"), hostname, files,
        network=programs_of(worker).network(), wall=ctx.said_us,
        node=NodeFacts(
            agent.spec.name, arch=agent.spec.arch, cpus=max(1, quantity_milli(capacity.get("cpu", "1")) // 1000),
            memory_bytes=quantity_value(capacity.get("memory", "0")), swap_bytes=agent.spec.swap_bytes,
            sysctls=kernel_values(agent.spec.sysctls, options),
        ),
        seccomp=is_filtered(pod, spec, options.seccomp_default),
        oom_score_adj=oom_score_adj(pod, spec, quantity_value(capacity.get("memory", "0"))),
        limits=Limits(
            quantity_value(str(limits.get("memory", "0"))),
            0 if limits.get("memory") and not options.swaps(options.feature_gates) else None,
            options.quota_us(quantity_milli(str(limits.get("cpu", "0")))), options.cpu_cfs_quota_period_us,
        ),
        usable=views,
        sysctls={
            one["name"]: one["value"] for one in (pod_spec.get("securityContext") or {}).get("sysctls") or ()
        },
        read_only=read_only,
    )  # fmt: skip
    surroundings.ask = partial(_ask, worker)
    notes = Notes(worker, container)
    surroundings.unknown, surroundings.missing = notes.unknown, notes.missing
    identity = identity_of(pod, spec)
    base = {"PATH": PATH, "HOSTNAME": hostname, "HOME": "/root" if identity.uid == 0 else "/"}
    whole = {**base, **({"TERM": "xterm"} if spec.get("tty") else {}), **variables}
    count = len(pod_spec["containers"]) + len(pod_spec.get("initContainers") or ())
    command = {
        key: expanded_words(spec[key], variables) for key in ("command", "args") if spec.get(key) is not None
    }
    return Launch(
        surroundings, tuple(words_of({**spec, **command})) or (name_of(spec),), whole, cwd, identity, program,
        message=lambda: message.read(0, message.size),
        falls_back=spec.get("terminationMessagePolicy") == "FallbackToLogsOnError",
        stdin=bool(spec.get("stdin")),
        once=bool(spec.get("stdinOnce")),
        terminal=bool(spec.get("tty")),
        message_max=POD_MESSAGE_BYTES_MAX // max(1, count),
    )  # fmt: skip


def wake_server(worker: PodWorker, spec: Obj, container: Container, interpreter: Interpreter) -> None:
    """Start the server of a container that has only run so far."""
    given = {one["name"]: one["value"] for one in spec.get("env") or () if "value" in one}
    launch(worker, spec, container, given, interpreter, woken=True)


def wake(worker: PodWorker, port: int) -> Wakes:
    """Start the server of a container that has only run so far, if its image has one for the port.

    A container that only runs, and declares the port, answers without a process.
    """
    from actors.node.programs.images import ASLEEP
    from actors.node.runtime.interpreter import interpreter

    runtime, found, agent = worker.runtime, interpreter(), worker.agent
    if runtime is None or found is None:
        return Wakes.NOTHING
    answer = Wakes.NOTHING
    for spec in worker.pod["spec"]["containers"]:
        container = runtime.newest(spec["name"])
        if container is None or not container.running(agent.now_us):
            continue
        if agent.machine.simulated_program(container) is not None:
            continue
        usual = ASLEEP.get(program_of(words_of(spec)))
        if usual is not None and (usual == port or declares(spec, port)):
            wake_server(worker, spec, container, found)
            return Wakes.STARTS
        if declares(spec, port) and container.healthy(agent.now_us):
            answer = Wakes.ANSWERS
    return answer


def kernel_values(machine: Mapping[str, str], options: NodeAgentOptions) -> Mapping[str, str]:
    """The machine's sysctls after the start of an agent, which sets those that it wants."""
    return {**machine, **({} if options.protect_kernel_defaults else KERNEL_DEFAULTS)} if machine else {}


def _own_files(worker: PodWorker, spec: Obj, now_us: int) -> list[Mount]:
    """The files that the agent and the runtime mount into every container."""
    pod, agent = worker.pod, worker.agent
    assert worker.runtime is not None
    domain = agent.options.cluster_domain
    texts = {
        "/etc/hosts": hosts_file(pod, [worker.runtime.ip], domain),
        "/etc/resolv.conf": resolver_file(pod, agent.options),
        "/etc/hostname": f"{kernel_name(pod, domain, agent.spec.name)}\n",
    }
    mounted = [mount.get("mountPath") for mount in spec.get("volumeMounts") or ()]
    found, filesystem = [], Filesystem("ext4")
    for path, text in texts.items():
        if path not in mounted:
            found.append(Mount(path, _file(filesystem, 0o644, text.encode(), now_us)))
    return found


def _file(filesystem: Filesystem, mode: int, data: bytes, now_us: int) -> File:
    """A file that is mounted by itself."""
    made = File(filesystem, mode, now_us)
    made.links = 1
    made.write(0, data, now_us)
    return made
