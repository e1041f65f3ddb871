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
         server accepts; a disk has the size of its claim's request.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

from actors.node.pod_work import WAIT
from actors.node.pods.ports import PodWorker
from actors.node.programs.files.errors import FileError
from actors.node.programs.files.inodes import Filesystem
from actors.node.programs.files.payloads import PayloadError, Reader, payload
from actors.node.programs.files.tree import Mount, Volume
from actors.node.programs.files.volumes import project, set_group
from actors.node.sources.environment import expanded, field_value, resource_value
from actors.node.volumes.specs import Target
from sim.api.types import Obj, Reply
from sim.units import quantity_value

if TYPE_CHECKING:
    from actors.node.runtime.pod_programs import PodPrograms

RESOURCES = (("configMap", "configmaps", "name"), ("secret", "secrets", "secretName"))
Objects = dict[tuple[str, str], Obj]


def fill(worker: PodWorker, programs: PodPrograms, wall_us: int) -> Generator[int, None, None]:
    """Make the pod's volumes, those that it does not have yet."""
    pod = worker.pod
    missing = [one for one in pod["spec"].get("volumes") or () if one["name"] not in programs.volumes]
    if not missing:
        return
    objects = yield from _read(worker, missing)
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


def _wanted(volume: Obj) -> list[tuple[str, str]]:
    """The objects of a volume: resource and name."""
    sources = [volume] if "projected" not in volume else volume["projected"].get("sources") or ()
    return [
        (resource, str(source[kind].get("name" if "projected" in volume else name) or ""))
        for source in sources
        for kind, resource, name in RESOURCES
        if kind in source
    ]


def _read(worker: PodWorker, volumes: list[Obj]) -> Generator[int, None, Objects]:
    """The objects of these volumes that exist."""
    found: Objects = {}
    work, namespace = worker.work, worker.pod["metadata"]["namespace"]
    for resource, name in dict.fromkeys(one for volume in volumes for one in _wanted(volume)):
        replies: list[Reply] = []

        def take(reply: Reply, replies: list[Reply] = replies) -> None:
            replies.append(reply)
            if work is not None:
                worker.proceed(work)

        worker.agent.api.get_object(resource, namespace, name, take)
        while not replies:
            yield WAIT
        if replies[0].ok:
            found[resource, name] = replies[0].obj
    return found


def _reader(worker: PodWorker, objects: Objects) -> Reader:
    agent, pod = worker.agent, worker.pod
    fields = agent.references.addresses(worker)
    allocatable = (agent.node.get("status") or {}).get("allocatable") or {}
    return Reader(
        lambda resource, name: objects.get((resource, name)),
        lambda path: field_value(pod, path, fields),
        lambda reference: resource_value(pod, {}, dict(reference), allocatable),
        lambda _: f"token-of-{worker.uid}",
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
    wanted = list(dict.fromkeys(one for volume in volumes for one in _wanted(volume)))
    replies: dict[tuple[str, str], Reply] = {}

    def take(key: tuple[str, str], reply: Reply) -> None:
        replies[key] = reply
        if len(replies) == len(wanted):
            done()

    def done() -> None:
        objects = {key: reply.obj for key, reply in replies.items() if reply.ok}
        for volume in volumes:
            held = programs.volumes.get(volume["name"])
            if held is not None:
                _project(held, worker, volume, objects, agent.ctx.wall_us())

    if not wanted:
        done()
    for key in wanted:
        agent.api.get_object(
            key[0],
            worker.pod["metadata"]["namespace"],
            key[1],
            lambda reply, key=key: take(key, reply),  # type: ignore[misc]
        )
    _refresh_later(worker, programs)
