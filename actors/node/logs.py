"""What `kubectl logs` shows of a container: text that depends on the container alone.  Pure.

Mirrors  pkg/kubelet/kubelet.go: GetKubeletContainerLogs, validateContainerLogStatus: the refusals (v1.25).
Differs  a container's log is what its behaviour says (`log`), with a first and a last line of our own; no
         timestamps inside, tail and limits are the endpoint's business.
"""

from __future__ import annotations

from typing import Any

from actors.node.machine import Container, PodRuntime
from sim.units import format_time

Obj = dict[str, Any]


def container_log(
    pod: Obj | None,
    runtime: PodRuntime | None,
    name: str,
    container: str,
    previous: bool,
    clock: tuple[int, int],
) -> tuple[int, str]:
    """(HTTP code, text) for one container of the pod called `name`.  clock: now_us and wall_us."""
    now_us, wall_us = clock
    if pod is None:
        return 404, f'pod "{name}" does not exist'
    spec = pod["spec"]
    kinds = ("initContainers", "containers", "ephemeralContainers")
    known = [c["name"] for kind in kinds for c in spec.get(kind) or ()]
    if container not in known:
        return 404, f'container "{container}" not found in pod "{name}"'
    instances = runtime.instances(container) if runtime is not None else []
    if previous:
        ended = [c for c in instances if c.exited(now_us)]
        if not ended:
            return 400, f'previous terminated container "{container}" in pod "{name}" not found'
        return 200, text_of(ended[-1], now_us, wall_us)
    if not instances:
        return 400, f'container "{container}" in pod "{name}" is waiting to start: {_waiting(pod, container)}'
    return 200, text_of(instances[-1], now_us, wall_us)


def _waiting(pod: Obj, container: str) -> str:
    for key in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for status in (pod.get("status") or {}).get(key) or ():
            if status["name"] == container and "waiting" in status["state"]:
                reason = str(status["state"]["waiting"].get("reason", ""))
                return {
                    "ErrImagePull": "image can't be pulled",
                    "ImagePullBackOff": "trying and failing to pull image",
                }.get(reason, reason)
    return "ContainerCreating"


def text_of(container: Container, now_us: int, wall_us: int) -> str:
    lines = [
        f"{format_time(container.started_us + wall_us)} {container.name} started, image {container.image}"
    ]
    if container.behaviour.log:
        lines.append(container.behaviour.log.rstrip("\n"))
    if container.exited(now_us) and container.exit_us is not None:
        lines.append(
            f"{format_time(container.exit_us + wall_us)} {container.name} ended with {container.exit_code}"
        )
    return "\n".join(lines) + "\n"
