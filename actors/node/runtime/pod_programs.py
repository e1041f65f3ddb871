"""The processes of one pod on a machine: when they run, and how they end their containers.

Turns the start of a container into its process 1, the passing of virtual time into steps of the
pod's programs, and the end of process 1 into the end of the container.

Holds: the machine owns the processes, so they continue while no agent runs and end with its power;
       nothing is scheduled while all programs wait for something other than time; no process of a
       container outlives process 1.

Mirrors  containerd: the task of a container ends with its first process, the kernel kills the
         others of its PID namespace; kuberuntime_container.go: getTerminationMessage,
         readLastStringFromContainerLogs; pkg/util/tail: ReadAtMost (v1.25).
Differs  a program that has nothing to do takes 0.1 s.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.node.programs.ends import End, Null, Output, WriteEnd, pipe
from actors.node.programs.lookup import NotRunnable
from actors.node.programs.network.fabric import Network
from actors.node.programs.process import Identity, NoProcess, Process, Signal
from actors.node.programs.surroundings import Surroundings
from actors.node.programs.table import Table
from actors.node.programs.traffic import Traffic
from actors.node.programs.waits import Main, Wait
from actors.node.runtime.commands import AT_ONCE_US
from actors.node.runtime.containers import Container, PodRuntime
from actors.node.runtime.log.output import ContainerLog
from sim.dataclass import dataclass
from sim.kernel.kernel import Kernel
from sim.kernel.timer import Timer
from sim.units import Virtual

if TYPE_CHECKING:
    from actors.node.programs.files.tree import Volume

Program = Callable[[Process], Main]
MESSAGE_BYTES_MAX = 4096  # kubecontainer.MaxContainerTerminationMessageLength
MESSAGE_LOG_BYTES_MAX = 2048  # MaxContainerTerminationMessageLogLength
MESSAGE_LOG_LINES_MAX = 80  # MaxContainerTerminationMessageLogLines
PAUSE_USER = 65535  # build/pause/Dockerfile
POD_MESSAGE_BYTES_MAX = 12 * 1024  # MaxPodTerminationMessageLogLength
OUTPUT_BYTES_MAX = 10 * 1024  # pkg/probe/exec: maxReadLength
NOT_EXECUTED = (
    'failed to exec in container: failed to start exec "{number}": OCI runtime exec failed: exec failed: '
    'unable to start container process: exec: "{program}": {why}: unknown'
)


@dataclass(frozen=True, slots=True)
class Launch:
    """What the first process of a container is started with.

    find: the program of a process by its words; raises `lookup.NotRunnable`
    message: reads what the container has written as its termination message
    falls_back: True if an error without a message shows the end of the log
    message_max: how many bytes the pod's status has for the message
    stdin: True if clients may attach to the input; once: it ends with the first of them
    terminal: True if the first process has a terminal
    idle: True if the first process stands for a program that is not simulated
    """

    surroundings: Surroundings
    words: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    identity: Identity
    find: Callable[[Process, tuple[str, ...]], Program]
    message: Callable[[], bytes] = bytes
    falls_back: bool = False
    message_max: int = POD_MESSAGE_BYTES_MAX
    stdin: bool = False
    once: bool = False
    terminal: bool = False
    idle: bool = False


class Outcome(NamedTuple):
    """How a command that the agent has run in a container has ended.

    timed_out: True if it was killed because it took too long
    error: the runtime's message if it could not be started, else ""
    """

    code: int
    stdout: bytes = b""
    stderr: bytes = b""
    timed_out: bool = False
    error: str = ""


@dataclass(slots=True, eq=False)
class Running:
    """A container with processes.

    over: called when it has ended
    seen: called with each stream and bytes that the first process and its children write to it
    stdin: where attached clients write; None if there is no input
    """

    container: Container
    launch: Launch
    first: Process
    log: ContainerLog
    over: list[Callable[[], None]] = field(default_factory=list)
    seen: list[Callable[[str, bytes], None]] = field(default_factory=list)
    stdin: WriteEnd | None = None


class PodToken(NamedTuple):
    """A token of a pod's service account.

    renewed_us: from when on another one is asked for
    end_us: from when on servers do not accept it
    """

    text: str
    renewed_us: Virtual
    end_us: Virtual


class PodPrograms:
    """The processes of a pod.

    _machine: the `Machine` that owns them, which makes them and so knows this class
    table: all of them
    held: id of a container's instance -> what runs in it
    volumes: name -> the pod's volume; local: names of its emptyDirs
    tokens: of its service account, by what they depend on
    refresher: what brings changes of objects into them: the pod's worker of the present agent
    _pause: the number of a sandbox, and the process 1 that its containers share
    _ended: what to call because processes have ended during the present run
    """

    __slots__ = (
        "_ended",
        "_kernel",
        "_machine",
        "_network",
        "_pause",
        "_runs",
        "_timer",
        "_used",
        "_will_run",
        "held",
        "local",
        "pod",
        "refresher",
        "table",
        "tokens",
        "volumes",
    )  # fmt: skip

    def __init__(self, machine: Any, kernel: Kernel, pod: PodRuntime) -> None:
        self.pod = pod
        self.table = Table(self._stir, kernel.now_us)
        self.held: dict[str, Running] = {}
        self.volumes: dict[str, Volume] = {}
        self.local: set[str] = set()
        self._used = 0  # bytes, when the agent was last asked to look at them
        self.refresher: object = None
        self.tokens: dict[str, PodToken] = {}
        self._machine = machine
        self._kernel = kernel
        self._network: tuple[int, Network] | None = None  # and the number of its sandbox
        self._pause: tuple[int, Process] | None = None
        self._timer: Timer | None = None
        self._will_run = self._runs = False
        self._ended: list[Callable[[], None]] = []

    # --- time -------------------------------------------------------------------------------------

    def _stir(self) -> None:
        if not self._will_run:
            self._will_run = True
            self._kernel.call_at(self._kernel.now_us, self._run)

    def _run(self, _: object) -> None:
        self._will_run, self._runs = False, True
        self.table.run(self._kernel.now_us)
        self._runs = False
        next_us = self.table.next_us
        if self._timer is not None and self._timer.at_us != next_us:
            self._timer.cancel()
            self._timer = None
        if next_us is not None and (self._timer is None or not self._timer.active):
            self._timer = self._kernel.timer_at(next_us, self._run)  # type: ignore[arg-type]
        self._settle()
        agent = self._machine.agent
        if agent is not None and any(
            one.log.size >= agent.options.container_log_max_bytes for one in self.held.values()
        ):
            agent.log_rotation.consider()

        on_disk, _, in_memory, in_layers = self.use()
        used = on_disk + in_memory + in_layers
        if used != self._used and agent is not None:
            self._used = used
            agent.consider_pressure()

    # --- use --------------------------------------------------------------------------------------

    def layer(self, container: Container) -> tuple[int, int]:
        """Bytes and inodes of what the programs of a container have written into its own layer."""
        running = self.held.get(container.ident)
        if running is None:
            return 0, 0
        filesystem = running.launch.surroundings.files.root.inode.filesystem
        return filesystem.bytes_used, filesystem.inodes_used

    def volume(self, name: str) -> tuple[int, int]:
        """Bytes and inodes in an emptyDir."""
        held = self.volumes.get(name) if name in self.local else None
        return (0, 0) if held is None else (held.filesystem.bytes_used, held.filesystem.inodes_used)

    def use(self) -> tuple[int, int, int, int]:
        """Bytes in emptyDirs on the disk, all inodes on it, bytes in memory, and bytes in layers."""
        on_disk, inodes, in_memory = 0, 0, 0
        for name in self.local:
            bytes_used, inodes_used = self.volume(name)
            if self.volumes[name].filesystem.kind == "tmpfs":
                in_memory += bytes_used
            else:
                on_disk, inodes = on_disk + bytes_used, inodes + inodes_used
        layers = [self.layer(running.container) for running in self.held.values()]
        return on_disk, inodes + sum(one[1] for one in layers), in_memory, sum(one[0] for one in layers)

    # --- containers -------------------------------------------------------------------------------

    def start(self, container: Container, launch: Launch, space: object = None) -> None:
        """Start the first process of a container.  Raises `lookup.NotRunnable`.

        space: the namespace of processes that it enters; None: one of its own
        """
        program = launch.find(self._unstarted(launch, launch.words), launch.words)
        log, stdin, seen = ContainerLog(), None, list[Callable[[str, bytes], None]]()
        ends: dict[int, End] = {0: Null(), **self._outputs(log, seen, launch.terminal)}
        if launch.stdin:
            ends[0], stdin = pipe()
            ends[0].terminal = launch.terminal
        until_us = self._kernel.now_us + AT_ONCE_US

        def main(process: Process) -> Main:
            code = yield from program(process)
            while process.now_us < until_us:
                yield Wait(until_us=until_us, deaf=True)
            return code

        first = self.table.spawn(
            main,
            launch.surroundings,
            launch.words,
            launch.env,
            launch.cwd,
            launch.identity,
            ends=ends,
            space=space,
        )
        running = self.held[container.ident] = Running(container, launch, first, log, seen=seen, stdin=stdin)
        self._machine.keep_output(container, log)
        first.ended.watch(lambda: self._after(lambda: self._first_ended(running)))
        self.planned(container)

    def shared_space(self) -> object:
        """The namespace of processes of the pod's present sandbox; a pause program is process 1.

        Raises NoProcess.
        """
        if self._pause is None or self._pause[0] != self.pod.attempt:
            sandbox = Surroundings("POD", pod=self.pod.key, hostname=self.pod.key.partition("/")[2])
            first = self.table.spawn(
                _pause, sandbox, ("/pause",), {}, "/", Identity(PAUSE_USER, PAUSE_USER), ends={}
            )
            self._pause = self.pod.attempt, first
            first.ended.watch(lambda: self._after(lambda: self._pause_ended(first)))
        return self._pause[1].space

    def _pause_ended(self, first: Process) -> None:
        """Process 1 of the sandbox has ended: the kernel ends all others, and the sandbox is dead."""
        self.table.empty(first.space)
        if self._pause is not None and self._pause[1] is first and self.pod.ready:
            self._machine.stop_sandbox(self.pod)
            self._machine.changed(self.pod)

    def stop_sandbox(self) -> None:
        """The pod's sandbox is stopped."""
        pause, self._pause = self._pause, None
        if pause is not None:
            self.table.empty(pause[1].space)

    def network(self) -> Network:
        """The network that all containers of the pod's present sandbox share."""
        machine, held = self._machine, self._network
        if held is None or held[0] != self.pod.attempt:
            made = Network(self.pod.ip, machine.spec.name)
            if machine.fabric is not None:
                made = machine.fabric().network(self.pod.ip, machine.spec.name)
            held = self._network = self.pod.attempt, made
        return held[1]

    @property
    def traffic(self) -> Traffic | None:
        """What has passed the pod's interface; None if no program has used it."""
        return None if self._network is None else self._network[1].traffic

    @property
    def prober_name(self) -> str:
        """How the prober of the machine's agent names itself to servers."""
        return str(self._machine.agent.names.component("probe"))

    def host_network(self) -> Network:
        """The network of the machine, from which its agent connects."""
        machine = self._machine
        if machine.fabric is None or machine.agent is None:
            return self.network()
        found: Network = machine.fabric().network(machine.agent.host_ips[0], machine.spec.name)
        return found

    def execute(
        self,
        container: Container,
        words: tuple[str, ...],
        ends: Mapping[int, End],
        env: Mapping[str, str] | None = None,
        program: Program | None = None,
    ) -> Process:
        """Start another process in a running container; the process takes over the ends.

        program: what it runs, if that is not what the words say

        Raises `lookup.NotRunnable` and NoProcess, and then closes the ends.
        """
        launch = self.held[container.ident].launch
        try:
            program = program or launch.find(self._unstarted(launch, words), words)
        except Exception:
            for end in ends.values():
                end.close()
            raise
        return self.table.spawn(
            program, launch.surroundings, words, {**launch.env, **(env or {})}, launch.cwd, launch.identity,
            ends=dict(ends), space=self.held[container.ident].first.space,
        )  # fmt: skip

    def command(
        self,
        container: Container,
        words: tuple[str, ...],
        then: Callable[[Outcome], None],
        limit_us: int | None = None,
        program: Program | None = None,
    ) -> None:
        """Run a command of the agent, a probe or a hook, in a running container.

        then: called once, when it has ended
        limit_us: it is killed after this time; None: never
        """
        outputs = bytearray(), bytearray()

        def taking(into: bytearray) -> Output:
            return Output(lambda data: into.extend(data[: OUTPUT_BYTES_MAX - len(into)]))

        ends: dict[int, End] = {0: Null(), 1: taking(outputs[0]), 2: taking(outputs[1])}
        try:
            process = self.execute(container, words, ends, program=program)
        except NotRunnable as error:
            why = reason_of(error, words[0] if words else "")
            refused = Outcome(error.code, error=not_executed(container, words, why))
            self._after(lambda: then(refused))
            return
        except NoProcess:
            self._after(lambda: then(Outcome(-1, error="fork: resource temporarily unavailable")))
            return
        late = False

        def give_up(_: object) -> None:
            nonlocal late
            if not process.ended.ready:
                late = True
                self.table.signal(process, Signal.KILL, outside=True)

        def ended() -> None:
            then(Outcome(process.ended.code, bytes(outputs[0]), bytes(outputs[1]), late))

        process.ended.watch(lambda: self._after(ended))
        if limit_us is not None:
            self._kernel.call_later(limit_us, give_up)

    def signal(self, container: Container, number: int) -> None:
        """Send a signal from outside to the first process of a container."""
        running = self.held.get(container.ident)
        if running is not None:
            self.table.signal(running.first, number, outside=True)

    def stop(self, container: Container, grace_us: int, after_us: int) -> None:
        """Send SIGTERM after a while if the container still runs; its planned end brings SIGKILL."""
        if after_us < grace_us:
            self._kernel.call_later(after_us, self._terminate, container)

    def _terminate(self, container: Container) -> None:
        self.signal(container, Signal.TERM)

    def planned(self, container: Container) -> None:
        """The end of a container was planned: its processes end then at the latest."""
        at_us = container.exit_us
        if at_us is not None and container.ident in self.held:
            self._kernel.call_at(at_us, self._due, container)  # type: ignore[arg-type]
            if at_us <= self._kernel.now_us:
                self._due(container)

    def kill_all(self) -> None:
        """End everything."""
        for running in tuple(self.held.values()):
            self.table.kill(running.launch.surroundings)
        self.stop_sandbox()
        if self._timer is not None:
            self._timer.cancel()
        held, self._network = self._network, None
        if held is not None and held[1].fabric is not None:
            held[1].fabric.leave(held[1])

    def lose_power(self) -> None:
        """End everything; what is on a disk stays."""
        self.kill_all()
        self.volumes = {name: one for name, one in self.volumes.items() if one.filesystem.kind != "tmpfs"}

    def _due(self, container: Container) -> None:
        running = self.held.get(container.ident)
        if running is not None and container.exited(self._kernel.now_us):
            self.table.kill(running.launch.surroundings)

    def _unstarted(self, launch: Launch, words: tuple[str, ...]) -> Process:
        """A process that only looks for its program."""
        return Process(
            self.table, 0, launch.surroundings, words, launch.env, launch.cwd, launch.identity, {}, None
        )

    def _outputs(
        self, log: ContainerLog, seen: list[Callable[[str, bytes], None]], terminal: bool
    ) -> dict[int, End]:
        def written(stream: str, data: bytes) -> None:
            log.take(stream, data, self._kernel.now_us)
            for call in tuple(seen):
                call(stream, data)

        ends = {
            fd: Output(partial(written, stream), terminal=terminal)
            for fd, stream in ((1, "stdout"), (2, "stdout" if terminal else "stderr"))
        }
        return dict(ends)

    # --- ends -------------------------------------------------------------------------------------

    def _after(self, call: Callable[[], None]) -> None:
        """Call this when no program runs: now, or after the present run."""
        self._ended.append(call)
        if not self._runs:
            self._settle()

    def _settle(self) -> None:
        while self._ended:
            self._ended.pop(0)()

    def _first_ended(self, running: Running) -> None:
        """End a container with a first process that has ended."""
        container, now_us = running.container, self._kernel.now_us
        if self.held.pop(container.ident, None) is None:
            return
        self.table.kill(running.launch.surroundings)
        if running.first.pid == 1:
            self.table.empty(running.first.space)  # also of a container that debugs this one
        running.log.end(now_us)
        container.end(now_us, running.first.ended.code)
        container.add_message(_message(running))
        for call in running.over:
            call()
        self._machine.changed(self.pod)


def _pause(process: Process) -> Main:
    """The program of a sandbox: it waits for a signal."""
    process.caught |= {Signal.INT, Signal.TERM}
    while not process.pending:
        yield Wait()
    return 0


def not_executed(container: Container, words: tuple[str, ...], why: str) -> str:
    """The runtime's message about a command that it cannot start in a container."""
    path = words[0] if words else ""
    number = hashlib.sha256(f"{container.ident}/{words}".encode()).hexdigest()
    return NOT_EXECUTED.format(number=number, program=path, why=why)


def reason_of(error: NotRunnable, path: str) -> str:
    """Why a program cannot be started, as the runtime says it."""
    if error.text != "not found":
        return error.text.lower()
    return f"stat {path}: no such file or directory" if "/" in path else "executable file not found in $PATH"


def _message(running: Running) -> str:
    """The termination message of a container that has ended."""
    launch = running.launch
    data = launch.message()[-MESSAGE_BYTES_MAX:]
    if not data and launch.falls_back and running.container.exit_code:
        lines = [line.data for line in running.log.lines]
        data = b"".join(lines[-MESSAGE_LOG_LINES_MAX:])[-MESSAGE_LOG_BYTES_MAX:]
    return data[: launch.message_max].decode(errors="replace")
