"""A control plane with chosen controllers and no nodes: the tests bind pods and make them ready."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from actors.apiserver.options import ApiServerOptions
from actors.apiserver.server import ApiServer
from actors.controllers.manager import controller_manager_main
from actors.controllers.shared.cloud import Cloud
from actors.controllers.shared.metrics_api import Metrics
from actors.controllers.shared.shell import RootCa, no_authority
from actors.controllers.table import LOOPS
from sim.api.store import Change
from sim.api.types import Endpoint, Obj, Reply, Request
from sim.client import Channel
from sim.options.controllers.manager import ControllerManagerOptions
from sim.options.features.gates import OF_FIELDS, enabled
from sim.units import SECOND
from tests.actor.apiserver.cluster import SCHEME, Plane, plane

POD_SPEC = {
    "containers": [{"name": "c", "image": "i:1"}],
    "schedulerName": "none",
    "terminationGracePeriodSeconds": 0,
}
OLD = "2020-01-01T00:00:00Z"


def template(app: str, **labels: str) -> Obj:
    return {"metadata": {"labels": {"app": app, **labels}}, "spec": POD_SPEC}


def workload(kind: str, name: str, **spec: Any) -> Obj:
    """A workload object that selects app=<name>."""
    base = {"selector": {"matchLabels": {"app": name}}, "template": template(name)}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": {**base, **spec}}


class PodQuota:
    """A server that rejects pods beyond a number, as the quota plugin does, and counts the
    attempts.

    It also rejects the requests given to `refuse`, and records the times of those given to `watch`.
    """

    def __init__(self, server: ApiServer, pods_max: int) -> None:
        self.name = server.name
        self.attempts: list[int] = []
        self._server = server
        self._left = pods_max
        self._refusals: dict[tuple[str, str], list[Reply]] = {}
        self._watched: dict[tuple[str, str], list[int]] = {}

    def watch(self, verb: str, resource: str) -> list[int]:
        """A list to which the times of such requests are appended from now on."""
        return self._watched.setdefault((verb, resource), [])

    def refuse_once(self, verb: str, resource: str, code: int, reason: str, message: str) -> None:
        self.refuse(1, verb, resource, code, reason, message)

    def refuse(self, times: int, verb: str, resource: str, code: int, reason: str, message: str) -> None:
        body = {"kind": "Status", "reason": reason, "message": message, "code": code}
        self._refusals[verb, resource] = [Reply(code, body=body)] * times

    def handle(self, request: Request, respond: Callable[[Reply], None]) -> None:
        subject = request.resource + (f"/{request.subresource}" if request.subresource else "")
        self._watched.get((request.verb, subject), []).append(self._server.kernel.now_us)
        refusals = self._refusals.get((request.verb, subject))
        if refusals:
            respond(refusals.pop())
            return
        if request.verb == "create" and request.resource == "pods":
            self.attempts.append(self._server.kernel.now_us)
            self._left -= 1
            if self._left < 0:
                message = 'pods "web-" is forbidden: exceeded quota: q, requested: pods=1, used: pods=10'
                respond(
                    Reply(
                        403, body={"kind": "Status", "reason": "Forbidden", "message": message, "code": 403}
                    )
                )
                return
        self._server.handle(request, respond)


class World:
    def __init__(self, control: Plane, quota: PodQuota) -> None:
        self.plane = control
        self.kernel = control.kernel
        self.quota = quota

    async def settle(self, duration_us: int = 20 * SECOND) -> None:
        await self.plane.run(duration_us)

    async def create(self, resource: str, obj: Obj, namespace: str = "default") -> Obj:
        reply = await self.plane.ask("create", resource, namespace, body=obj)
        assert reply.ok, reply.message
        return reply.obj

    async def get(self, resource: str, name: str) -> Obj:
        reply = await self.plane.ask("get", resource, "default", name)
        assert reply.ok, reply.message
        return reply.obj

    async def stored(self, resource: str, namespace: str = "default") -> list[Obj]:
        """The objects of a namespace but for those that the API servers keep of their own Service."""
        reply = await self.plane.ask("list", resource, namespace)
        assert reply.ok, reply.message
        found = [item.obj for item in reply.items or ()]
        own = SCHEME.names.apiserver_service if resource in ("endpoints", "endpointslices") else ""
        return [obj for obj in found if obj["metadata"]["name"] != own]

    async def names(self, resource: str) -> list[str]:
        return [obj["metadata"]["name"] for obj in await self.stored(resource)]

    async def patch(self, resource: str, name: str, patch: Obj, subresource: str = "") -> None:
        reply = await self.plane.ask(
            "patch",
            resource,
            "default",
            name,
            body=patch,
            subresource=subresource,
            content_type="application/merge-patch+json",
        )
        assert reply.ok, reply.message

    async def delete(self, resource: str, name: str) -> None:
        reply = await self.plane.ask("delete", resource, "default", name)
        assert reply.ok, reply.message

    async def make_ready(self, pod: str, ready: bool = True, ip: str = "") -> None:
        status: Obj = {
            "phase": "Running",
            "conditions": [
                {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": OLD}
            ],
        }
        if ip:
            status |= {"podIP": ip, "podIPs": [{"ip": ip}]}
        await self.patch("pods", pod, {"status": status}, "status")

    async def make_all_ready(self) -> None:
        for pod in await self.stored("pods"):
            if "deletionTimestamp" not in pod["metadata"]:
                await self.make_ready(pod["metadata"]["name"])

    async def events(self, name: str) -> list[tuple[str, str]]:
        """(reason, message) of the events about an object, in order."""
        found = [e for e in await self.stored("events") if e["involvedObject"]["name"] == name]
        found.sort(key=lambda e: int(e["metadata"]["resourceVersion"]))
        return [(e["reason"], e["message"]) for e in found]

    def watch_commits(self, resource: str) -> list[tuple[int, Obj]]:
        """A list to which (time, object) of creates is appended from now on."""
        seen: list[tuple[int, Obj]] = []

        def committed(change: Change) -> None:
            if change.prev is None:
                seen.append((change.at_us, change.item.obj))

        self.plane.storage.store.subscribe(SCHEME.prefix(resource), committed)
        return seen

    def watch_conditions(self, resource: str) -> list[tuple[str, str]]:
        """A list to which (reason, message) of conditions is appended from now on."""
        seen: list[tuple[str, str]] = []

        def committed(change: Change) -> None:
            conditions = change.item.obj.get("status", {}).get("conditions") or ()
            seen.extend((c.get("reason", ""), c.get("message", "")) for c in conditions)

        self.plane.storage.store.subscribe(SCHEME.prefix(resource), committed)
        return seen


@asynccontextmanager
async def world(
    loops: Sequence[str],
    pods_max: int = 100_000,
    metrics: Metrics | None = None,
    root_ca: RootCa | None = None,
    signing: Callable[[str], str] = no_authority,
    cloud: Cloud | None = None,
    **options: Any,
) -> AsyncIterator[World]:
    # The manager's own buckets are wide, so that the controllers alone decide the times.
    flags = ControllerManagerOptions(leader_elect=False, **{"api_qps": 1000.0, "api_burst": 1000, **options})
    gates = tuple(gate for gate in OF_FIELDS if enabled(flags.feature_gates, gate))
    async with plane(
        options=ApiServerOptions(disabled_admission=("ServiceAccount",), gates=gates)
    ) as control:
        quota = PodQuota(control.server, pods_max)
        servers: dict[str, Endpoint] = {quota.name: quota}
        chosen = {name: LOOPS[name] for name in loops}
        main = controller_manager_main(
            SCHEME,
            lambda ctx: [Channel(ctx, ctx.name, servers, "apiserver-0")],
            flags,
            loops=chosen,
            metrics=metrics,
            root_ca=root_ca,
            signing=signing,
            cloud=cloud,
        )
        await control.run(SECOND)
        control.supervisor.add("controller-manager-0", main)
        await control.run(2 * SECOND)
        yield World(control, quota)
