"""The ConfigMaps and Secrets that a pod's volumes and variables are made of: whether they exist.

Turns a pod's spec into the objects that must exist (`volumes_of`, `variables_of`), and the API's
answers into reasons why the pod does not have its volumes yet, or a container its environment.

Holds: a pod that refers to no such object reads nothing.

Mirrors  pkg/kubelet/volumemanager/volume_manager.go: WaitForAttachAndMount;
         pkg/volume/{configmap,secret}; pkg/util/goroutinemap/exponentialbackoff;
         pkg/kubelet/kubelet_pods.go: makeEnvironmentVariables (v1.25).
Differs  objects are read when needed (upstream watches them while pods refer to them); the volume
         by which every pod gets its access to the API counts as complete; the volumes of a pod are
         retried together, while its sync waits for them, and a mount takes no time.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

from actors.node.pod_spec import root_problem
from actors.node.runtime.call_deadlines import read_object
from actors.node.runtime.ports import Agent, NodePod
from actors.node.sources.environment import Facts, environment, is_variable
from actors.node.sources.mount_paths import expands_paths, path_problem
from actors.node.sources.services import Services
from sim.api.types import NOT_FOUND, Obj, Reply
from sim.dataclass import dataclass
from sim.units import MS, SECOND

Problem = tuple[str, str]  # volume ("" for a variable), and what is wrong with it

MOUNT_WAIT_US = 123 * SECOND  # volume_manager.go: podAttachAndMountTimeout
RETRY_US = 500 * MS  # exponential_backoff.go: initialDurationBeforeRetry, doubling
RETRY_MAX_US = 122 * SECOND  # exponential_backoff.go: maxDurationBeforeRetry
API_ACCESS = "-api-access-"  # in the names of volumes that admission adds to pods
KINDS = {"configmaps": "ConfigMap", "secrets": "Secret"}
# as kubelet_pods.go names them in its warning
SOURCES = {"configmaps": "configMap", "secrets": "secret"}
INVALID_NAMES = "Keys [{}] from the EnvFrom {} {} were skipped since they are considered invalid environment variable names."


@dataclass(frozen=True, slots=True)
class Need:
    """An object that must exist, with these keys in it.

    volume: the volume that is made of it; "" for a variable
    keys: none of a variable means all keys of the object, their names after `prefix`
    optional: the object, or a key, may be absent, but the API has to confirm it
    """

    resource: str
    name: str
    keys: tuple[str, ...] = ()
    volume: str = ""
    optional: bool = False
    prefix: str = ""


def volumes_of(spec: Obj) -> list[Need]:
    """The objects of the volumes that containers mount."""
    found = []
    for volume in spec.get("volumes") or ():
        projected = volume.get("projected")
        if projected is None:
            found += _needs(volume, "secretName", volume["name"])
        elif API_ACCESS not in volume["name"]:
            for source in projected.get("sources") or ():
                found += _needs(source, "name", volume["name"])
    if not found:
        return found
    containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
    mounted = {mount["name"] for c in containers for mount in c.get("volumeMounts") or ()}
    return [need for need in found if need.volume in mounted]


def _needs(sources: Obj, secret_name: str, volume: str) -> list[Need]:
    """The object of a volume, or of one source of a projected volume."""
    found = []
    for source, resource, name in (
        ("configMap", "configmaps", "name"),
        ("secret", "secrets", secret_name),
    ):
        reference = sources.get(source)
        if reference is not None and not reference.get("optional"):
            keys = tuple(item["key"] for item in reference.get("items") or ())
            found.append(Need(resource, reference.get(name, ""), keys, volume))
    return found


def variables_of(container: Obj) -> list[Need]:
    """The objects of a container's environment, in the order in which it is made."""
    found = []
    for source in container.get("envFrom") or ():
        for part, resource in (("configMapRef", "configmaps"), ("secretRef", "secrets")):
            reference = source.get(part)
            if reference is not None:
                prefix, optional = source.get("prefix", ""), bool(reference.get("optional"))
                found.append(Need(resource, reference.get("name", ""), optional=optional, prefix=prefix))
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        for part, resource in (("configMapKeyRef", "configmaps"), ("secretKeyRef", "secrets")):
            reference = source.get(part)
            if reference is not None:
                optional = bool(reference.get("optional"))
                found.append(
                    Need(resource, reference.get("name", ""), (reference["key"],), optional=optional)
                )
    return found


def problem_of(need: Need, namespace: str, reply: Reply) -> str:
    """What is wrong with an object, given the API's answer; "" if nothing is."""
    kind = KINDS[need.resource]
    if reply.code == NOT_FOUND:
        return "" if need.optional else f'{kind.lower()} "{need.name}" not found'
    if not reply.ok:
        return f"failed to sync {kind.lower()} cache: timed out waiting for the condition"
    data = reply.obj.get("data") or {}
    held = {**(reply.obj.get("binaryData") or {}), **data} if need.volume else data
    missing_keys = [key for key in need.keys if key not in held]
    if not missing_keys or need.optional:
        return ""
    if not need.volume:
        return f"couldn't find key {missing_keys[0]} in {kind} {namespace}/{need.name}"
    prefix = (
        "configmap references non-existent config"
        if kind == "ConfigMap"
        else "references non-existent secret"
    )
    return f"{prefix} key: {missing_keys[0]}"


def invalid_names(need: Need, obj: Obj) -> list[str]:
    """The invalid names among the variables of a whole object."""
    names = [need.prefix + key for key in obj.get("data") or ()]
    return sorted(name for name in names if not is_variable(name))


def _by_volume(problems: Sequence[Problem]) -> list[Problem]:
    """The problems of each volume as one text; several are a list in brackets."""
    found: dict[str, dict[str, None]] = {}
    for volume, text in problems:
        found.setdefault(volume, {})[text] = None
    return [
        (volume, next(iter(texts)) if len(texts) == 1 else f"[{', '.join(texts)}]")
        for volume, texts in found.items()
    ]


class References:
    """The mounted volumes of one agent incarnation, and the retries of those that are missing.

    _mounted: uids of pods with mounted volumes
    _retries: uid -> when the pod's volumes are tried again, and the delay after that
    """

    __slots__ = ("_agent", "_mounted", "_retries", "_services")

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._mounted: dict[str, None] = {}
        self._retries: dict[str, tuple[int, int]] = {}
        self._services = Services(agent)

    def forget(self, uid: str) -> None:
        """Drop the records of a pod that no longer exists."""
        self._mounted.pop(uid, None)
        self._retries.pop(uid, None)

    def _problems(self, worker: NodePod, needs: Sequence[Need]) -> Generator[int, None, list[Problem]]:
        found, namespace = [], worker.pod["metadata"]["namespace"]
        for need in needs:
            text = problem_of(
                need, namespace, (yield from read_object(self._agent, worker, need.resource, need.name))
            )
            if text:
                found.append((need.volume, text))
        return found

    def config(
        self, worker: NodePod, container: Obj, *, runs: bool = False
    ) -> Generator[int, None, tuple[str, Mapping[str, str]]]:
        """Why the container's environment or its mounts cannot be made, or its user may not run it.

        Returns "" if nothing is wrong, and the container's variables, which are made only if they
        are needed.

        runs: True if a program of the container uses them
        """
        namespace = worker.pod["metadata"]["namespace"]
        objects: dict[tuple[str, str], Obj] = {}
        for need in variables_of(container):
            reply = yield from read_object(self._agent, worker, need.resource, need.name)
            if problem := problem_of(need, namespace, reply):
                return problem, {}
            if reply.ok:
                objects[need.resource, need.name] = reply.obj
            if reply.ok and not need.keys and (names := invalid_names(need, reply.obj)):
                text = INVALID_NAMES.format(
                    ", ".join(names), SOURCES[need.resource], f"{namespace}/{need.name}"
                )
                self._agent.event(worker.pod, "Warning", "InvalidEnvironmentVariableNames", text)
        variables: Mapping[str, str] = {}
        if runs or expands_paths(container):
            services = (yield from self._services.variables(worker)) if runs else {}
            allocatable = (self._agent.node.get("status") or {}).get("allocatable") or {}
            facts = Facts(self.addresses(worker), allocatable, services)
            variables = environment(worker.pod, container, objects, facts)
            if problem := path_problem(container, variables):
                return problem, variables
        return root_problem(worker.pod, container), variables

    def addresses(self, worker: NodePod) -> Mapping[str, str]:
        """The addresses of a pod and of the node, by the paths of their fields."""
        runtime, host_ips = self._agent.machine.pods.get(worker.uid), self._agent.host_ips
        ip = runtime.ip if runtime is not None else ""
        ips = ",".join(host_ips) if ip and worker.pod["spec"].get("hostNetwork") else ip
        return {"status.podIP": ip, "status.podIPs": ips, "status.hostIP": host_ips[0]}

    def mount(self, worker: NodePod, needs: Sequence[Need]) -> Generator[int, None, str]:
        """Wait for the objects of the pod's volumes.

        Returns the error if they do not appear in time, else "".
        """
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
            for volume, text in _by_volume(problems):
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
