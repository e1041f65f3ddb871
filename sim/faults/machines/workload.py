"""workload: the programs in containers behave differently."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sim.api.objects import is_ready
from sim.dataclass import dataclass
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Ends, Fault, Imposed, Stage
from sim.faults.shared.ledger import Aspect, Ledger
from sim.faults.shared.parameters import Among, Amount, Nodes, Strict
from sim.faults.shared.picks import PickObjects, checked_pick, drawn
from sim.units import MINUTE

ENDED = ("Succeeded", "Failed")
GROWTH_MINUTES = 10 * 365 * 24 * 60
_ExitCode = Annotated[int, Meta(ge=0, le=255)]


class OnTerm(Strict):
    """What SIGTERM does to a program."""

    exit_code: Annotated[_ExitCode, Meta(description="The exit code of its end.")] = 0
    after: Annotated[str, Meta(description="Time from SIGTERM to its end; `never` waits for SIGKILL.")] = (
        "200ms"
    )


class Growth(Strict):
    """Memory that grows without end, as that of a program with a leak."""

    from_: Annotated[Amount, Meta(description="Working set at the start of the container.")] = msgspec.field(
        default=0, name="from"
    )
    per_minute: Annotated[Amount, Meta(description="What is added each minute.")] = 0


class Workload(Strict):
    """The parameters of `workload`."""

    namespace: Annotated[str, Meta(description="Of the pods; empty: any.")] = ""
    selector: Annotated[str, Meta(description="Labels of the pods, as `app=web`.")] = ""
    name: Annotated[str, Meta(description="Prefix of the names of the pods.")] = ""
    image: Annotated[str, Meta(description="Image of the containers.")] = ""
    container: Annotated[str, Meta(description="Name of the containers.")] = ""
    nodes: Annotated[Nodes | UnsetType, Meta(description="Only on these nodes; default everywhere.")] = UNSET
    pick: PickObjects = UNSET
    among: Among = UNSET
    exit_after: Annotated[str | UnsetType, Meta(description="The program ends so long after its start.")] = (
        UNSET
    )
    exit_code: Annotated[_ExitCode | UnsetType, Meta(description="Its exit code, with `exitAfter`.")] = UNSET
    ready: Annotated[bool | UnsetType, Meta(description="`false`: every probe fails; `true`: none does.")] = (
        UNSET
    )
    ready_after: Annotated[
        str | UnsetType,
        Meta(description="Probes fail until so long after the start of a container, then none does."),
    ] = UNSET
    late: Annotated[
        str | UnsetType,
        Meta(
            description="How much longer probes and hooks by command, HTTP and gRPC take, as without processor time."
        ),
    ] = UNSET
    start_error: Annotated[
        str | UnsetType, Meta(description="Containers cannot be started, with this message.")
    ] = UNSET
    pull_error: Annotated[
        str | UnsetType,
        Meta(description="The image cannot be pulled, with this message; needs `image` only."),
    ] = UNSET
    stop: Annotated[
        str | UnsetType, Meta(description="Time from SIGTERM to the end; `never` waits for SIGKILL.")
    ] = UNSET
    on_term: Annotated[
        OnTerm | UnsetType,
        Meta(
            description="What SIGTERM does, `{exitCode: 143, after: 1s}`; by default shells and `sleep` ignore it, "
            "servers end with 0."
        ),
    ] = UNSET
    memory: Annotated[
        Amount | Growth | UnsetType,
        Meta(description="Working set of each container; `{from: 50Mi, perMinute: 20Mi}` grows."),
    ] = UNSET
    log_rate: Annotated[Amount | UnsetType, Meta(description="Bytes a second that each container logs.")] = (
        UNSET
    )
    cpu: Annotated[Amount | UnsetType, Meta(description="CPU that each container uses, for autoscaling.")] = (
        UNSET
    )
    load: Annotated[
        Amount | UnsetType, Meta(description="CPU that the ready pods of an autoscaler use together.")
    ] = UNSET


@dataclass(frozen=True, slots=True)
class Behave(Imposed):
    """How containers of matching pods behave; None means that the node's profile decides.

    unready: True if probes fail
    stop_us: time from SIGTERM to the end; -1 if only SIGKILL ends the program
    stop_exit_code: the exit code of that end; None: as without the step
    """

    nodes: tuple[str, ...]
    namespace: str
    labels: Mapping[str, str]
    prefix: str
    image: str
    container: str
    exit_after_us: int | None = None
    exit_code: int | None = None
    unready: bool | None = None
    ready_after_us: int | None = None
    late_us: int | None = None
    start_error: str | None = None
    pull_error: str | None = None
    stop_us: int | None = None
    stop_exit_code: int | None = None
    memory: int | None = None
    memory_per_minute: int | None = None
    log_rate: int | None = None
    cpu_milli: int | None = None
    load_milli: int | None = None
    pick: str | None = None
    picked: ClassVar[str] = "nodes"

    def impose(self, stage: Stage, step: str) -> None:
        """Containers behave so on each node; those that run already change too."""
        override = self._override(stage)
        if (draw := drawn(self.pick or "", step, stage)) is not None:
            pods = self._running(stage, override, draw.healthy)
            chosen = draw.of(sorted(pods), stage.cluster.kernel.stream(draw.stream))
            override = self._override(stage, frozenset(pods[key] for key in chosen))
        for node in self.nodes:
            stage.faults.impose(step, node, "behaviour", override)

    def _override(self, stage: Stage, uids: Collection[str] | None = None) -> Any:
        """The change of the behaviour.  uids: of the pods, if some are drawn"""
        kernel = stage.cluster.kernel
        return stage.cluster.container_override(
            self._changes(),
            namespace=self.namespace,
            labels=self.labels,
            pod_prefix=self.prefix,
            image=self.image,
            container=self.container,
            uids=uids,
            pull_error=self.pull_error or "",
            record=kernel.cause,
            since_us=kernel.now_us,
        )

    def _running(self, stage: Stage, override: Any, ready: bool) -> dict[str, str]:
        """The uids of the pods on the nodes that the fault covers and that have not ended, by key.

        ready: True leaves out those that are not ready
        """
        found = {}
        for item in (change.item for change in stage.cluster.present(("pods",))):
            spec, ended = item.obj["spec"], (item.obj.get("status") or {}).get("phase") in ENDED
            ended = ended or (ready and not is_ready(item.obj))
            if spec.get("nodeName") in self.nodes and not ended:
                names = [container["name"] for container in spec["containers"]]
                if any(override.covers(item.obj, name, False) for name in names):
                    found[item.key] = item.obj["metadata"]["uid"]
        return found

    def _changes(self) -> dict[str, Any]:
        """The changes in the terms of `actors.node.runtime.profile.ContainerBehaviour`."""
        changes: dict[str, Any] = {
            "exit_after_us": self.exit_after_us,
            "exit_code": self.exit_code,
            "healthy_after_us": self.ready_after_us,
            "late_us": self.late_us,
            "start_error": self.start_error,
            "stop_exit_code": self.stop_exit_code,
            **self._memory(),
            "log_rate": self.log_rate,
            "cpu_milli": self.cpu_milli,
            "load_milli": self.load_milli,
        }
        changes = {key: value for key, value in changes.items() if value is not None}
        if self.unready is not None:
            changes["unhealthy_after_us"] = 0 if self.unready else None
        if self.unready is False or self.ready_after_us is not None:
            changes["answers_probes"] = True
        if self.stop_us is not None:
            changes["stop_us"] = None if self.stop_us < 0 else self.stop_us
        return changes

    def _memory(self) -> dict[str, int | None]:
        """The working set; one that grows is a straight line for much longer than a run."""
        if self.memory_per_minute is None:
            return {"memory_bytes": self.memory}
        begin = self.memory or 0
        return {
            "memory_from": begin,
            "memory_bytes": begin + self.memory_per_minute * GROWTH_MINUTES,
            "memory_ramp_us": GROWTH_MINUTES * MINUTE,
        }


def _check(context: Context, given: Workload) -> Behave:
    changes = _changes(context, given)
    _check_changes(context, given, changes)
    prefix = given.name.removesuffix("*")  # elsewhere a name is a glob
    if any(mark in prefix for mark in "*?["):
        raise context.error("name", f"{given.name!r} cannot begin a name")
    return Behave(
        nodes=context.nodes(given.nodes if isinstance(given.nodes, Nodes) else Nodes()),
        namespace=given.namespace,
        labels=context.labels(given.selector),
        prefix=prefix,
        image=given.image,
        container=given.container,
        pick=checked_pick(context, given.pick, given.among) or None,
        **changes,
    )


def _changes(context: Context, given: Workload) -> dict[str, Any]:
    """The changed fields of `Behave`; None where the step has no value."""

    def plain(value: Any) -> Any:
        return None if value is UNSET else value

    return {
        "exit_after_us": context.optional_duration(given.exit_after, "exitAfter"),
        "exit_code": plain(given.exit_code),
        "unready": None if given.ready is UNSET else not given.ready,
        "ready_after_us": context.optional_duration(given.ready_after, "readyAfter"),
        "late_us": context.optional_duration(given.late, "late"),
        "start_error": plain(given.start_error),
        "pull_error": plain(given.pull_error),
        **_stop(context, given),
        **_memory(context, given.memory),
        "log_rate": context.bytes(given.log_rate, "logRate") if isinstance(given.log_rate, Amount) else None,
        "cpu_milli": context.milli(given.cpu, "cpu") if isinstance(given.cpu, Amount) else None,
        "load_milli": context.milli(given.load, "load") if isinstance(given.load, Amount) else None,
    }


def _memory(context: Context, given: Amount | Growth | UnsetType) -> dict[str, int | None]:
    if isinstance(given, Growth):
        growth = context.bytes(given.per_minute, "memory.perMinute")
        if not growth:
            raise context.error(
                "memory.perMinute", "the memory does not grow", "give an amount, or 'memory: 50Mi'"
            )
        return {"memory": context.bytes(given.from_, "memory.from"), "memory_per_minute": growth}
    return {"memory": context.bytes(given, "memory") if isinstance(given, Amount) else None}


def _stop(context: Context, given: Workload) -> dict[str, int | None]:
    """The end by SIGTERM, of `onTerm` or of `stop`, which says only when it is."""
    if not isinstance(given.on_term, OnTerm):
        after_us = -1 if given.stop == "never" else context.optional_duration(given.stop, "stop")
        return {"stop_us": after_us, "stop_exit_code": None}
    if given.stop is not UNSET:
        raise context.error("stop", "'onTerm' says it too", "give one of 'stop' and 'onTerm'")
    at_term = given.on_term
    after_us = -1 if at_term.after == "never" else context.optional_duration(at_term.after, "onTerm.after")
    return {"stop_us": after_us, "stop_exit_code": at_term.exit_code}


def _check_changes(context: Context, given: Workload, changes: Mapping[str, Any]) -> None:
    if all(change is None for change in changes.values()):
        raise context.error(
            "", "changes nothing", "give exitAfter, exitCode, ready, startError, pullError, …"
        )
    if changes["exit_code"] is not None and changes["exit_after_us"] is None:
        raise context.error("exitCode", "'exitCode' has no effect without 'exitAfter'")
    narrowed = given.namespace or given.selector or given.name or given.container or given.pick is not UNSET
    if changes["pull_error"] is not None and (not given.image or narrowed):
        raise context.error("pullError", "an image fails for every pod", "give 'image' and no pods")
    for key, shown in (("start_error", "startError"), ("pull_error", "pullError")):
        if changes[key] == "":
            raise context.error(shown, f"an empty {shown!r} is none", "give the text of the error")
    for key in ("cpu", "load"):
        if changes[f"{key}_milli"] is not None and not context.known.metrics:
            raise context.error(key, f"nothing reads {key!r} without metrics", "give cluster.metrics: true")


def _settle(ledger: Ledger, name: str) -> None:
    ledger.cluster.nodes[name].behave(ledger.values(name, "behaviour"))


FAULT = Fault(
    name="workload",
    parameters=Workload,
    check=_check,
    ends=Ends.LATER,
    documentation="""
The programs in containers behave so from now on, those that run already too. Without a step SIGTERM ends a program with 0
if it is a server, and is ignored by a shell, `sleep` or `tail` that is process 1, which SIGKILL ends with 137 after the grace
period; such programs are listed in `actors/node/runtime/programs.toml`. Without a step a probe fails whose command fails (`false`, or
`cat` of a file in `/tmp` that the container's script has not made), or whose port no container declares and no known image
opens. The pods are chosen by namespace, selector,
name, image, container and nodes; init containers only by their image or their name. With `pick` some of the pods that run
at that time are drawn; others, and pods in the place of theirs, behave as before. Logs are rotated by the flags
`container-log-max-size` and `container-log-max-files`. `cpu` and `load` need `cluster.metrics`.""",
    example="""
- {at: 2m, workload: {selector: app=web, exitAfter: 5s, exitCode: 1}, for: 5m}                      # crash loops
- {at: 2m, workload: {namespace: default, name: web-, container: web, ready: false}, for: 5m}       # probes fail
- {at: 2m, workload: {selector: app=web, readyAfter: 20s, stop: never, memory: 300Mi}}              # ignores SIGTERM
- {at: 2m, workload: {selector: app=web, onTerm: {exitCode: 143, after: 1s}}}                         # handles SIGTERM
- {at: 2m, workload: {nodes: {zone: a}, late: 1500ms}, for: 3m}             # probes exceed timeoutSeconds: 1
- {at: 2m, workload: {selector: app=web, logRate: 200Mi}, for: 10m}
- {at: 2m, workload: {selector: app=web, memory: {from: 50Mi, perMinute: 20Mi}}}                    # a leak
- {at: 2m, workload: {selector: app=web, load: 3, cpu: 20m}}      # 3 CPUs among all ready pods, 20m each
- {at: 2m, workload: {selector: app=web, startError: "no such file", nodes: {zone: a}}, for: 1m}
- {at: 2m, workload: {selector: app=web, pick: 50%, ready: false}, for: 5m}                         # half of the pods
- {at: 2m, workload: {image: "r/web:1", pullError: "manifest unknown"}, for: 5m}""",
    aspects=(Aspect("behaviour", _settle),),
    words={("unready", True): "not ready", ("unready", False): "ready", ("stop_us", -1): "never stops"},
    amounts=("memory", "memory_per_minute"),
)
