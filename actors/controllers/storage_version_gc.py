"""Storage-version-gc: removes API servers that are gone from StorageVersions.

Turns deleted identity leases, and StorageVersions that name servers without one, into writes.

Holds: a StorageVersion that no server is left in is deleted.

Mirrors  kubernetes v1.25 pkg/controller/storageversiongc/gc_controller.go.
"""

from __future__ import annotations

from actors.controllers.shared.shell import Env, run_workers
from sim.api.kinds.apiserverinternal.encodings import without_servers
from sim.api.objects import labels_of, name_of
from sim.api.types import Obj
from sim.units import format_time

NAME = "storage-version-gc"
CLIENT = "storage-version-garbage-collector"
LEASES, VERSIONS = "leases", "storageversions"


async def start(env: Env) -> None:
    """Run the controller until its process ends."""
    await StorageVersionGC(env).run()


class StorageVersionGC:
    """Shell of the controller: one worker for leases, and one for StorageVersions."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._client = env.client(CLIENT)
        self._leases = env.informers[LEASES]
        self._versions = env.informers[VERSIONS]
        self._gone = env.queue("storage_version_garbage_collector_leases")
        self._doubtful = env.queue("storage_version_garbage_collector_storageversions")

    async def run(self) -> None:
        """Start the handlers and the workers."""
        self._leases.on(delete=self._lease_deleted)
        self._versions.on(add=self._look, update=lambda _, new: self._look(new))
        await self._env.informers.start_and_sync()
        run_workers(self._env, self._gone, self._sync_lease, 1)
        run_workers(self._env, self._doubtful, self._sync_version, 1)

    def _is_of_server(self, lease: Obj | None) -> bool:
        names = self._env.names
        component = None if lease is None else labels_of(lease).get(names.label_component)
        return component == names.component("apiserver")

    def _lease_deleted(self, lease: Obj) -> None:
        if lease["metadata"]["namespace"] == self._env.names.system_namespace and self._is_of_server(lease):
            self._gone.add(name_of(lease))

    def _look(self, version: Obj) -> None:
        """Queue a StorageVersion that names a server without a lease."""
        namespace = self._env.names.system_namespace
        if not all(self._is_of_server(self._leases.get(f"{namespace}/{each}")) for each in _servers(version)):
            self._doubtful.add(name_of(version))

    async def _sync_lease(self, name: str) -> str | None:
        live = await self._client.get(LEASES, self._env.names.system_namespace, name)
        if live.ok or live.reason != "NotFound":
            return None if live.ok else live.message
        listed = await self._client.list(VERSIONS)
        if not listed.ok:
            return listed.message
        errors = []
        for item in listed.items or ():
            if name in _servers(item.obj):
                error = await self._remove(item.obj, (name,))
                errors += [error] if error else []
        return ", ".join(errors) or None

    async def _sync_version(self, name: str) -> str | None:
        live = await self._client.get(VERSIONS, "", name)
        if not live.ok:
            return None if live.reason == "NotFound" else live.message
        gone = []
        for server in _servers(live.obj):
            lease = await self._client.get(LEASES, self._env.names.system_namespace, server)
            if not lease.ok or not self._is_of_server(lease.obj):
                gone.append(server)
        return await self._remove(live.obj, tuple(gone)) if gone else None

    async def _remove(self, version: Obj, servers: tuple[str, ...]) -> str | None:
        """Remove servers from a StorageVersion."""
        new = without_servers(version, servers, format_time(self._env.ctx.wall_us()))
        if new is None:
            reply = await self._client.delete(VERSIONS, "", name_of(version))
        else:
            reply = await self._client.update(VERSIONS, new, subresource="status")
        return None if reply.ok else reply.message


def _servers(version: Obj) -> list[str]:
    listed = (version.get("status") or {}).get("storageVersions") or ()
    return [each["apiServerID"] for each in listed]
