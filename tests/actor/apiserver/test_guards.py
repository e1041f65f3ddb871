"""Each clause of the guards of write templates and of the lease fast path has a test here that
fails without it.

A guard excludes a request from the fast path if the fast path would serve it differently from the
ordinary path. Each test sends one such request to a replica that has learned from requests of its
shape, and to one without fast paths.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any

import pytest
import trio

from actors.apiserver.authorization import Authorization
from actors.apiserver.options import ApiServerOptions
from sim.api.auth.chain import Chain
from sim.api.types import Obj, Reply, Request, UserInfo
from sim.kernel.fast import FAST, PLAIN, FastPaths
from tests.actor.apiserver.cluster import ADMIN, NAMES_ORCH, Plane, lease, plane, request

OPTIONS = ApiServerOptions(disabled_admission=("ServiceAccount",))
NODE = UserInfo("system:node:n", ("system:nodes",))
MANAGER = UserInfo("system:orch-controller-manager", ())
STRATEGIC = NAMES_ORCH.media_strategic_patch
MERGE = "application/merge-patch+json"
SPEC: Obj = {"containers": [{"name": "app", "image": "a:1"}]}
LABELS: Obj = {"app": "a"}
OWNERS: list[Obj] = [
    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
]
CONDITIONS: list[Obj] = [{"type": "Ready", "status": "False"}, {"type": "Initialized", "status": "True"}]
FIRST: Obj = {"conditions": CONDITIONS, "hostIP": "10.0.0.1"}
LATER: list[Obj] = [{"type": "Ready", "status": "True"}]
CONTAINER: Obj = {
    "name": "app", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, "lastState": {}, "ready": True, "restartCount": 0,
    "image": "a:1", "imageID": "a", "containerID": "c://a", "started": True,
}  # fmt: skip
Ask = Callable[[Request], Reply]


class Server:
    """One replica; `ask` has it serve a request at once, and keeps what anyone can see of the
    reply.
    """

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.seen: list[Any] = []
        self.namespace = "default"  # of the pods

    def ask(self, asked: Request) -> Reply:
        try:
            served = self.plane.server.serve(asked)
        except (AttributeError, TypeError, ValueError) as error:  # as a panic of the ordinary path
            self.seen.append(type(error).__name__)
            return Reply(500)
        assert served is not None
        reply = served[0]
        self.seen.append((reply.code, reply.body, reply.item and [*reply.item.obj.items()], reply.warnings))
        return reply

    @property
    def followed(self) -> int:
        """How many requests write templates have served."""
        life = self.plane.server.life
        templates = None if life is None else life.fast.templates
        return 0 if templates is None else templates.followed

    def stored(self, key: str) -> Obj:
        """An object in its stored form."""
        item = self.plane.storage.store.get(key)
        assert item is not None
        return item.obj

    # --- requests ---------------------------------------------------------------------------------

    def create_pod(self, user: UserInfo = MANAGER, **more: Any) -> Obj:
        """A pod of one template; `more`: other members of the body."""
        metadata = {"generateName": "a-", "labels": LABELS, "ownerReferences": OWNERS}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": SPEC, **more}
        reply = self.ask(request("create", "pods", self.namespace, body=body, user=user, manager="m"))
        return reply.obj if reply.ok else {}

    def bind(
        self, pod: Obj, node: str = "n", user: UserInfo = MANAGER, body: Obj | None = None, **own: Any
    ) -> Reply:
        """Bind a pod; `body`, `own`: what takes the place of the members of the Binding and of its
        metadata.
        """
        meta = pod["metadata"]
        own = {"namespace": self.namespace, "name": meta["name"], "uid": meta["uid"], **own}
        own = {name: value for name, value in own.items() if value is not None}
        target = {"kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": own, "target": target, **(body or {})}
        asked = request(
            "create", "pods", self.namespace, meta["name"], subresource="binding", body=binding, user=user
        )
        return self.ask(asked)

    def status(
        self,
        pod: Obj,
        patch: Obj,
        kind: str = STRATEGIC,
        user: UserInfo = NODE,
        body: Any = None,
        **meta: Any,
    ) -> Reply:
        """Patch a pod's status; `body`: the whole patch; `meta`: what takes the place of its
        metadata.
        """
        own = {"uid": pod["metadata"]["uid"], **meta}
        body = body or {"metadata": own, "status": patch}
        name = pod["metadata"]["name"]
        return self.ask(
            request(
                "patch", "pods", "default", name, subresource="status", body=body, content_type=kind, user=user,
                manager="agent",
            )
        )  # fmt: skip

    def event(self, name: str, user: UserInfo = NODE, namespace: str = "default", **more: Any) -> Reply:
        """Create an event; `more`: what takes the place of its members."""
        body = {
            "kind": "Event", "apiVersion": "v1", "metadata": {"name": name, "namespace": "default"},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p", "uid": "u"}, "reason": "Because",
            "message": "m", "source": {"component": "c"}, "count": 1, "type": "Normal", "eventTime": None,
            "reportingComponent": "", "reportingInstance": "", **more,
        }  # fmt: skip
        return self.ask(request("create", "events", namespace, body=body, user=user, manager="c"))

    def patch_meta(self, pod: Obj, patch: Obj) -> None:
        """Let an administrator change a pod."""
        name = pod["metadata"]["name"]
        self.ask(request("patch", "pods", "default", name, body=patch, content_type=MERGE, user=ADMIN))

    def quota(self) -> None:
        """Let an administrator limit the namespace, which admission reads."""
        body = {
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}},
        }  # fmt: skip
        self.ask(request("create", "resourcequotas", "default", body=body, user=ADMIN))

    def delete(self, pod: Obj) -> None:
        """Begin to delete a pod gracefully."""
        self.ask(request("delete", "pods", "default", pod["metadata"]["name"], user=ADMIN))


async def begin(p: Plane) -> Server:
    """A replica with a namespace that has served each kind of request twice, so that it has learned
    from it.
    """
    server = Server(p)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    server.ask(request("create", "namespaces", body=namespace, user=MANAGER))
    for number in range(5):
        pod = server.create_pod()
        server.bind(pod)
        bound = server.stored(f"//pods/default/{pod['metadata']['name']}")
        server.status(bound, FIRST)
        server.status(bound, {"conditions": LATER, "phase": "Running", "containerStatuses": [CONTAINER]})
        server.event(f"learned-{number}")
    return server


Odd = Callable[[Server], object]


def test_even_requests_are_served_by_template() -> None:
    async def main() -> None:
        async with plane(options=OPTIONS) as p:
            server = await begin(p)
            before = server.followed
            pod = server.create_pod()
            assert server.followed == before + 1
            server.bind(pod)
            assert server.followed == before + 2
            server.status(pod, FIRST)
            assert server.followed == before + 3
            server.status(pod, RUNNING)
            assert server.followed == before + 4
            server.event("even")
            assert server.followed == before + 5

    trio.run(main)


async def outcome(fast: FastPaths, odd: Odd) -> tuple[list[Any], int]:
    """What can be seen of a run with an odd request, and how many of the requests before it a
    template served.
    """
    async with plane(options=OPTIONS, fast=fast) as p:
        server = await begin(p)
        learned = server.followed
        odd(server)
        server.create_pod()
        changes = p.storage.store.events(0, "")
        assert isinstance(changes, list)
        for change in changes:
            item = change.item
            server.seen.append((change.rev, item.key, change.deleted, [*item.obj.items()], item.managed))
        return [*server.seen, p.kernel.trace.sha256()], learned


def check(odd: Odd) -> None:
    """The odd request has the same effect with templates and without."""
    fast, learned = trio.run(outcome, FAST, odd)
    assert learned >= 6
    assert fast == plain_outcome(odd)


@cache
def plain_outcome(odd: Odd) -> list[Any]:
    """As `outcome` without fast paths: computed once, although `tests.bench.mutants` runs these
    tests again and again.
    """
    return trio.run(outcome, PLAIN, odd)[0]


def new(server: Server, bound: bool = True, conditions: bool = True) -> Obj:
    """A pod of the template, bound and with conditions by default."""
    pod = server.create_pod()
    if bound:
        server.bind(pod)
    if bound and conditions:
        server.status(pod, FIRST)
    return server.stored(f"//pods/default/{pod['metadata']['name']}")


def identity(pod: Obj) -> Obj:
    """The part of a patch that names the pod's uid."""
    return {"metadata": {"uid": pod["metadata"]["uid"]}}


def unconditioned(server: Server) -> Obj:
    """A bound pod without conditions."""
    pod = new(server, conditions=False)
    server.status(pod, {"conditions": None}, kind=MERGE, user=ADMIN)
    return server.stored(f"//pods/default/{pod['metadata']['name']}")


def without_status(server: Server, bound: bool = True) -> Obj:
    """A pod without status."""
    pod = new(server, bound)
    server.status(pod, {}, kind=MERGE, user=ADMIN, body={**identity(pod), "status": None})
    return server.stored(f"//pods/default/{pod['metadata']['name']}")


def limit(server: Server) -> None:
    """Let an administrator forbid containers without a limit, which admission reads."""
    limits = [{"type": "Container", "max": {"cpu": "1"}}]
    body = {
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": limits},
    }  # fmt: skip
    server.ask(request("create", "limitranges", "default", body=body, user=ADMIN))


def going(server: Server, bound: bool = True) -> Obj:
    """A pod that is being deleted and waits for a finalizer."""
    pod = new(server, bound)
    server.patch_meta(pod, {"metadata": {"finalizers": ["a.b/c"]}})
    server.delete(pod)
    return pod


# --- bindings -------------------------------------------------------------------------------------


def bind_in_terminating_namespace(server: Server) -> None:
    """Learn from bindings in a namespace, begin to delete it, and bind there again."""
    server.namespace = "x"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}
    server.ask(request("create", "namespaces", body=namespace, user=ADMIN))
    for _ in range(3):
        server.bind(server.create_pod())
    pod = server.create_pod()
    server.ask(request("delete", "namespaces", name="x", user=ADMIN))
    server.bind(pod)
    server.namespace = "default"


BINDINGS: dict[str, Odd] = {
    "terminating_pod": lambda s: s.bind(going(s, bound=False)),
    "other_uid": lambda s: s.bind(new(s, bound=False), uid="other"),
    "no_uid": lambda s: s.bind(new(s, bound=False), uid=None),
    "other_kind": lambda s: s.bind(new(s, bound=False), body={"kind": "Pod"}),
    "other_version": lambda s: s.bind(new(s, bound=False), body={"apiVersion": "v2"}),
    "target_as_text": lambda s: s.bind(new(s, bound=False), body={"target": "n"}),
    "target_not_a_node": lambda s: s.bind(new(s, bound=False), body={"target": {"kind": "Pod", "name": "n"}}),
    "target_without_name": lambda s: s.bind(new(s, bound=False), node=""),
    "annotations": lambda s: s.bind(new(s, bound=False), annotations={"a": "b"}),
    "other_name": lambda s: s.bind(new(s, bound=False), name="other"),
    "other_namespace": lambda s: s.bind(new(s, bound=False), namespace="other"),
    "bound_pod": lambda s: s.bind(new(s)),
    "bound_pod_without_conditions": lambda s: s.bind(new(s, conditions=False), node="m"),
    "own_as_text": lambda s: s.bind(new(s, bound=False), body={"metadata": "abc"}),
    "nameless": lambda s: s.bind({"metadata": {"name": "", "uid": "u"}}),
    "node_without_conditions": lambda s: s.bind(unconditioned(s), node="m"),
    "account_of_pods_changed": lambda s: [s.quota(), s.bind(new(s, bound=False))],
    "missing_pod": lambda s: s.bind({"metadata": {"name": "none", "uid": "u"}}),
    "unbound_pod_with_conditions": lambda s: [s.status(pod := new(s, bound=False), FIRST), s.bind(pod)],
    "terminating_namespace": bind_in_terminating_namespace,
    "pod_without_status": lambda s: s.bind(without_status(s, bound=False)),
}


@pytest.mark.parametrize("name", BINDINGS)
def test_bind_is_not_served_by_template_when_odd(name: str) -> None:
    check(BINDINGS[name])


def test_bind_of_terminating_pod_conflicts() -> None:
    async def main() -> None:
        async with plane(options=OPTIONS) as p:
            server = await begin(p)
            assert server.bind(going(server, bound=False)).code == 409

    trio.run(main)


# --- patches of a pod's status --------------------------------------------------------------------

RUNNING: Obj = {"conditions": LATER, "phase": "Running", "containerStatuses": [CONTAINER]}
ENDED: Obj = {**CONTAINER, "state": {"terminated": {"exitCode": 0}}, "ready": False, "started": False}
ADDRESS: Obj = {**RUNNING, "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}]}


def restarted(server: Server) -> None:
    """Let a container run again after its end: of pods that always restart, and of one that never
    does.
    """
    for policy in ("Always", "Always", "Never"):
        pod = server.create_pod(spec={**SPEC, "restartPolicy": policy})
        server.bind(pod)
        server.status(pod, FIRST)
        for container in (ENDED, CONTAINER):
            server.status(pod, {"conditions": LATER, "containerStatuses": [container]})


def after_two(server: Server, even: Obj, odd: Obj) -> None:
    """Send a patch to two pods, and then one of its shape to a third."""
    for patch in (even, even, odd):
        server.status(new(server), patch)


def readdressed(server: Server) -> None:
    """List the first address of three pods again, of which the third keeps a second one.

    The record of ownership, by which templates are found, distinguishes the third pod from the
    others until an administrator empties it.
    """
    first, second = {"ip": "10.1.0.1"}, {"ip": "fd00::1"}
    later = [{**LATER[0], "message": "m"}]
    for addresses in ([first], [first], [first, second]):
        pod = new(server)
        server.status(pod, {**ADDRESS, "podIPs": addresses})
        server.patch_meta(pod, {"metadata": {"managedFields": [{}]}})
        server.status(pod, {"conditions": later, "podIPs": [first]})


PATCHES: dict[str, Odd] = {
    "other_uid": lambda s: s.status(new(s), RUNNING, uid="other"),
    "terminating_pod": lambda s: s.status(going(s), RUNNING),
    "more_metadata": lambda s: s.status(new(s), RUNNING, labels={"a": "b"}),
    "merge_patch": lambda s: s.status(new(s), RUNNING, kind=MERGE),
    "same_phase": lambda s: s.status(new(s), {**RUNNING, "phase": "Pending"}),
    "phase_null": lambda s: s.status(new(s), {**RUNNING, "phase": None}),
    "phase_empty": lambda s: s.status(new(s), {**RUNNING, "phase": ""}),
    "phase_number": lambda s: s.status(new(s), {**RUNNING, "phase": 3}),
    "containers_null": lambda s: s.status(new(s), {**RUNNING, "containerStatuses": None}),
    "container_incomplete": lambda s: s.status(new(s), {**RUNNING, "containerStatuses": [{"name": "app"}]}),
    "container_with_null": lambda s: s.status(
        new(s), {**RUNNING, "containerStatuses": [{**CONTAINER, "started": None}]}
    ),
    "container_text": lambda s: s.status(new(s), {**RUNNING, "containerStatuses": ["app"]}),
    "address_bad": lambda s: s.status(
        new(s), {**RUNNING, "podIP": "nonsense", "podIPs": [{"ip": "nonsense"}]}
    ),
    "address_unlisted": lambda s: s.status(new(s), {**RUNNING, "podIP": "10.1.0.1"}),
    "address_other": lambda s: s.status(
        new(s), {**RUNNING, "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.2"}]}
    ),
    "addresses_two": lambda s: s.status(
        new(s), {**RUNNING, "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}, {"ip": "10.1.0.2"}]}
    ),
    "unknown_field": lambda s: s.status(new(s), {**RUNNING, "startTime": "2026-01-01T00:00:00Z", "odd": "x"}),
    "no_conditions": lambda s: s.status(new(s), {"phase": "Running"}),
    "metadata_text": lambda s: s.status(new(s), RUNNING, body={"metadata": "a", "status": RUNNING}),
    "pod_without_status": lambda s: s.status(without_status(s), RUNNING),
    "pod_without_conditions": lambda s: s.status(unconditioned(s), RUNNING),
    "init_containers_changed": lambda s: [
        s.status(
            pod,
            {
                "conditions": [{**LATER[0], "message": str(count)}],
                "initContainerStatuses": [{**CONTAINER, "restartCount": count}],
            },
        )
        for pod in [new(s)]
        for count in (1, 2, 3, 3)
    ],
    "terminating_pod_without_finalizers": lambda s: [
        s.delete(pod := new(s)),
        s.status(pod, RUNNING),
        s.delete(pod),
    ],
    "container_restarted": restarted,
    "addresses_more": lambda s: after_two(
        s, ADDRESS, {**ADDRESS, "podIPs": [{"ip": "10.1.0.1"}, {"ip": "10.1.0.1"}]}
    ),
    "addresses_bad": lambda s: after_two(s, ADDRESS, {**ADDRESS, "podIP": "x", "podIPs": [{"ip": "x"}]}),
    "address_again": readdressed,
    "addresses_number": lambda s: after_two(s, ADDRESS, {**ADDRESS, "podIPs": 3}),
    "unknown_map": lambda s: after_two(
        s, {**RUNNING, "odd": {"a": "b"}}, {**RUNNING, "odd": {"a": "b", "c": None}}
    ),
    "message_map": lambda s: s.status(new(s), {**RUNNING, "message": {"a": None}}),
    "containers_unchanged": lambda s: [
        s.status(pod := new(s), RUNNING),
        *(
            s.status(pod, {"conditions": LATER, "containerStatuses": [{**CONTAINER, "restartCount": count}]})
            for count in (1, 2, 2)
        ),
    ],
    "status_text": lambda s: s.status(pod := new(s), RUNNING, body={**identity(pod), "status": "Running"}),
    "spec_too": lambda s: s.status(
        pod := new(s), RUNNING, body={**identity(pod), "status": RUNNING, "spec": "x"}
    ),
    "missing_pod": lambda s: s.status({"metadata": {"name": "none", "uid": "u"}}, RUNNING),
    "containers_again": lambda s: [
        s.status(pod := new(s), RUNNING),
        s.status(pod, {"conditions": LATER, "containerStatuses": [CONTAINER]}),
    ],
}


@pytest.mark.parametrize("name", PATCHES)
def test_pod_status_patch_is_not_served_by_template_when_odd(name: str) -> None:
    check(PATCHES[name])


def test_pod_status_patch_with_another_uid_is_invalid() -> None:
    async def main() -> None:
        async with plane(options=OPTIONS) as p:
            server = await begin(p)
            assert server.status(new(server), RUNNING, uid="other").code == 422

    trio.run(main)


# --- creates --------------------------------------------------------------------------------------

META: Obj = {"generateName": "a-", "labels": LABELS, "ownerReferences": OWNERS}
INVOLVED: Obj = {"kind": "Pod", "namespace": "default", "name": "p", "uid": "u"}
CREATES: dict[str, Odd] = {
    "pod_status": lambda s: s.create_pod(status={"phase": "Running"}),
    "pod_named": lambda s: s.create_pod(metadata={**META, "name": "named"}),
    "pod_namespaced": lambda s: s.create_pod(metadata={**META, "namespace": "other"}),
    "pod_without_base": lambda s: s.create_pod(metadata={"labels": LABELS, "ownerReferences": OWNERS}),
    "pod_status_text": lambda s: [
        s.create_pod(status=status) for status in ({"phase": "Running"}, {"phase": "Running"}, "text")
    ],
    "pods_of_one_name": lambda s: [s.create_pod(metadata={**META, "name": "named"}) for _ in range(3)],
    "pods_of_one_namespace": lambda s: [
        s.create_pod(metadata={**META, "namespace": "default"}) for _ in range(3)
    ],
    "pods_without_base": lambda s: [
        s.create_pod(metadata={"generateName": "", "labels": LABELS}) for _ in range(3)
    ],
    "pod_limited": lambda s: [limit(s), s.create_pod()],
    "pod_spec_text": lambda s: s.create_pod(spec="x"),
    "pod_metadata_text": lambda s: s.create_pod(metadata="x"),
    "pod_of_a_person": lambda s: s.create_pod(user=UserInfo("ann", ("system:masters",))),
    "event_twice": lambda s: [s.event("e"), s.event("e")],
    "event_other_namespace": lambda s: s.event("e", namespace="x"),
    "event_about_other_namespace": lambda s: s.event(
        "e", involvedObject={"kind": "Pod", "namespace": "x", "name": "p", "uid": "u"}
    ),
    "event_unknown_field": lambda s: s.event("e", odd=1),
    "event_wrong_type": lambda s: s.event("e", message=3),
    "event_nameless": lambda s: s.event(""),
    "event_labelled": lambda s: s.event(
        "e", metadata={"name": "e", "namespace": "default", "labels": {"a": "b"}}
    ),
    "event_other_kind": lambda s: s.event("e", kind="Pod"),
    "event_other_version": lambda s: s.event("e", apiVersion="v2"),
    "event_source_text": lambda s: s.event("e", source="c"),
    "event_involved_text": lambda s: s.event("e", involvedObject="c"),
    "event_metadata_text": lambda s: s.event("e", metadata="cc"),
    "event_bytes": lambda s: s.ask(
        request("create", "events", "default", body=b'{"metadata": {"name": "e"}}', user=NODE, manager="c")
    ),
    "events_labelled_otherwise": lambda s: [
        s.event(name, metadata={"name": name, "namespace": "default", "labels": {name: "b"}})
        for name in ("e", "f", "g")
    ],
    "events_of_a_person": lambda s: [
        s.event(name, user, involvedObject={**INVOLVED, "odd": "x"})
        for name, user in (("e", NODE), ("f", NODE), ("g", UserInfo("ann", ("system:masters",))))
    ],
    "events_of_other_series": lambda s: [
        s.event(name, series=series)
        for name, series in (("e", {"count": 2}), ("f", {"count": 2}), ("g", {"state": "x"}))
    ],
    "event_in_a_namespace_about_another": lambda s: [
        s.ask(
            request(
                "create",
                "namespaces",
                user=ADMIN,
                body={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}},
            )
        ),
        *(
            s.event(
                f"e{space}{count}",
                namespace="x",
                involvedObject={**INVOLVED, "namespace": "x"},
                metadata={"name": f"e{space}{count}", "namespace": space},
            )
            for count, space in enumerate(("x", "x", "x", "default"))
        ),
    ],
    "event_new_style": lambda s: [
        s.event(f"n{count}", eventTime="2026-01-01T00:00:00.000000Z", reason="Because", **more)
        for count, more in enumerate(
            [{"reportingComponent": "c", "reportingInstance": "i", "action": "A"}] * 2
            + [{"reportingComponent": "c", "reportingInstance": "i", "action": "A" * 200}]
        )
    ],
}


@pytest.mark.parametrize("name", CREATES)
def test_create_is_not_served_by_template_when_odd(name: str) -> None:
    check(CREATES[name])


def masters_only() -> Authorization:
    """An authorizer that allows everything to one group."""
    return Authorization(Chain(NAMES_ORCH, []))


def test_event_of_an_unauthorized_user_is_forbidden() -> None:
    async def main() -> None:
        admin = UserInfo("system:admin", ("system:masters",))
        async with plane(options=OPTIONS) as p:
            p.server.authorizer = masters_only()
            p.supervisor[p.server.name].crash()
            p.supervisor[p.server.name].start()
            server = Server(p)
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
            server.ask(request("create", "namespaces", body=namespace, user=admin))
            assert [server.event(name, admin).code for name in ("e", "f")] == [201, 201]
            assert server.followed == 1
            assert server.event("g", UserInfo("system:anonymous", ())).code == 403

    trio.run(main)


def test_body_with_text_in_place_of_an_object_is_rejected() -> None:
    async def main() -> None:
        async with plane(options=OPTIONS) as p:
            server = await begin(p)
            pod, seen = new(server), len(server.seen)
            for text in ("x", 3, ["a"], True):
                server.create_pod(metadata=text)
                server.create_pod(spec=text)
                server.event("e", involvedObject=text)
                server.event("e", source=text)
                server.bind(pod, body={"metadata": text})
                server.status(pod, {}, body={**identity(pod), "status": text})
                server.status(pod, {}, body={"metadata": text, "status": RUNNING})
            codes = [400, 400, 400, 400, 400, 422, 422] * 4
            assert [each[0] for each in server.seen[seen:]] == codes

    trio.run(main)


# --- a lease's renewal ----------------------------------------------------------------------------


def renewed(held: Obj, second: int, **metadata: Any) -> Obj:
    """The lease with another time, and other metadata."""
    made = deepcopy(held)
    made["metadata"] |= metadata
    made["spec"]["renewTime"] = f"2026-01-01T00:00:{second:02}.000000Z"
    return made


def lease_history(fast: FastPaths, odd: Callable[[Obj], Obj], **asked: Any) -> list[Any]:
    async def main() -> list[Any]:
        async with plane(options=OPTIONS, fast=fast) as p:
            server = Server(p)
            where = ("leases", "default", "n")
            body = lease("n", holderIdentity="n", renewTime="2026-01-01T00:00:00.000000Z")
            held = server.ask(
                request("create", "leases", "default", body=body, user=NODE, manager="node")
            ).obj
            for second in (1, 2, 3):
                held = server.ask(
                    request("update", *where, body=renewed(held, second), user=NODE, manager="node")
                ).obj
            how = {"user": NODE, "manager": "node", **asked}
            server.ask(request("update", *where, body=odd(held), **how))
            held = server.ask(request("get", *where, user=NODE)).obj
            server.ask(request("update", *where, body=renewed(held, 20), user=NODE, manager="node"))
            item = p.storage.store.get(p.server.scheme.key("leases", "default", "n"))
            assert item is not None
            return [*server.seen, item.managed, p.kernel.trace.sha256()]

    return trio.run(main)


LEASES: dict[str, Callable[[Obj], Obj]] = {
    "label_too": lambda held: renewed(held, 4, labels={"a": "b"}),
    "old_revision": lambda held: renewed(held, 4, resourceVersion="1"),
    "other_holder": lambda held: {**held, "spec": {**renewed(held, 4)["spec"], "holderIdentity": "x"}},
    "more_members": lambda held: {**held, "spec": renewed(held, 4)["spec"], "status": {}},
    "no_time": lambda held: {**held, "spec": {**held["spec"], "renewTime": "soon"}},
    "time_in_seconds": lambda held: {**held, "spec": {**held["spec"], "renewTime": "2026-01-01T00:00:09Z"}},
    "same_time": lambda held: {**held, "spec": {**held["spec"]}},
    "spec_gone": lambda held: {name: part for name, part in held.items() if name != "spec"},
}


@pytest.mark.parametrize("name", LEASES)
def test_lease_update_takes_the_fast_path_only_for_its_time(name: str) -> None:
    assert lease_history(FAST, LEASES[name]) == lease_history(PLAIN, LEASES[name])


@pytest.mark.parametrize(
    "asked", [{"manager": "other"}, {"user": UserInfo("system:node:m", ())}, {"options": {"dryRun": "All"}}]
)
def test_lease_update_by_another_client_is_ordinary(asked: dict[str, Any]) -> None:
    def next_one(held: Obj) -> Obj:
        return {**held, "spec": renewed(held, 4)["spec"]}

    assert lease_history(FAST, next_one, **asked) == lease_history(PLAIN, next_one, **asked)


def test_lease_update_that_also_changes_a_label_keeps_the_label() -> None:
    seen = lease_history(FAST, LEASES["label_too"])
    assert any(
        part == ("metadata", dict(part[1]) | {"labels": {"a": "b"}})
        for part in seen[-3][2]
        if part[0] == "metadata"
    )
