"""The answer to a request for a container's log.  Pure.

Mirrors  pkg/kubelet/kubelet.go: GetKubeletContainerLogs, validateContainerLogStatus: the refusals
         (v1.25).
Holds    a file that has been rotated is not part of the answer.
Differs  output at a rate takes disk space and has no text; the endpoint applies tail and limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from actors.node.runtime.containers import Container
from actors.node.runtime.machine import Machine
from sim.api.types import Obj

if TYPE_CHECKING:
    from actors.node.runtime.output import Line


def container_log(
    pod: Obj | None,
    machine: Machine,
    wanted: tuple[str, str, bool],
    status: Obj,
) -> tuple[int, str]:
    """(HTTP code, text).

    wanted: pod, container, whether the previous instance is wanted
    status: of the pod
    """
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
            return 200, text_of(lines_of(machine, instance))
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


def lines_of(machine: Machine, container: Container) -> Sequence[Line]:
    """The lines of the newest log file of a container that has been written until now.

    The text of its behaviour was written at its start; a program's lines follow.
    """
    from actors.node.runtime.output import Line

    log, output = machine.log_of(container), machine.output_of(container)
    text = container.behaviour.log.rstrip("\n")
    rotated = (log is not None and log.rotated) or (output is not None and output.rotated)
    start_us = container.started_us
    first = (
        []
        if rotated or not text
        else [Line(start_us, "stdout", f"{one}\n".encode()) for one in text.split("\n")]
    )
    return first if output is None else [*first, *output.lines]


def text_of(lines: Iterable[Line]) -> str:
    """The text of these lines, in which bytes that are no UTF-8 are replaced."""
    return b"".join([line.data for line in lines]).decode(errors="replace")
