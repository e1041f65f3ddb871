"""When a container that has ended may start again.

Turns the end of a container's last instance into the back-off that holds the restart, with its
event and its record in the trace.

Mirrors  pkg/kubelet/kuberuntime/kuberuntime_manager.go: doBackOff (v1.25).
"""

from __future__ import annotations

from actors.node.pods.pod_status import reasoned
from actors.node.pods.ports import PodWorker
from actors.node.runtime.containers import Container
from sim.api.types import Obj
from sim.units import format_duration


def held_back(worker: PodWorker, spec: Obj, newest: Container | None) -> str:
    """Why the container may not start yet.

    "" lets it start and raises the delay of the next restart.
    """
    agent = worker.agent
    if newest is None:
        return ""
    assert newest.exit_us is not None, "only an instance that has ended is followed by another"
    key = f"{worker.uid}/{spec['name']}/{spec['image']}"
    ended_us, now_us = agent.ctx.said_us(newest.exit_us), agent.ctx.wall_us()
    held_us = agent.restarts.held_us(key, ended_us, now_us)
    meta, name = worker.pod["metadata"], spec["name"]
    message = (
        f"back-off {format_duration(held_us)} restarting failed container={name} "
        f"pod={meta['name']}_{meta['namespace']}({worker.uid})"
    )
    reason = ("CrashLoopBackOff", message)
    if worker.reasons.get(name) != reason:  # else the decision is not new
        why = {"container": name, "exit_code": newest.exit_code, "wait_us": held_us}
        agent.ctx.decided(
            "back-off" if held_us else "restart", f"pods/{meta['namespace']}/{meta['name']}", why
        )
    if not held_us:
        agent.restarts.next(key, ended_us, now_us)
        return ""
    agent.event(worker.pod, "Warning", "BackOff", "Back-off restarting failed container", container=name)
    worker.reasons = reasoned(worker.reasons, name, reason)
    return message
