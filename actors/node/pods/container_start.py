"""How a container of a pod is started, from its back-off to its hook.

Turns a container's spec and the end of its last instance into commands to the machine, events and,
on failure, the reason that the container's waiting state shows.

Mirrors  pkg/kubelet/kuberuntime/kuberuntime_container.go: startContainer; kuberuntime_manager.go:
         SyncPod, steps 5 to 7 (v1.25).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from actors.node.pod_work import Work
from actors.node.pods.fault_records import met_first
from actors.node.pods.killing import run_post_start
from actors.node.pods.pod_status import NOTHING, reasoned
from actors.node.pods.ports import PodWorker
from actors.node.pods.restarts import held_back
from actors.node.pods.sandboxes import behaviour_of, limit_memory
from actors.node.runtime.call_deadlines import LATE, call
from actors.node.runtime.containers import Container
from actors.node.runtime.programs import words_of
from actors.node.runtime.security.profiles import missing_profile
from sim.api.types import Obj
from sim.kernel.causes import caused_by

if TYPE_CHECKING:
    from actors.node.runtime.interpreter import Interpreter


def start_container(
    worker: PodWorker,
    spec: Obj,
    ended: Mapping[str, Container],
    *,
    init: bool,
    previous: Container | None = None,
) -> Work:
    """Back-off, image, configuration, creation and start; returns what went wrong, "" for nothing.

    The reason of a failure shows from the next sync on.

    ended: the instances that had ended when the sync began
    previous: the instance before this one, if that is no longer kept
    """
    agent, pod, name = worker.agent, worker.pod, spec["name"]
    runtime = worker.runtime
    assert runtime is not None
    back_off = held_back(worker, spec, ended.get(name))
    if back_off:
        return back_off
    reason = yield from agent.images.ensure(worker, spec)
    if reason is not None:
        worker.reasons = reasoned(worker.reasons, name, reason)
        return reason[0]
    interpreter, target = None, spec.get("targetContainerName")
    variables: Mapping[str, str] = NOTHING
    if target and runtime.newest(target) is None:
        problem = f"unable to find target container {target}"
    else:
        # What has no command and an image that no table lists runs for ever, without processes.
        interpreter = _interpreter(worker, spec) if words_of(spec) else None
        problem, variables = yield from agent.references.config(worker, spec, runs=interpreter is not None)
    if problem:
        return _not_created(worker, name, "CreateContainerConfigError", problem)
    prefix, root = agent.names.annotation_apparmor_prefix, agent.options.root_dir
    if problem := missing_profile(agent.spec.profile, pod, spec, prefix, root):
        return _not_created(worker, name, "CreateContainerError", problem)
    if interpreter is not None:
        from actors.node.pods.launch import programs_of
        from actors.node.pods.volume_content import fill

        yield from fill(worker, programs_of(worker), agent.ctx.wall_us())
    if not (yield from call(worker, "start_container", agent.spec.profile.start_us)):
        return _not_created(worker, name, "CreateContainerError", LATE)
    profile, kernel = agent.spec.profile, agent.ctx.kernel
    behaviour = behaviour_of(worker, pod, name, init, runs=interpreter is not None)
    agent.event(pod, "Normal", "Created", f"Created container {name}", container=name)
    fault = profile.imposed(pod, name, init, "start_error" if behaviour.start_error else "exit_after_us")
    container = agent.machine.start(runtime, name, spec["image"], behaviour, agent.now_us, fault, previous)
    worker.made_us = agent.now_us
    agent.resources.starting(pod, name, container.ident)
    if not behaviour.start_error:
        _start_programs(worker, spec, container, variables, interpreter)
    if container.reason == "StartError":
        worker.reasons = reasoned(worker.reasons, name, ("RunContainerError", container.message))
        with caused_by(kernel, met_first(runtime, container, fault)):
            agent.event(pod, "Warning", "Failed", f"Error: {container.message}", container=name)
        return "RunContainerError"
    worker.reasons = reasoned(worker.reasons, name, None)
    if behaviour.uses_much:
        fault = profile.imposed(pod, name, init, "memory_bytes")
        limit_memory(worker, spec, container, fault)
        with caused_by(kernel, met_first(runtime, container, fault)):
            agent.consider_pressure()
    agent.event(pod, "Normal", "Started", f"Started container {name}", container=name)
    return (yield from run_post_start(worker, spec, container))


def _start_programs(
    worker: PodWorker,
    spec: Obj,
    container: Container,
    variables: Mapping[str, str],
    interpreter: Interpreter | None,
) -> None:
    """Start the first process of a container that has one."""
    if interpreter is not None:
        from actors.node.pods.launch import launch

        given = worker.agent.resources.environment(worker.pod, spec["name"])
        launch(worker, spec, container, {**given, **variables}, interpreter)
    elif worker.pod["spec"].get("shareProcessNamespace"):
        from actors.node.pods.launch import start_idle

        start_idle(worker, container)  # others see its processes


def _interpreter(worker: PodWorker, spec: Obj) -> Interpreter | None:
    """What runs the container's programs; None if only its behaviour says what it does."""
    agent = worker.agent
    if agent.spec.profile.is_ruled(worker.pod, spec["name"]):
        return None
    from actors.node.runtime.interpreter import interpreter

    found = agent.machine.interpreter or interpreter()
    return found if found is not None and found.runs(spec) else None


def _not_created(worker: PodWorker, name: str, reason: str, problem: str) -> str:
    """Report a container that the runtime was not asked to create, or refused; returns the reason."""
    agent, meta = worker.agent, worker.pod["metadata"]
    worker.reasons = reasoned(worker.reasons, name, (reason, problem))
    why = {"reason": reason, "message": problem}
    agent.ctx.decided("fails", f"pods/{meta['namespace']}/{meta['name']}", why)
    agent.event(worker.pod, "Warning", "Failed", f"Error: {problem}", container=name)
    return reason
