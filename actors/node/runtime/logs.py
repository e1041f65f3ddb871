"""The answer to a request for a container's log, a text that depends on the container alone.  Pure.

Mirrors  pkg/kubelet/kubelet.go: GetKubeletContainerLogs, validateContainerLogStatus: the refusals
         (v1.25).
Holds    a file that has been rotated is not part of the answer.
Differs  a log holds the text of the container's behaviour (`log`), between a first and a last
         line of our own; output at a rate takes disk space and has no text; lines have no
         timestamps; the endpoint applies tail and limits.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.node.runtime.containers import Container
from actors.node.runtime.machine import Machine
from sim.api.types import Obj
from sim.units import format_time


def container_log(
    pod: Obj | None,
    machine: Machine,
    wanted: tuple[str, str, bool],
    status: Obj,
    clock: tuple[int, Callable[[int], int]],
) -> tuple[int, str]:
    """(HTTP code, text).

    wanted: pod, container, whether the previous instance is wanted
    status: of the pod
    clock: the time in microseconds, and the wall clock's reading of any such time
    """
    now_us, said_us = clock
    name, container, previous = wanted
    if pod is None:
        return 404, f'pod "{name}" does not exist'
    spec = pod["spec"]
    kinds = ("initContainers", "containers", "ephemeralContainers")
    known = [c["name"] for kind in kinds for c in spec.get(kind) or ()]
    if container not in known:
        return 404, f'container "{container}" not found in pod "{name}"'
    ident, refusal = _instance(status, name, container, previous)
    if refusal:
        return 400, refusal
    runtime = machine.pods.get(pod["metadata"]["uid"])
    for instance in runtime.instances(container) if runtime is not None else ():
        if instance.ident == ident:
            log = machine.log_of(instance)
            return 200, text_of(instance, now_us, said_us, rotated=log is not None and bool(log.rotated))
    return 400, f"unable to retrieve container logs for {ident}"


def _instance(status: Obj, name: str, container: str, previous: bool) -> tuple[str, str]:
    """(id of the wanted instance, "") or ("", why there is none)."""
    about = f'container "{container}" in pod "{name}"'
    keys = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    shown = [one for key in keys for one in status.get(key) or () if one["name"] == container]
    if not shown:
        return "", f"{about} is not available"
    state = shown[0]["state"]
    ended, last = state.get("terminated"), (shown[0].get("lastState") or {}).get("terminated")
    if previous:
        ident = (last or {}).get("containerID", "")
        return ident, "" if ident else f"previous terminated {about} not found"
    if "running" in state:
        return str(shown[0]["containerID"]), ""
    if ended or last:
        ident = (ended or {}).get("containerID", "") or (last or {}).get("containerID", "")
        return ident, "" if ident else f"{about} is terminated"
    reason = str((state.get("waiting") or {}).get("reason", ""))
    texts = {"ErrImagePull": "image can't be pulled", "ImagePullBackOff": "trying and failing to pull image"}
    return "", f"{about} is waiting to start: {texts.get(reason, reason)}"


def text_of(
    container: Container, now_us: int, said_us: Callable[[int], int], *, rotated: bool = False
) -> str:
    """The content of the newest log file; `rotated`: the container's start is in an older one."""
    lines = []
    if not rotated:
        began = format_time(said_us(container.started_us))
        lines.append(f"{began} {container.name} started, image {container.image}")
        if container.behaviour.log:
            lines.append(container.behaviour.log.rstrip("\n"))
    if container.exited(now_us) and container.exit_us is not None:
        lines.append(
            f"{format_time(said_us(container.exit_us))} {container.name} ended with {container.exit_code}"
        )
    return "".join(f"{line}\n" for line in lines)
