"""The ConfigMaps and Secrets that a pod's volumes and variables come from: whether they are there.

Turns a pod's spec into what has to exist (`volumes_of`, `variables_of`), and what the API says of that into reasons why a
pod cannot have its volumes yet, or a container its environment.

Holds: a pod that refers to none reads nothing.

Mirrors  pkg/kubelet/volumemanager/volume_manager.go: WaitForAttachAndMount; pkg/volume/{configmap,secret};
         pkg/util/goroutinemap/exponentialbackoff; pkg/kubelet/kubelet_pods.go: makeEnvironmentVariables (v1.25).
Differs  read when needed (upstream watches them while pods refer to them); projected volumes are taken to be whole; a
         pod's volumes are tried together, while its sync waits for them, and what is there takes no time to mount.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.node.pods.actions import root_problem
from actors.node.runtime.images import WAIT
from sim.api.types import NOT_FOUND, Obj, Reply
from sim.units import MS, SECOND

if TYPE_CHECKING:
    from actors.node.agent import NodeAgent
    from actors.node.pods.worker import Worker

Problem = tuple[str, str]  # volume ("" for a variable) and what is wrong

MOUNT_WAIT_US = 123 * SECOND  # volume_manager.go: podAttachAndMountTimeout
RETRY_US = 500 * MS  # exponential_backoff.go: initialDurationBeforeRetry, doubling
RETRY_MAX_US = 122 * SECOND  # exponential_backoff.go: maxDurationBeforeRetry
KINDS = {"configmaps": "ConfigMap", "secrets": "Secret"}
SOURCES = {"configmaps": "configMap", "secrets": "secret"}  # as kubelet_pods.go calls them in its warning
_VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")  # apimachinery/pkg/util/validation: IsEnvVarName
INVALID_NAMES = "Keys [{}] from the EnvFrom {} {} were skipped since they are considered invalid environment variable names."


@dataclass(frozen=True, slots=True)
class Need:
    """An object that must exist, with these keys in it.

    volume: which is made of it; "": a variable, or without keys all of the object's, their names after `prefix`
    optional: the object, or a key, need not be there, but the API has to say so
    """

    resource: str
    name: str
    keys: tuple[str, ...] = ()
    volume: str = ""
    optional: bool = False
    prefix: str = ""


def volumes_of(spec: Obj) -> list[Need]:
    """What the volumes that a container mounts are made of."""
    found = []
    for volume in spec.get("volumes") or ():
        for source, resource, name in (
            ("configMap", "configmaps", "name"),
            ("secret", "secrets", "secretName"),
        ):
            given = volume.get(source)
            if given is not None and not given.get("optional"):
                keys = tuple(item["key"] for item in given.get("items") or ())
                found.append(Need(resource, given.get(name, ""), keys, volume["name"]))
    if not found:
        return found
    containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
    mounted = {mount["name"] for c in containers for mount in c.get("volumeMounts") or ()}
    return [need for need in found if need.volume in mounted]


def variables_of(container: Obj) -> list[Need]:
    """What a container's environment is made of, in the order in which it is made."""
    found = []
    for source in container.get("envFrom") or ():
        for part, resource in (("configMapRef", "configmaps"), ("secretRef", "secrets")):
            given = source.get(part)
            if given is not None:
                prefix, optional = source.get("prefix", ""), bool(given.get("optional"))
                found.append(Need(resource, given.get("name", ""), optional=optional, prefix=prefix))
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        for part, resource in (("configMapKeyRef", "configmaps"), ("secretKeyRef", "secrets")):
            given = source.get(part)
            if given is not None:
                optional = bool(given.get("optional"))
                found.append(Need(resource, given.get("name", ""), (given["key"],), optional=optional))
    return found


def problem_of(need: Need, namespace: str, reply: Reply) -> str:
    """What is wrong with an object as the API shows it, "" for nothing."""
    kind = KINDS[need.resource]
    if reply.code == NOT_FOUND:
        return "" if need.optional else f'{kind.lower()} "{need.name}" not found'
    if not reply.ok:
        return f"failed to sync {kind.lower()} cache: timed out waiting for the condition"
    data = reply.obj.get("data") or {}
    held = {**(reply.obj.get("binaryData") or {}), **data} if need.volume else data
    absent = [key for key in need.keys if key not in held]
    if not absent or need.optional:
        return ""
    if not need.volume:
        return f"couldn't find key {absent[0]} in {kind} {namespace}/{need.name}"
    what = (
        "configmap references non-existent config"
        if kind == "ConfigMap"
        else "references non-existent secret"
    )
    return f"{what} key: {absent[0]}"


def invalid_names(need: Need, obj: Obj) -> list[str]:
    """Of the variables that a whole object would become those whose names no variable can have."""
    names = [need.prefix + key for key in obj.get("data") or ()]
    return sorted(name for name in names if not _VARIABLE.fullmatch(name) or name.startswith(".."))


class References:
    """What one agent incarnation knows: pods whose volumes are mounted, and when those of others are tried again."""

    __slots__ = ("_agent", "_mounted", "_retries")

    def __init__(self, agent: NodeAgent) -> None:
        self._agent = agent
        self._mounted: dict[str, None] = {}
        self._retries: dict[str, tuple[int, int]] = {}  # when, and how long to wait after that

    def forget(self, uid: str) -> None:
        self._mounted.pop(uid, None)
        self._retries.pop(uid, None)

    def _problems(self, worker: Worker, needs: Sequence[Need]) -> Generator[int, None, list[Problem]]:
        found, namespace = [], worker.pod["metadata"]["namespace"]
        for need in needs:
            text = problem_of(need, namespace, (yield from self._ask(worker, need)))
            if text:
                found.append((need.volume, text))
        return found

    def _ask(self, worker: Worker, need: Need) -> Generator[int, None, Reply]:
        replies: list[Reply] = []
        work, namespace = worker.work, worker.pod["metadata"]["namespace"]

        def told(reply: Reply) -> None:
            replies.append(reply)
            if work is not None:
                worker.proceed(work)

        self._agent.api.get_object(need.resource, namespace, need.name, told)
        while not replies:
            yield WAIT
        return replies[0]

    def config(self, worker: Worker, container: Obj) -> Generator[int, None, str]:
        """Why the container's environment cannot be made, or its user may not run it; "" if all is well."""
        namespace = worker.pod["metadata"]["namespace"]
        for need in variables_of(container):
            reply = yield from self._ask(worker, need)
            if problem := problem_of(need, namespace, reply):
                return problem
            if reply.ok and not need.keys and (names := invalid_names(need, reply.obj)):
                text = INVALID_NAMES.format(
                    ", ".join(names), SOURCES[need.resource], f"{namespace}/{need.name}"
                )
                self._agent.event(worker.pod, "Warning", "InvalidEnvironmentVariableNames", text)
        return root_problem(worker.pod, container)

    def mount(self, worker: Worker, needs: Sequence[Need]) -> Generator[int, None, str]:
        """Wait for what the pod's volumes are made of; returns the error if it does not come in time."""
        agent, uid, pod = self._agent, worker.uid, worker.pod
        if uid in self._mounted:
            return ""
        until_us = agent.now_us + MOUNT_WAIT_US
        due_us, delay_us = self._retries.get(uid, (agent.now_us, RETRY_US))
        problems: list[Problem] = [(need.volume, "") for need in needs]
        while due_us < until_us:
            yield max(0, due_us - agent.now_us)
            problems = yield from self._problems(worker, needs)
            if not problems:
                self._mounted[uid] = None
                self._retries.pop(uid, None)
                return ""
            for volume, text in problems:
                text = f'MountVolume.SetUp failed for volume "{volume}" : {text}'
                agent.event(pod, "Warning", "FailedMount", text)
            due_us, delay_us = agent.now_us + delay_us, min(2 * delay_us, RETRY_MAX_US)
            self._retries[uid] = due_us, delay_us
        yield max(0, until_us - agent.now_us)
        missing = " ".join(sorted({volume for volume, _ in problems}))
        volumes = " ".join(volume["name"] for volume in pod["spec"]["volumes"])
        error = (
            f"Unable to attach or mount volumes: unmounted volumes=[{missing}], unattached volumes=[{volumes}]: "
            "timed out waiting for the condition"
        )
        agent.event(pod, "Warning", "FailedMount", error)
        return error
