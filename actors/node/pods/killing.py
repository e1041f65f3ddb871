"""How containers are stopped: preStop hook, SIGTERM, SIGKILL.

Turns a pod's worker and the containers to stop into commands to the machine and events, and returns
what went wrong: calls that the runtime has not answered.

Mirrors  pkg/kubelet/kuberuntime/kuberuntime_container.go: killContainer,
         killContainersWithSyncResult, executePreStopHook, the hook of startContainer;
         kuberuntime_manager.go: killPodWithSyncResult; pkg/kubelet/container/sync_result.go: Error
         (v1.25).
Differs  stops that were given up are reported in the order in which the containers were to end;
         upstream's order is random.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from actors.node.pod_work import WAIT
from actors.node.pods.actions import Actions, failed_probe, own_grace_us
from actors.node.pods.hook_runs import begin_hook, hook_runs
from actors.node.pods.pod_status import reasoned
from actors.node.pods.ports import PodWorker
from actors.node.runtime.call_deadlines import GIVEN_UP, call
from actors.node.runtime.containers import Container, PodRuntime
from actors.node.runtime.hooks import failure, hook_end
from actors.node.runtime.machine import SIGKILL_CODE
from sim.api.types import Obj
from sim.units import SECOND

MIN_GRACE_US = 2 * SECOND  # kuberuntime_container.go: minimumGracePeriodInSeconds


NOT_STOPPED = 'failed to "{action}" for "{of}" with {action}Error: "{why}"'  # sync_result.go: Error


class Stop(NamedTuple):
    """A container that is being stopped.

    duration_us: how long that takes, at most if the container's programs are simulated
    grace_us: how long the runtime waits before SIGKILL
    """

    duration_us: int
    grace_us: int
    name: str
    container: Container


def kill_pod(worker: PodWorker, runtime: PodRuntime, stop_us: int | None = None) -> Generator[int, None, str]:
    """Stop everything that runs, in parallel, and then the sandbox; "" or what went wrong.

    stop_us: the time of each container from SIGTERM on; None: as in `kill`
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
    errors = yield from _wait_for_stops(worker, sorted(stops, key=lambda stop: stop[:3]))
    if (yield from call(worker, "stop_podsandbox", 0)):
        agent.machine.stop_sandbox(runtime)
    else:
        errors.append(NOT_STOPPED.format(action="KillPodSandbox", of=worker.uid, why=GIVEN_UP))
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]" if errors else ""


def _wait_for_stops(worker: PodWorker, stops: list[Stop]) -> Generator[int, None, list[str]]:
    """Wait for all stops, in the order of their ends; returns what went wrong."""
    began_us, errors = worker.agent.now_us, []
    for number, stop in enumerate(stops):
        elapsed_us = worker.agent.now_us - began_us
        longest_us = max(pending.grace_us for pending in stops[number:])
        yield from _wait_for_end(worker, stop, elapsed_us, longest_us)
        limit_us = stop.grace_us + worker.agent.options.runtime_request_timeout_us
        if worker.agent.now_us - began_us >= limit_us:
            errors.append(_stop_error(stop))
    return errors


def _wait_for_end(
    worker: PodWorker, stop: Stop, elapsed_us: int = 0, grace_us: int = 0
) -> Generator[int, None, bool]:
    """Wait until a container has ended; False if the runtime does not say so in time.

    elapsed_us: the time since it began to stop
    grace_us: how long the runtime itself waits since then
    """
    agent, began_us = worker.agent, worker.agent.now_us
    if (running := agent.machine.running_program(stop.container)) is None:
        end_us = stop.container.exit_us  # earlier than foreseen if a program has ended by itself
        left_us = stop.duration_us - elapsed_us
        left_us = left_us if end_us is None else min(left_us, end_us - agent.now_us)
        return (
            yield from call(
                worker, "stop_container", left_us, grace_us=(grace_us or stop.grace_us) - elapsed_us
            )
        )
    work = worker.work
    assert work is not None
    running.over.append(lambda: agent.ctx.run(lambda _: worker.proceed(work)))
    yield WAIT
    elapsed_us += agent.now_us - began_us
    return (yield from call(worker, "stop_container", 0, grace_us=(grace_us or stop.grace_us) - elapsed_us))


def _stop_error(stop: Stop) -> str:
    return NOT_STOPPED.format(action="KillContainer", of=stop.name, why=GIVEN_UP)


def kill_failed(worker: PodWorker, actions: Actions) -> Generator[int, None, str]:
    """Stop, one after the other, containers with a failed probe or a changed image.

    Returns what went wrong, "" for nothing.
    """
    agent, meta = worker.agent, worker.pod["metadata"]
    why = {"containers": [spec["name"] for spec, _, _ in actions.kills], "message": actions.kills[0][2]}
    agent.ctx.decided("kill", f"pods/{meta['namespace']}/{meta['name']}", why)
    for spec, container, message in actions.kills:
        if container.running(agent.now_us):  # it may have ended before its turn
            stop = kill(
                worker, spec, container, message, own_grace_us(worker.pod, failed_probe(spec, message))
            )
            if not (yield from _wait_for_end(worker, stop)):
                return _stop_error(stop)
    return ""


def kill(
    worker: PodWorker,
    spec: Obj,
    container: Container,
    message: str,
    grace_us: int,
    stop_us: int | None = None,
) -> Stop:
    """Stop one container.  preStop gets `grace_us`, SIGTERM the rest of it.

    Quirk: a pod that was requested to end gets its full grace period (`stop_us`) after preStop.
    """
    agent, pod = worker.agent, worker.pod
    agent.event(pod, "Normal", "Killing", message, container=spec["name"])
    if grace_us and hook_runs(worker, spec, container, "preStop"):
        return _stop_after_hook(worker, spec, container, grace_us, stop_us)
    wanted_us, code = hook_end(spec, "preStop", agent.spec.profile.late_us(pod, container.name))
    hook_us = min(wanted_us, grace_us)
    if stop_us is None:
        stop_us = max(MIN_GRACE_US, grace_us - hook_us)
    ended_us = agent.machine.stop(container, hook_us + stop_us, agent.now_us, after_us=hook_us)
    for probe in worker.probes:
        probe.replan()  # its end may come before the status shows it
    if 0 < hook_us < wanted_us:  # the hook runs until its container ends
        agent.ctx.call_at_us(ended_us, lambda _: _report_hook_failure(worker, pod, spec, SIGKILL_CODE))
    elif code and grace_us:
        agent.ctx.call_later_us(hook_us, lambda _: _report_hook_failure(worker, pod, spec, code))
    return Stop(ended_us - agent.now_us, hook_us + stop_us, spec["name"], container)


def _stop_after_hook(
    worker: PodWorker,
    spec: Obj,
    container: Container,
    grace_us: int,
    stop_us: int | None,
) -> Stop:
    """Run a preStop hook, and then stop the container, in the end without it."""
    agent, pod, began_us = worker.agent, worker.pod, worker.agent.now_us
    stopped = False

    def stop(_: object = None) -> None:
        nonlocal stopped
        if not stopped and container.running(agent.now_us):
            left_us = max(MIN_GRACE_US, grace_us - (agent.now_us - began_us)) if stop_us is None else stop_us
            agent.machine.stop(container, left_us, agent.now_us)
            for probe in worker.probes:
                probe.replan()
        stopped = True

    def ended(text: str) -> None:
        if text:
            _report(worker, pod, spec, "preStop", text)
        stop()

    begin_hook(worker, spec, container, "preStop", ended)
    agent.ctx.call_later_us(grace_us, stop)
    longest_us = grace_us + (MIN_GRACE_US if stop_us is None else stop_us)
    return Stop(longest_us, longest_us, spec["name"], container)


def _report(worker: PodWorker, pod: Obj, spec: Obj, hook: str, text: str) -> None:
    reason = f"Failed{hook[0].upper()}{hook[1:]}Hook"
    worker.agent.event(pod, "Warning", reason, text, container=spec["name"])


def _report_hook_failure(worker: PodWorker, pod: Obj, spec: Obj, code: int) -> None:
    _report(worker, pod, spec, "preStop", failure(pod, spec, "preStop", code))


def _run_hook(worker: PodWorker, spec: Obj, container: Container) -> Generator[int, None, str]:
    """Run a postStart hook; "" or what went wrong."""
    work, texts = worker.work, list[str]()
    assert work is not None

    def ended(text: str) -> None:
        texts.append(text)
        worker.proceed(work)

    begin_hook(worker, spec, container, "postStart", ended)
    while not texts:
        yield WAIT
    return texts[0]


def run_post_start(worker: PodWorker, spec: Obj, container: Container) -> Generator[int, None, str]:
    """Run a container's postStart hook, during which its pod is not synced.

    A hook that fails ends its container.  Returns what went wrong, "" for nothing.
    """
    agent, pod, name = worker.agent, worker.pod, spec["name"]
    if hook_runs(worker, spec, container, "postStart"):
        text = yield from _run_hook(worker, spec, container)
    else:
        duration_us, code = hook_end(spec, "postStart", agent.spec.profile.late_us(pod, name))
        if duration_us:
            yield duration_us
        text = failure(pod, spec, "postStart", code) if code else ""
    if not text or not container.running(agent.now_us):
        return ""
    _report(worker, pod, spec, "postStart", text)
    stop = kill(worker, spec, container, "FailedPostStartHook", own_grace_us(pod))
    yield from _wait_for_end(worker, stop)
    worker.reasons = reasoned(worker.reasons, name, ("PostStartHookError", text))
    return "PostStartHookError"
