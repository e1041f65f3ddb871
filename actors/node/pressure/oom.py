"""The kernel's OOM killer: it ends a container when the whole machine has no memory left.

Turns the use of memory on a machine into the instant at which it exceeds what there is, and the
classes of service and requests of the pods into the choice of the container that is killed.

Holds: a machine with enough memory for everything that runs schedules nothing; a plan outlives
the agent, since nothing else starts without one.

Mirrors  pkg/kubelet/qos/policy.go: GetContainerOOMScoreAdjust; pkg/kubelet/oom/oom_watcher_linux.go
         (v1.25); Linux mm/oom_kill.c: oom_badness, select_bad_process; containerd 1.6: a task
         of cgroup v2 is OOMKilled for lack of memory of the machine too.
Differs  the memory of a container is that of its first process; what uses memory outside of the
         pods is not chosen; a kill takes no time; numbers of processes are made up.
Quirk    an agent that starts again finds the kernel's messages and records their events again.
"""

from __future__ import annotations

import hashlib
from collections import deque

from actors.node.pod_spec import pod_qos
from actors.node.runtime.containers import Container
from actors.node.runtime.forecast import first_below, free_memory, least_available, memory_of, turns
from actors.node.runtime.machine import SIGKILL_CODE, Machine
from actors.node.runtime.ports import Agent
from actors.node.runtime.profile import Override
from actors.node.runtime.programs import name_of
from sim.api.scheduling import BEST_EFFORT, GUARANTEED
from sim.api.types import Obj
from sim.kernel.causes import caused_by
from sim.units import quantity_value

GUARANTEED_ADJ, BEST_EFFORT_ADJ = -997, 1000  # qos/policy.go
NODE_CRITICAL = "system-node-critical"  # scheduling.SystemNodeCritical
MESSAGES_MAX = 32  # of the kernel's ring buffer, as each comes with a list of all processes
COMM_MAX = 15  # Linux include/linux/sched.h: TASK_COMM_LEN
PID_FIRST, PIDS = 1000, 31_000


def oom_score_adj(pod: Obj, container: Obj, memory_bytes: int) -> int:
    """By how many thousandths of the machine's memory a container's processes seem larger."""
    if pod["spec"].get("priorityClassName") == NODE_CRITICAL:
        return GUARANTEED_ADJ
    quality = pod_qos(pod)
    if quality == GUARANTEED:
        return GUARANTEED_ADJ
    if quality == BEST_EFFORT or not memory_bytes:
        return BEST_EFFORT_ADJ
    resources = container.get("resources") or {}
    entry = (resources.get("requests") or {}).get("memory") or (resources.get("limits") or {}).get("memory")
    score = 1000 - 1000 * quantity_value(str(entry or "0")) // memory_bytes
    return min(max(score, 1000 + GUARANTEED_ADJ), BEST_EFFORT_ADJ - 1)


class OomKiller:
    """The OOM killer of one boot of a machine.

    messages: those of the kernel, as the agent's events show them
    _agent: the agent that was the last to start containers, which knows their pods
    _due_us: when memory will be exceeded; -1: never
    """

    __slots__ = ("_agent", "_due_us", "_machine", "messages")

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._agent: Agent | None = None
        self._due_us = -1
        self.messages: deque[str] = deque(maxlen=MESSAGES_MAX)

    def plan(self, agent: Agent) -> None:
        """Plan the instant at which memory will be exceeded if nothing changes."""
        if self._agent is None or agent.sources_ready:
            self._agent = agent
        machine, now_us = self._machine, agent.now_us
        swap = self._swap_bytes()
        at_us = first_below(
            lambda at_us: free_memory(machine, at_us) + swap, 0, turns(machine, now_us), now_us
        )
        if at_us is not None and at_us != self._due_us:
            agent.ctx.kernel.call_at(at_us, self._due, at_us)  # type: ignore[arg-type]
        self._due_us = -1 if at_us is None else at_us

    def _swap_bytes(self) -> int:
        """The swap that containers may use."""
        assert self._agent is not None
        options = self._agent.options
        return self._machine.spec.swap_bytes if options.swaps(options.feature_gates) else 0

    def _due(self, at_us: int) -> None:
        if at_us != self._due_us:
            return
        agent, machine = self._agent, self._machine
        assert agent is not None
        self._due_us = -1
        while free_memory(machine, at_us) + self._swap_bytes() < 0:
            if (result := self._victim(at_us)) is None:
                return
            self._kill(agent, at_us, *result)
        self.plan(agent)

    def _victim(self, now_us: int) -> tuple[Container, str, int, int] | None:
        """The container with the highest score, its process, its adjustment and its use of memory.

        Quirk: of equal ones the last that started.
        """
        assert self._agent is not None
        machine, workers = self._machine, self._agent.workers
        total = quantity_value(machine.spec.capacity.get("memory", "0")) + self._swap_bytes()
        best: tuple[tuple[int, int], tuple[Container, str, int, int]] | None = None
        for runtime in machine.pods.values():
            worker = workers.get(runtime.uid)
            if worker is None:
                continue
            for container in runtime.running(now_us):
                spec = _spec_of(worker.pod, container.name)
                adj = oom_score_adj(worker.pod, spec, total - self._swap_bytes())
                used = memory_of(container, now_us)
                weight = used + adj * (total // 1000), container.started_us
                if best is None or weight >= best[0]:
                    best = weight, (container, name_of(spec)[:COMM_MAX], adj, used)
        return None if best is None else best[1]

    def _kill(
        self, agent: Agent, now_us: int, container: Container, process: str, adj: int, used: int
    ) -> None:
        machine, ctx = self._machine, agent.ctx
        namespace, _, name = machine.pods[container.uid].key.partition("/")
        why = {
            "containers": [container.name],
            "message": f"no memory is left: the container uses {used >> 20}Mi, its oom_score_adj is {adj}",
        }
        pressed = machine.fault_record("memory") if "memory" in machine.outside else 0
        with caused_by(ctx.kernel, pressed or ctx.kernel.cause):
            record = ctx.decided("kill", f"pods/{namespace}/{name}", why)
            fault = Override({}, record=record, since_us=now_us)
            machine.plan_end(container, now_us, SIGKILL_CODE, reason="OOMKilled", fault=fault)
            number = int(hashlib.sha256(container.ident.encode()).hexdigest()[:8], 16)
            text = f"System OOM encountered, victim process: {process}, pid: {PID_FIRST + number % PIDS}"
            self.messages.append(text)
            if machine.agent is not None:
                machine.agent.node_event("SystemOOM", text, "Warning")
            machine.changed(None)


def consider(agent: Agent) -> None:
    """The use of memory has changed: the OOM killer looks ahead where memory may be exceeded."""
    machine = agent.machine
    if machine.oom is None:
        if not (machine.pods and least_available(machine, "memory", agent.now_us) < 0):
            return
        machine.oom = OomKiller(machine)
    machine.oom.plan(agent)


def _spec_of(pod: Obj, name: str) -> Obj:
    """The spec of a container of any kind; empty without one."""
    spec = pod["spec"]
    every = (
        one for key in ("containers", "initContainers", "ephemeralContainers") for one in spec.get(key) or ()
    )
    return next((one for one in every if one["name"] == name), {})
