"""A replica with write templates gives the objects, replies and history of one without."""

from __future__ import annotations

from typing import Any

import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.node.pods.status_manager import status_patch
from sim.api.types import Obj, Reply, Request, UserInfo
from tests.actor.apiserver.cluster import NAMES_ORCH, Plane, followed_of, plane, request

NODE = UserInfo("system:node:n", ("system:nodes",))
MANAGER = UserInfo("system:orch-controller-manager", ())
STRATEGIC = NAMES_ORCH.media_strategic_patch
OWNERS = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}]


def template(image: str, **spec: Any) -> Obj:
    container = {"name": "app", "image": image, "resources": {"requests": {"cpu": "100m"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": f"{image[0]}-", "labels": {"app": image[0]}, "ownerReferences": OWNERS},
        "spec": {"containers": [container], **spec},
    }


TEMPLATES = [
    template("a:1"),
    template("b:1", restartPolicy="Never"),
    template("c:1", priorityClassName="high"),
    template("no good"),
    {**template("d:1"), "metadata": {"generateName": "d-", "annotations": {}, "labels": {"x": "y"}}},
]
SCHEDULED = {
    "type": "PodScheduled",
    "status": "True",
    "lastProbeTime": None,
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
PHASES = ("Pending", "Running", "Succeeded", "Odd")


def conditions(number: int) -> list[Obj]:
    ready = {"type": "Ready", "status": "True" if number else "False", "lastProbeTime": None}
    gone: list[Obj] = [{"type": "Own", "status": "True"}] if number == 3 else []
    return [*gone, {"type": "Initialized", "status": "True"}, ready, SCHEDULED]


CONDITIONS = [conditions(number) for number in range(4)]


def container(number: int, pod: str) -> Obj:
    state: Obj = [{"waiting": {}}, {"running": {"startedAt": None}}, {"terminated": {"exitCode": 0}}][
        number % 3
    ]
    status: Obj = {"name": "app", "state": state, "containerID": f"c://{pod}", "restartCount": number}
    if number < 3:
        status |= {"lastState": {}, "ready": number == 1, "image": "a:1", "imageID": "a"}
    return status


def node_condition(number: int, second: int) -> Obj:
    return {
        "type": f"C{number}",
        "status": "True",
        "lastHeartbeatTime": f"2026-01-01T{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}Z",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "reason": "As it is",
    }


class Actor:
    """Does the steps on one control plane, and keeps the replies."""

    def __init__(self, plane: Plane, plans: bool) -> None:
        self.plane = plane
        self.plans = plans
        self.seen: list[Any] = []
        self.pods: list[str] = []

    async def ask(self, request: Request) -> Reply:
        server = self.plane.server
        if not self.plans:
            assert server.life is not None
            server.life.fast = server.life.fast._replace(templates=None)
        served = server.serve(request)
        assert served is not None
        reply = served[0]
        self.seen.append(
            (reply.code, reply.body, reply.item and list(reply.item.obj.items()), reply.warnings)
        )
        return reply

    async def write(
        self, verb: str, what: str, name: str = "", user: UserInfo = MANAGER, **more: Any
    ) -> Reply:
        resource, _, sub = what.partition("/")
        if verb == "patch":
            more["content_type"] = STRATEGIC
        asked = request(
            verb, resource, "default", name, subresource=sub, user=user, manager=user.name[7:11], **more
        )
        return await self.ask(asked)

    async def create(self, number: int) -> None:
        made = TEMPLATES[number % len(TEMPLATES)]
        reply = await self.write("create", "pods", body={**made, "metadata": {**made["metadata"]}})
        if reply.ok:
            self.pods.append(reply.obj["metadata"]["name"])

    def pod(self, number: int) -> Obj | None:
        if not self.pods:
            return None
        server, name = self.plane.server, self.pods[number % len(self.pods)]
        item = server.storage.store.get(server.scheme.key("pods", "default", name))
        return None if item is None else item.obj

    async def bind(self, number: int) -> None:
        pod = self.pod(number)
        if pod is not None:
            meta = pod["metadata"]
            own = {
                "namespace": "default",
                "name": meta["name"],
                "uid": meta["uid"] if number % 7 else "other",
            }
            target = {"kind": "Node", "name": f"n{number % 2}"}
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": own, "target": target}
            await self.write("create", "pods/binding", meta["name"], body=body)

    def timed(self, conditions: list[Obj], number: int) -> list[Obj]:
        """Conditions that changed now, a second ago, or at no time; or at what is no time."""
        if number % 5 == 0:
            return conditions
        now_s = self.plane.kernel.now_us // 1_000_000
        times = [f"2026-01-01T00:{at // 60 % 60:02}:{at % 60:02}Z" for at in (now_s, max(0, now_s - 1))]
        if number % 41 == 1:
            times[1] = "2026-01-01T00:61:00Z"
        return [
            {**each, "lastTransitionTime": times[(number + at) % 2]} if (number >> at) % 3 else each
            for at, each in enumerate(conditions)
        ]

    async def status(self, number: int) -> None:
        pod = self.pod(number)
        if pod is None:
            return
        meta, held = pod["metadata"], pod.get("status") or {}
        kind = number // max(len(self.pods), 8)
        wanted = {
            "conditions": self.timed(CONDITIONS[kind % 4], number),
            "phase": PHASES[kind // 2 % 4],
            "hostIP": "10.0.0.1",
        }
        if kind % 3:
            field = "initContainerStatuses" if kind % 5 == 4 else "containerStatuses"
            wanted[field] = [container(kind % 4, meta["name"])]
        if kind % 2:
            ip = f"10.1.0.{number % 256}" if kind % 11 else "nonsense"
            wanted |= {"podIP": ip, "podIPs": [{"ip": ip}]}
        patch = status_patch(held, wanted)
        uid = meta["uid"] if number % 13 else "other"
        await self.write(
            "patch", "pods/status", meta["name"], NODE, body={"metadata": {"uid": uid}, "status": patch}
        )

    async def wave(self, number: int) -> None:
        """Pods of one template, side by side."""
        had = len(self.pods)
        for _ in range(4):
            await self.create(number)
        made = range(had, len(self.pods))
        for at in made:
            await self.bind(at)
        for kind in (number, number // 3, number // 7):
            for at in made:
                await self.status(at + len(self.pods) * kind)

    async def event(self, number: int) -> None:
        about = {
            "kind": "Pod",
            "namespace": "default" if number % 9 else "x",
            "name": f"p{number}",
            "uid": "u",
        }
        if number % 7 == 5:
            about = {"kind": "Node", "name": f"n{number}", "uid": f"n{number}"}
        body = {
            "kind": "Event",
            "apiVersion": "v1",
            "metadata": {"name": f"e{number % 40}", "namespace": "default"},
            "involvedObject": about,
            "reason": "Because" if number % 5 else "",
            "message": "m" * (number % 3),
            "source": {"component": "c", "host": "h"} if number % 2 else {},
            "count": number % 2,
            "eventTime": "2026-01-01T00:00:00.000000Z" if number % 4 == 3 else None,
            "reportingComponent": "c" if number % 4 == 3 else "",
            "reportingInstance": "i" if number % 8 == 3 else "",
            "action": "A",
        }
        await self.write("create", "events", user=NODE, body=body)

    async def beat(self, number: int) -> None:
        """A node says that it is as it was, or nearly so."""
        name, server = f"n{number % 2}", self.plane.server
        item = server.storage.store.get(server.scheme.key("nodes", "", name))
        if item is None:
            made: Obj = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"a": "b"}}}
            made["status"] = {
                "capacity": {"pods": "9"},
                "conditions": [node_condition(n, 0) for n in range(3)],
            }
            await self.ask(request("create", "nodes", body=made, user=NODE, manager="node"))
            return
        held = item.obj["status"]["conditions"]
        now = node_condition(0, self.plane.kernel.now_us // 1_000_000)["lastHeartbeatTime"]
        sent = [{**condition, "lastHeartbeatTime": now} for condition in held[: 1 + number // 2 % 3]]
        if number % 13 == 5:
            sent[0]["reason"] = f"Because{number}"
        elif number % 13 == 6:
            sent[0]["type"] = "Odd"
        elif number % 13 == 7:
            sent.append(sent[0])
        elif number % 13 == 8:
            sent = [dict(reversed(list(condition.items()))) for condition in sent]
        asked = request(
            "patch", "nodes", name=name, subresource="status", body={"status": {"conditions": sent}},
            user=NODE, manager="other" if number % 17 == 9 else "node", content_type=STRATEGIC,
        )  # fmt: skip
        await self.ask(asked)

    async def look(self, number: int) -> None:
        """A node's agent reads its node, as any cache may show it."""
        how = {"resourceVersion": "1" if number % 5 == 4 else "0"}
        await self.ask(request("get", "nodes", name=f"n{number % 3}", user=NODE, options=how))

    async def disturb(self, number: int) -> None:
        """Change what admission goes by, or an object, or the replica."""
        server, pod = self.plane.server, self.pod(number)
        kind = number % 8
        if kind == 0:
            high = {
                "apiVersion": server.scheme.resource("priorityclasses").api_version,
                "kind": "PriorityClass",
            }
            high |= {"metadata": {"name": "high"}, "value": 1000, "globalDefault": number % 2 == 1}
            await self.write("create", "priorityclasses", body=high)
        elif kind == 1:
            await self.write("delete", "priorityclasses", "high")
        elif kind == 2:
            change = {"automountServiceAccountToken": number % 3 == 0}
            await self.write("patch", "serviceaccounts", "default", body=change)
        elif kind == 3:
            await self.write("delete", "serviceaccounts", "default")
        elif kind == 4:
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
            await self.write("create", "serviceaccounts", body=account)
        elif kind == 5 and pod is not None:
            await self.write(
                "patch", "pods", pod["metadata"]["name"], body={"metadata": {"labels": {"l": str(number)}}}
            )
        elif kind == 6 and pod is not None:
            await self.write("delete", "pods", pod["metadata"]["name"])
        elif kind == 7:
            self.plane.supervisor["apiserver-0"].crash()
            self.plane.supervisor["apiserver-0"].start()


Steps = list[tuple[str, int, int]]
STEPS: st.SearchStrategy[Steps] = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "create",
                "create",
                "bind",
                "bind",
                "status",
                "status",
                "wave",
                "event",
                "disturb",
                "beat",
                "beat",
                "beat",
                "look",
                "look",
            ]
        ),
        st.integers(0, 400),
        st.sampled_from([0, 0, 0, 0, 400_000, 3_000_000]),
    ),
    max_size=60,
)


async def history(steps: Steps, plans: bool) -> list[Any]:
    async with plane() as p:
        actor = Actor(p, plans)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
        await actor.ask(request("create", "namespaces", body=namespace, user=MANAGER))
        await actor.disturb(4)
        for what, number, wait_us in steps:
            await p.run(wait_us)
            await getattr(actor, what)(number)
        changes = p.storage.store.events(0, "")
        assert isinstance(changes, list)
        for c in changes:
            parts = [
                (name, list(part.items()) if name in ("metadata", "status") else part)
                for name, part in c.item.obj.items()
            ]
            actor.seen.append((c.rev, c.item.key, c.deleted, parts, c.item.managed, c.at_us, c.cause))
        actor.seen.append(p.kernel.trace.sha256())
        return actor.seen


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_write_templates_have_no_observable_effect(steps: Steps) -> None:
    assert trio.run(history, steps, True) == trio.run(history, steps, False)


def test_similar_requests_take_a_write_template() -> None:
    async def main() -> None:
        async with plane() as p:
            actor = Actor(p, True)
            await actor.disturb(4)
            for number in range(3):
                await actor.create(0)
                await actor.bind(number * 2 + 2)
            before = followed_of(p.server)
            await actor.create(0)
            await actor.event(1)
            await actor.event(13)
            assert followed_of(p.server) == before + 2
            # one makes the node, one is the first to own the times, one is learned from
            for _ in range(5):
                await p.run(2_000_000)
                await actor.beat(0)
            assert followed_of(p.server) == before + 4
            await actor.look(0)
            await actor.look(2)  # there is none
            assert followed_of(p.server) == before + 5

    trio.run(main)


def test_patch_of_conditions_takes_its_template_at_another_time_too() -> None:
    async def main() -> None:
        async with plane() as p:
            actor = Actor(p, True)
            await actor.disturb(4)
            followed = []
            for _ in range(2):
                await p.run(2_000_000)
                await actor.create(0)
                await actor.bind(137)
                before = followed_of(p.server)
                await actor.status(147)  # the newest
                followed.append(followed_of(p.server) - before)
            assert followed == [0, 1]

    trio.run(main)
