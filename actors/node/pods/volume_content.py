"""What the volumes of a pod with simulated programs hold, and where its containers mount them.

Turns the volumes of a pod, the objects that they are made of and the disks of claims into
`files.Volume`s, which all its containers share, and brings objects that have changed into them.

Holds: a pod without processes has no content, and reads nothing for it; the data of a claim belong
       to its persistent volume, so that they outlive pods and are on each node that mounts it; an
       update is seen as a whole.

Mirrors  pkg/volume/{configmap,secret,downwardapi,projected,emptydir,hostpath}; pkg/kubelet/
         kubelet_pods.go: makeMounts; pkg/volumemanager: a mounted volume of an object is set up
         again when its pod is synced, every 60 to 90 s (v1.25).
Differs  the objects are read at that time, where upstream watches them; a token is a text that no
         server accepts, unless the agent is a process of its own or the cluster has podTokens; a
         disk has the size of its claim's request.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.node.clients import account_of
from actors.node.pod_work import WAIT
from actors.node.pods.ports import PodWorker
from actors.node.programs.files.errors import FileError
from actors.node.programs.files.inodes import Filesystem
from actors.node.programs.files.payloads import PayloadError, Reader, payload
from actors.node.programs.files.tree import Mount, Volume
from actors.node.programs.files.volumes import project, set_group
from actors.node.sources.environment import expanded, field_value, resource_value
from actors.node.volumes.specs import Target
from sim.api.auth.account_tokens import EXTENDED_EXPIRATION_S, LEEWAY_S, WARN_ONLY_EXPIRATION_S
from sim.api.types import Obj, Reply
from sim.units import SECOND, Virtual, quantity_value

if TYPE_CHECKING:
    from actors.node.runtime.pod_programs import PodPrograms, PodToken

RESOURCES = (("configMap", "configmaps", "name"), ("secret", "secrets", "secretName"))
TOKEN = "token"  # in the place of a resource
Objects = dict[tuple[str, str], Obj]


def fill(worker: PodWorker, programs: PodPrograms, wall_us: int) -> Generator[int, None, None]:
    """Make the pod's volumes, those that it does not have yet."""
    pod = worker.pod
    missing = [one for one in pod["spec"].get("volumes") or () if one["name"] not in programs.volumes]
    if not missing:
        return
    objects = yield from _read(worker, programs, missing)
    for volume in missing:
        made = _made(worker, volume, objects, wall_us)
        if made is not None:
            programs.volumes.setdefault(volume["name"], made)
    keep_fresh(worker, programs)


def keep_fresh(worker: PodWorker, programs: PodPrograms) -> None:
    """Bring changes into the volumes from now on, also those that an earlier agent has made."""
    if programs.refresher is worker:
        return
    programs.refresher = worker
    if programs.volumes and any(_is_projected(one) for one in worker.pod["spec"].get("volumes") or ()):
        _refresh_later(worker, programs)


def mounts_of(
    worker: PodWorker, spec: Obj, programs: PodPrograms, variables: Mapping[str, str], wall_us: int
) -> list[Mount]:
    """The mounts of a container."""
    found = []
    volumes = {volume["name"]: volume for volume in worker.pod["spec"].get("volumes") or ()}
    for mount in spec.get("volumeMounts") or ():
        held = programs.volumes.get(mount["name"])
        if held is None:
            continue
        part = mount.get("subPath") or expanded(mount.get("subPathExpr") or "", variables.get)
        try:
            inode = held.part(part, wall_us) if part else held.root
        except FileError:
            continue
        volume = volumes[mount["name"]]
        claim = volume.get("persistentVolumeClaim") or {}
        read_only = bool(mount.get("readOnly") or claim.get("readOnly") or _is_projected(volume))
        found.append(Mount("/" + mount["mountPath"].strip("/"), inode, read_only))
    return found


def _is_projected(volume: Obj) -> bool:
    """True if a volume is made of objects and fields."""
    return any(kind in volume for kind in ("configMap", "secret", "downwardAPI", "projected"))


# --- objects --------------------------------------------------------------------------------------


def _wanted(worker: PodWorker, programs: PodPrograms, volume: Obj) -> list[tuple[str, str]]:
    """The objects of a volume: resource and name; and its tokens, those that need renewal."""
    sources = [volume] if "projected" not in volume else volume["projected"].get("sources") or ()
    tokens = [
        _token_key(source["serviceAccountToken"]) for source in sources if "serviceAccountToken" in source
    ]
    now_us = worker.agent.ctx.kernel.now_us
    has_tokens, current = worker.agent.clients.has_tokens, programs.tokens
    due = [
        (TOKEN, key)
        for key in tokens
        if has_tokens and (key not in current or now_us >= current[key].renewed_us)
    ]
    return due + [
        (resource, str(source[kind].get("name" if "projected" in volume else name) or ""))
        for source in sources
        for kind, resource, name in RESOURCES
        if kind in source
    ]


def _token_key(source: Mapping[str, Any]) -> str:
    """What a token depends on."""
    return f"{source.get('expirationSeconds', 3600)} {source.get('audience') or ''}"


def _ask(worker: PodWorker, wanted: tuple[str, str], take: Callable[[Reply], None]) -> None:
    """Ask for an object, or for a token."""
    agent, pod, (resource, name) = worker.agent, worker.pod, wanted
    if resource != TOKEN:
        agent.api.get_object(resource, pod["metadata"]["namespace"], name, take)
        return
    seconds, _, audience = name.partition(" ")
    source = {"expirationSeconds": int(seconds), "audience": audience}
    agent.api.create_token(pod, account_of(pod), source, take)


def _keep(worker: PodWorker, programs: PodPrograms, wanted: tuple[str, str], reply: Reply) -> Objects:
    """What a reply gives.

    Mirrors  pkg/kubelet/token/token_manager.go: requiresRefresh (a fifth of the time is left).
    """
    if not reply.ok:
        return {}
    if wanted[0] == TOKEN:
        from actors.node.runtime.pod_programs import PodToken  # it is there if the pod has programs

        now_us, lifetime_s = worker.agent.ctx.kernel.now_us, int(wanted[1].partition(" ")[0])
        extends = worker.agent.clients.extends_tokens and lifetime_s == WARN_ONLY_EXPIRATION_S
        valid_s = (EXTENDED_EXPIRATION_S if extends else lifetime_s) + LEEWAY_S
        programs.tokens[wanted[1]] = PodToken(
            str(reply.body["status"]["token"]),
            Virtual(now_us + lifetime_s * 8 // 10 * SECOND),
            Virtual(now_us + valid_s * SECOND),
        )
        return {}
    return {wanted: reply.obj}


def is_unauthorized(worker: PodWorker, programs: PodPrograms) -> bool:
    """True if servers do not accept the pod's token any more."""
    tokens = [token for key, token in programs.tokens.items() if not key.partition(" ")[2]]
    return bool(tokens) and worker.agent.ctx.kernel.now_us > max(token.end_us for token in tokens)


def _read(worker: PodWorker, programs: PodPrograms, volumes: list[Obj]) -> Generator[int, None, Objects]:
    """The objects of these volumes that exist."""
    found: Objects = {}
    work = worker.work
    for wanted in dict.fromkeys(one for volume in volumes for one in _wanted(worker, programs, volume)):
        replies: list[Reply] = []

        def take(reply: Reply, replies: list[Reply] = replies) -> None:
            replies.append(reply)
            if work is not None:
                worker.proceed(work)

        _ask(worker, wanted, take)
        while not replies:
            yield WAIT
        found |= _keep(worker, programs, wanted, replies[0])
    return found


def _reader(worker: PodWorker, objects: Objects) -> Reader:
    agent, pod = worker.agent, worker.pod
    fields = agent.references.addresses(worker)
    allocatable = (agent.node.get("status") or {}).get("allocatable") or {}
    programs = agent.machine.programs.get(worker.uid)
    tokens: Mapping[str, PodToken] = {} if programs is None else programs.tokens
    return Reader(
        lambda resource, name: objects.get((resource, name)),
        lambda path: field_value(pod, path, fields),
        lambda reference: resource_value(pod, {}, dict(reference), allocatable),
        lambda source: next(
            (token.text for key, token in tokens.items() if key == _token_key(source)),
            f"token-of-{worker.uid}",
        ),
    )


# --- volumes --------------------------------------------------------------------------------------


def _made(worker: PodWorker, volume: Obj, objects: Objects, wall_us: int) -> Volume | None:
    """A volume of the pod; None for a device, and for what cannot be made."""
    agent, pod = worker.agent, worker.pod
    group = (pod["spec"].get("securityContext") or {}).get("fsGroup")
    if _is_projected(volume):
        made = Volume(Filesystem("tmpfs", source="tmpfs"), 0o777, wall_us)
        _project(made, worker, volume, objects, wall_us)
        return made
    if "emptyDir" in volume:
        given = volume["emptyDir"] or {}
        in_memory = given.get("medium") == "Memory"
        limit = _memory_limit(worker, given) if in_memory else 100 << 30
        kind = ("tmpfs", "tmpfs") if in_memory else ("ext4", "/dev/sda1")
        made = Volume(Filesystem(kind[0], source=kind[1], bytes_max=limit), 0o777, wall_us)
        programs = agent.machine.programs.get(worker.uid)
        if programs is not None:
            programs.local.add(volume["name"])
        set_group(made, group, read_only=False)
        return made
    if "hostPath" in volume:
        held = agent.machine.host_files.volumes
        path = str(volume["hostPath"].get("path"))
        on_host: Volume = held.setdefault(path, Volume(Filesystem(), 0o755, wall_us))
        return on_host
    target = agent.volumes.target(worker.uid, volume["name"])
    if target is None or target.is_block:
        return None
    made = _disk(agent.machine.disks, target, wall_us)
    if target.fs_group:
        set_group(made, group, read_only=target.read_only)
    return made


def _memory_limit(worker: PodWorker, given: Obj) -> int:
    """The size of an emptyDir in memory (emptydir/empty_dir.go: calculateEmptyDirMemorySize)."""
    spec = worker.pod["spec"]
    kinds = ("containers", "initContainers")
    limits = [
        [
            str(((one.get("resources") or {}).get("limits") or {}).get("memory", "0"))
            for one in spec.get(kind) or ()
        ]
        for kind in kinds
    ]
    sizes = [[quantity_value(text) for text in texts] for texts in limits]
    whole = quantity_value(str(worker.agent.spec.capacity.get("memory", "0")))
    if all(size for kind in sizes for size in kind):
        whole = min(whole, max(sum(sizes[0]), *sizes[1], 0))
    wanted = quantity_value(str(given.get("sizeLimit") or "0"))
    return wanted if 0 < wanted <= whole else whole


def _disk(disks: dict[str, Any], target: Target, wall_us: int) -> Volume:
    """The files of a disk; those of a volume of the pod itself are new."""
    disk = target.disk
    uid = "" if disk is None else disk["metadata"]["uid"]
    size = "100Gi" if disk is None else str((disk["spec"].get("capacity") or {}).get("storage") or "100Gi")
    made = Volume(Filesystem(source=f"/dev/{target.title}", bytes_max=quantity_value(size)), 0o755, wall_us)
    held: Volume = disks.setdefault(uid, made) if uid else made
    return held


def _project(made: Volume, worker: PodWorker, volume: Obj, objects: Objects, wall_us: int) -> None:
    group = (worker.pod["spec"].get("securityContext") or {}).get("fsGroup")
    try:
        files = payload(volume, worker.pod, _reader(worker, objects))
        if files is not None and project(made, files, wall_us):
            set_group(made, group, read_only=True)
    except (PayloadError, FileError):
        pass  # the old content stays; what is missing was reported when the volume was mounted


# --- changes --------------------------------------------------------------------------------------


def _refresh_later(worker: PodWorker, programs: PodPrograms) -> None:
    agent = worker.agent
    at_us = agent.resync_after(agent.options.sync_frequency_us)
    agent.ctx.call_at_us(at_us, lambda _: _refresh(worker, programs))


def _refresh(worker: PodWorker, programs: PodPrograms) -> None:
    """Read the objects again, and let the volumes have what they hold now."""
    agent = worker.agent
    if not worker.wanted or agent.machine.programs.get(worker.uid) is not programs:
        return
    volumes = [one for one in worker.pod["spec"].get("volumes") or () if _is_projected(one)]
    wanted = list(dict.fromkeys(one for volume in volumes for one in _wanted(worker, programs, volume)))
    replies: dict[tuple[str, str], Reply] = {}

    def take(key: tuple[str, str], reply: Reply) -> None:
        replies[key] = reply
        if len(replies) == len(wanted):
            done()

    def done() -> None:
        objects: Objects = {}
        for key, reply in replies.items():
            objects |= _keep(worker, programs, key, reply)
        for volume in volumes:
            held = programs.volumes.get(volume["name"])
            if held is not None:
                _project(held, worker, volume, objects, agent.ctx.wall_us())

    if not wanted:
        done()
    for key in wanted:
        _ask(worker, key, partial(take, key))
    _refresh_later(worker, programs)
