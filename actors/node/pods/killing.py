"""How containers are stopped: their hook, SIGTERM, SIGKILL.

Turns a pod's worker and what it wants to stop into commands to the machine and events, and tells what went wrong: calls that
the runtime has not answered.

Mirrors  pkg/kubelet/kuberuntime/kuberuntime_container.go: killContainer, killContainersWithSyncResult,
         executePreStopHook, of startContainer its hook; kuberuntime_manager.go: killPodWithSyncResult;
         pkg/kubelet/container/sync_result.go: Error (v1.25).
Differs  containers whose stops were given up are told in the order in which they were to end; upstream's order is random.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, NamedTuple

from actors.node.pods.actions import Actions, failed_probe, own_grace_us
from actors.node.pods.pod_status import reasoned
from actors.node.runtime.call_deadlines import GIVEN_UP, call
from actors.node.runtime.hooks import failure, hook_end
from actors.node.runtime.machine import SIGKILL_CODE, Container, PodRuntime
from sim.api.types import Obj
from sim.units import SECOND

if TYPE_CHECKING:
    from actors.node.pods.worker import Worker

MIN_GRACE_US = 2 * SECOND  # kuberuntime_container.go: minimumGracePeriodInSeconds


NOT_STOPPED = 'failed to "{action}" for "{of}" with {action}Error: "{why}"'  # sync_result.go: Error


class Stop(NamedTuple):
    """A container that is being stopped: how long that takes, and what its runtime is told to wait for at most."""

    took_us: int
    grace_us: int
    name: str


def kill_pod(worker: Worker, runtime: PodRuntime, stop_us: int | None = None) -> Generator[int, None, str]:
    """Stop everything that runs, in parallel, and then the sandbox; "" or what went wrong.

    stop_us: what each gets from SIGTERM on; None: as `kill`
    """
    agent = worker.agent
    grace_us, spec, now_us = own_grace_us(worker.pod), worker.pod["spec"], agent.now_us
    inits, ephemeral = spec.get("initContainers") or (), spec.get("ephemeralContainers") or ()
    stops = []
    for container_spec in [*inits, *spec["containers"], *ephemeral]:
        name = container_spec["name"]
        newest = runtime.newest(name)
        if newest is not None and newest.running(now_us):
            stops.append(
                kill(worker, container_spec, newest, f"Stopping container {name}", grace_us, stop_us)
            )
    errors = yield from _answers(worker, sorted(stops))
    if (yield from call(worker, 0)):
        agent.machine.stop_sandbox(runtime)
    else:
        errors.append(NOT_STOPPED.format(action="KillPodSandbox", of=worker.uid, why=GIVEN_UP))
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]" if errors else ""


def _answers(worker: Worker, stops: list[Stop]) -> Generator[int, None, list[str]]:
    """Wait for all of them, the first to end first; what went wrong."""
    began_us, errors = worker.agent.now_us, []
    for number, stop in enumerate(stops):
        passed_us = worker.agent.now_us - began_us
        longest_us = max(later.grace_us for later in stops[number:])
        yield from call(worker, stop.took_us - passed_us, grace_us=longest_us - passed_us)
        limit_us = stop.grace_us + worker.agent.options.runtime_request_timeout_us
        if worker.agent.now_us - began_us >= limit_us:
            errors.append(_not_stopped(stop))
    return errors


def _not_stopped(stop: Stop) -> str:
    return NOT_STOPPED.format(action="KillContainer", of=stop.name, why=GIVEN_UP)


def kill_failed(worker: Worker, actions: Actions) -> Generator[int, None, str]:
    """Stop containers whose probes failed or whose image changed, one after the other; "" or what went wrong."""
    agent, meta = worker.agent, worker.pod["metadata"]
    why = {"containers": [spec["name"] for spec, _, _ in actions.kills], "message": actions.kills[0][2]}
    agent.ctx.decided("kill", f"pods/{meta['namespace']}/{meta['name']}", why)
    for spec, container, message in actions.kills:
        if container.running(agent.now_us):  # it may have ended while it waited for its turn
            stop = kill(
                worker, spec, container, message, own_grace_us(worker.pod, failed_probe(spec, message))
            )
            if not (yield from call(worker, stop.took_us, grace_us=stop.grace_us)):
                return _not_stopped(stop)
    return ""


def kill(
    worker: Worker, spec: Obj, container: Container, message: str, grace_us: int, stop_us: int | None = None
) -> Stop:
    """Stop one container.  preStop gets `grace_us`, SIGTERM what is left of it.

    Quirk: a pod that is asked to end gets its full grace (`stop_us`) after preStop.
    """
    agent, pod = worker.agent, worker.pod
    agent.event(pod, "Normal", "Killing", message, container=spec["name"])
    wanted_us, code = hook_end(spec, "preStop")
    hook_us = min(wanted_us, grace_us)
    if stop_us is None:
        stop_us = max(MIN_GRACE_US, grace_us - hook_us)
    ended_us = agent.machine.stop(container, hook_us + stop_us, agent.now_us, after_us=hook_us)
    for probe in worker.probes:
        probe.look()  # its end may come before anybody is told of it
    if 0 < hook_us < wanted_us:  # it goes on until its container ends
        agent.ctx.call_at_us(ended_us, lambda _: _tell_failed(worker, pod, spec, SIGKILL_CODE))
    elif code and grace_us:
        agent.ctx.call_later_us(hook_us, lambda _: _tell_failed(worker, pod, spec, code))
    return Stop(ended_us - agent.now_us, hook_us + stop_us, spec["name"])


def _tell_failed(worker: Worker, pod: Obj, spec: Obj, code: int) -> None:
    text = failure(pod, spec, "preStop", code)
    worker.agent.event(pod, "Warning", "FailedPreStopHook", text, container=spec["name"])


def run_post_start(worker: Worker, spec: Obj, container: Container) -> Generator[int, None, str]:
    """A container's hook, while which its pod is not looked at; one that fails ends its container.

    Returns what went wrong, "" for nothing.
    """
    took_us, code = hook_end(spec, "postStart")
    if took_us:
        yield took_us
    agent, pod, name = worker.agent, worker.pod, spec["name"]
    if not code or not container.running(agent.now_us):
        return ""
    text = failure(pod, spec, "postStart", code)
    agent.event(pod, "Warning", "FailedPostStartHook", text, container=name)
    stop = kill(worker, spec, container, "FailedPostStartHook", own_grace_us(pod))
    yield from call(worker, stop.took_us, grace_us=stop.grace_us)
    worker.reasons = reasoned(worker.reasons, name, ("PostStartHookError", text))
    return "PostStartHookError"
