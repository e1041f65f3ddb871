"""What to kill, make and start for a pod, given what its runtime shows.  Pure.

Mirrors  pkg/kubelet/kuberuntime/kuberuntime_manager.go: computePodActions,
         findNextInitContainerToRun; pkg/kubelet/container/helpers.go: ShouldContainerBeRestarted
         (v1.25).
Differs  a change of a container's spec is recognized by its image: the API allows no change of
         another field. After the clock was set back, the newest instance is still the last that was
         created; upstream takes one that has ended, and fails to create its successor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple

from actors.node.pod_spec import RestartPolicy, restart_policy, should_restart
from actors.node.pod_work import Override
from actors.node.runtime.containers import Container, PodRuntime
from sim.api.types import Obj
from sim.dataclass import dataclass


class RequestedEnd(NamedTuple):
    """How the end of a pod was requested.

    grace_s: None for the pod's own grace period
    override: phase, reason and message for its status
    is_own: True if the pod ends because its containers ended
    """

    grace_s: int | None
    override: Override | None
    is_own: bool = False


NO_REQUEST = RequestedEnd(None, None)


@dataclass(slots=True)
class Actions:
    """What a sync does, in this order.

    kill_pod: stop everything first
    kills: (container, instance, message) to stop
    ephemeral: ephemeral containers to start
    init: the init container to start
    starts: containers to start, in order
    """

    kill_pod: bool = False
    create_sandbox: bool = False
    kills: list[tuple[Obj, Container, str]] = field(default_factory=list)
    ephemeral: list[Obj] = field(default_factory=list)
    init: Obj | None = None
    starts: list[Obj] = field(default_factory=list)


def compute_actions(pod: Obj, runtime: PodRuntime | None, failed: Mapping[str, str], now_us: int) -> Actions:
    """What a sync does.  failed: container -> "liveness" or "startup" if that probe has failed."""
    spec, policy = pod["spec"], restart_policy(pod)
    init = spec.get("initContainers") or ()
    if runtime is None or not runtime.ready:
        return _with_new_sandbox(pod, runtime, policy, now_us)
    # Ephemeral containers are started in any case, and never again.
    actions = Actions(
        ephemeral=[c for c in spec.get("ephemeralContainers") or () if not runtime.newest(c["name"])]
    )
    if init:
        last, following, is_done = next_init(spec, runtime, now_us)
        if not is_done:
            if following is not None:
                if last is not None and last.exited(now_us) and last.exit_code != 0 and policy == "Never":
                    actions.kill_pod = True
                else:
                    actions.init = following
            return actions
    kept_count = 0
    for container in spec["containers"]:
        newest = runtime.newest(container["name"])
        if newest is None or not newest.running(now_us):
            if _is_started(pod, newest, policy):
                actions.starts.append(container)
            continue
        restart = policy != "Never"
        if newest.image != container["image"]:
            message, restart = f"Container {container['name']} definition changed", True
        elif container["name"] in failed:
            message = f"Container {container['name']} failed {failed[container['name']]} probe"
        else:
            kept_count += 1
            continue
        if restart:
            message += ", will be restarted"
            actions.starts.append(container)
        actions.kills.append((container, newest, message))
    actions.kill_pod = not kept_count and not actions.starts
    return actions


def _is_started(pod: Obj, newest: Container | None, policy: RestartPolicy) -> bool:
    """True if a container that does not run is started (again)."""
    if pod["metadata"].get("deletionTimestamp"):
        return False
    return newest is None or should_restart(policy, newest.exit_code)


def _with_new_sandbox(pod: Obj, runtime: PodRuntime | None, policy: RestartPolicy, now_us: int) -> Actions:
    spec = pod["spec"]
    actions = Actions(kill_pod=runtime is not None, create_sandbox=True)
    has_run = runtime is not None and bool(runtime.containers)
    if policy == "Never" and has_run:
        actions.create_sandbox = False
        return actions
    starts = []
    for container in spec["containers"]:
        newest = runtime.newest(container["name"]) if runtime is not None else None
        succeeded = newest is not None and newest.exited(now_us) and newest.exit_code == 0
        if not (succeeded and policy == "OnFailure"):
            starts.append(container)
    init = spec.get("initContainers") or ()
    if not starts and (not init or (runtime is not None and next_init(spec, runtime, now_us)[2])):
        actions.create_sandbox = False
    elif init:
        actions.init = init[0]
    else:
        actions.starts = starts
    return actions


def next_init(spec: Obj, runtime: PodRuntime, now_us: int) -> tuple[Container | None, Obj | None, bool]:
    """(the last instance, the init container to run next, whether all are done)."""
    init = spec["initContainers"]
    for container in spec["containers"]:
        newest = runtime.newest(container["name"])
        if newest is not None and newest.running(now_us):
            return None, None, True
    for container in reversed(init):
        newest = runtime.newest(container["name"])
        if newest is not None and newest.exited(now_us) and newest.exit_code != 0:
            return newest, container, False
    for index in range(len(init) - 1, -1, -1):
        newest = runtime.newest(init[index]["name"])
        if newest is None:
            continue
        if newest.running(now_us):
            return newest, None, False
        if index == len(init) - 1:
            return newest, None, True
        return newest, init[index + 1], False
    return None, init[0], False


def effective_grace_us(pod: Obj, override_s: int | None = None) -> int:
    """The grace period of a terminating pod's containers.  Quirk: an override of 0 counts as none.

    Mirrors  pod_workers.go: calculateEffectiveGracePeriod.
    """
    grace = int(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
    if override_s is not None and (grace == 0 or override_s < grace):
        grace = override_s
    if not grace:
        spec_s = pod["spec"].get("terminationGracePeriodSeconds")
        grace = 30 if spec_s is None else int(spec_s)
    return max(1, grace) * 1_000_000


def own_grace_us(pod: Obj, probe: Obj | None = None) -> int:
    """The grace period of a kill without an override.

    The deletion's counts first, then that of the probe that failed, then that of the pod's spec.

    Mirrors  kuberuntime_container.go: setTerminationGracePeriod.
    """
    for holder, key in (
        (pod["metadata"], "deletionGracePeriodSeconds"),
        (probe or {}, "terminationGracePeriodSeconds"),
        (pod["spec"], "terminationGracePeriodSeconds"),
    ):
        if holder.get(key) is not None:
            return int(holder[key]) * 1_000_000
    return 30_000_000


def failed_probe(container: Obj, message: str) -> Obj | None:
    """The probe that failed, if that is why a container is killed, found by the message."""
    for kind in ("liveness", "startup"):
        if message.startswith(f"Container {container['name']} failed {kind} probe"):
            return container.get(f"{kind}Probe")
    return None
