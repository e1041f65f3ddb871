"""How containers are stopped: their hook, SIGTERM, SIGKILL.

Turns a pod's worker and what it wants to stop into commands to the machine and events, and tells how long that takes.

Mirrors  pkg/kubelet/kuberuntime/kuberuntime_container.go: killContainer, killContainersWithSyncResult,
         executePreStopHook; pkg/kubelet/lifecycle/handlers.go: the text of a hook that failed (v1.25).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from actors.node.actions import Actions, failed_probe, hook_time_us, own_grace_us
from actors.node.machine import SIGKILL_CODE, Container
from sim.units import SECOND

if TYPE_CHECKING:
    from actors.node.worker import Worker

Obj = dict[str, Any]
MIN_GRACE_US = 2 * SECOND  # kuberuntime_container.go: minimumGracePeriodInSeconds
CUT_SHORT = (
    'Exec lifecycle hook ([{command}]) for Container "{name}" in Pod "{pod}" failed - error: command \'{command}\' '
    'exited with {code}: , message: ""'
)


def kill_all(worker: Worker, stop_us: int | None = None) -> int:
    """Stop everything that runs, in parallel.  `stop_us`: what each gets from SIGTERM on; None: as `kill`."""
    runtime, now_us, longest_us = worker.runtime, worker.agent.now_us, 0
    if runtime is None:
        return 0
    grace_us, spec = own_grace_us(worker.pod), worker.pod["spec"]
    inits, ephemeral = spec.get("initContainers") or (), spec.get("ephemeralContainers") or ()
    for container_spec in [*inits, *spec["containers"], *ephemeral]:
        name = container_spec["name"]
        newest = runtime.newest(name)
        if newest is None or not newest.running(now_us):
            continue
        took_us = kill(worker, container_spec, newest, f"Stopping container {name}", grace_us, stop_us)
        longest_us = max(longest_us, took_us)
    return longest_us


def kill_failed(worker: Worker, actions: Actions) -> Generator[int, None, None]:
    """Stop containers whose probes failed or whose image changed, one after the other."""
    agent, meta = worker.agent, worker.pod["metadata"]
    why = {"containers": [spec["name"] for spec, _, _ in actions.kills], "message": actions.kills[0][2]}
    agent.ctx.decided("kill", f"pods/{meta['namespace']}/{meta['name']}", why)
    for spec, container, message in actions.kills:
        if container.running(agent.now_us):  # it may have ended while it waited for its turn
            grace_us = own_grace_us(worker.pod, failed_probe(spec, message))
            yield kill(worker, spec, container, message, grace_us)


def kill(
    worker: Worker, spec: Obj, container: Container, message: str, grace_us: int, stop_us: int | None = None
) -> int:
    """Stop one container; returns how long it takes.  preStop gets `grace_us`, SIGTERM what is left of it.

    Quirk: a pod that is asked to end gets its full grace (`stop_us`) after preStop.
    """
    agent, pod = worker.agent, worker.pod
    agent.event(pod, "Normal", "Killing", message, container=spec["name"])
    wanted_us = hook_time_us(spec, "preStop")
    hook_us = min(wanted_us, grace_us)
    if stop_us is None:
        stop_us = max(MIN_GRACE_US, grace_us - hook_us)
    ended_us = agent.machine.stop(container, hook_us + stop_us, agent.now_us, after_us=hook_us)
    if 0 < hook_us < wanted_us:  # it goes on until its container ends
        agent.ctx.call_at_us(ended_us, lambda _: _tell_cut_short(worker, pod, spec))
    return ended_us - agent.now_us


def _tell_cut_short(worker: Worker, pod: Obj, spec: Obj) -> None:
    meta, command = pod["metadata"], " ".join(spec["lifecycle"]["preStop"]["exec"]["command"])
    about = f"{meta['name']}_{meta['namespace']}({worker.uid})"
    text = CUT_SHORT.format(command=command, name=spec["name"], pod=about, code=SIGKILL_CODE)
    worker.agent.event(pod, "Warning", "FailedPreStopHook", text, container=spec["name"])
