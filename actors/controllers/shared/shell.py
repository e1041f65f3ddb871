"""Shared parts of all controllers: environment, workers over a queue, expectations, batches,
adoption.

Turns a controller's `sync(key)` into workers on a rate-limited queue; counts creates and deletes
that were sent but are not in the cache yet (`Expectations`); sends many requests at once or in
growing batches (`in_parallel`, `slow_start`); settles controller references (`claim`,
`claim_objects`).

Holds: a failed sync never ends a worker; a key is retried with growing delay until a sync succeeds
       or its retries are used up; replies of parallel requests are in the order of the requests.

Mirrors  kubernetes v1.25 pkg/controller/controller_utils.go (expectations, slow start),
         pkg/controller/controller_ref_manager.go, cmd/kube-controller-manager/app/core.go
         (clients). client-go util/retry (RetryOnConflict).
Differs  expectations expire by the process's own clock, not by the wall clock; the delays between
         attempts of a conflicting write have no jitter (upstream adds up to a tenth).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from sim.api.auth.web_tokens import Sign, digest_token
from sim.api.objects import controller_of
from sim.api.types import Obj, Reply
from sim.client.queue import Sync, spawn_workers
from sim.dataclass import dataclass
from sim.units import MINUTE, MS

if TYPE_CHECKING:
    from actors.controllers.shared.cloud import Cloud
    from actors.controllers.shared.metrics_api import Metrics
    from sim.api.scheme.scheme import Scheme
    from sim.client import Client, EventRecorder, Informer, Informers, WorkQueue
    from sim.ident import Names
    from sim.kernel import Context
    from sim.options.controllers.manager import ControllerManagerOptions

EXPECTATION_TTL_US = 5 * MINUTE  # ExpectationsTimeout
NODE_INDEX = "spec.nodeName"  # index of the pod informer: pods by the node that they are bound to
SLOW_START_INITIAL = 1  # SlowStartInitialBatchSize
# Delays between attempts after a conflict, client-go util/retry: DefaultRetry (5), DefaultBackoff
# (4).
RETRY_US = (10 * MS, 10 * MS, 10 * MS, 10 * MS)
BACKOFF_US = (10 * MS, 50 * MS, 250 * MS)

Send = Callable[[int, Callable[[Reply], None]], None]


def no_authority(signer: str) -> str:
    """The authority of a signer where the process was given none."""
    return ""


class RootCa:
    """The certificate authority of the cluster's API servers, as PEM text; "" while there is none."""

    def __init__(self) -> None:
        self._pem = ""
        self._listeners: list[Callable[[], None]] = []

    @property
    def pem(self) -> str:
        """The certificate authority as PEM text; "" before it is known."""
        return self._pem

    @pem.setter
    def pem(self, pem: str) -> None:
        self._pem = pem
        for listener in [*self._listeners]:
            listener()

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` when it is another one; returns what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)


@dataclass(slots=True)
class Env:
    """What a controller gets from its process.

    connect: makes a client from (client name, QPS, burst)
    record_with: makes an event recorder from (client, component)
    metrics: source of the metrics for autoscaling
    root_client: makes a client with the user of the controller manager itself, from its name
    root_ca: the cluster's certificate authority
    cloud: the cloud provider, None if there is none
    sign_token: signs the claims of a token with the key of service accounts
    signing: the authority of a signer of certificates, by its name: certificate and key, PEM
    """

    ctx: Context
    scheme: Scheme
    names: Names
    informers: Informers
    options: ControllerManagerOptions
    connect: Callable[[str, float, int], Client]
    record_with: Callable[[Client, str], EventRecorder]
    metrics: Metrics
    root_client: Callable[[str], Client]
    root_ca: RootCa = field(default_factory=RootCa)
    cloud: Cloud | None = None
    sign_token: Sign = digest_token
    signing: Callable[[str], str] = no_authority

    def client(self, name: str, qps: float | None = None, burst: int | None = None) -> Client:
        """A new client; each client has a token bucket of its own, as upstream."""
        options = self.options
        return self.connect(
            name, options.api_qps if qps is None else qps, options.api_burst if burst is None else burst
        )

    def recorder(self, component: str, client: Client) -> EventRecorder:
        """A recorder for events of `component`, which takes its tokens from the bucket of `client`."""
        return self.record_with(client, component)

    def queue(self, name: str) -> WorkQueue:
        """A queue with the default limiter: max(5 ms doubling to 1000 s, 10/s with burst 100)."""
        from sim.client import WorkQueue

        return WorkQueue(self.ctx, name)


def is_terminating(reply: Reply) -> bool:
    """True if a create was rejected because its namespace is being deleted."""
    if reply.ok or reply.lost or not isinstance(reply.body, dict):
        return False
    causes = (reply.body.get("details") or {}).get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


def index_by_node(pods: Informer) -> None:
    """Add the index of pods by node to the pod informer."""
    pods.add_index(NODE_INDEX, _node_values, ("spec", "nodeName"))


def _node_values(pod: Obj) -> tuple[str, ...]:
    node = pod["spec"].get("nodeName")
    return (node,) if node else ()


# --- workers --------------------------------------------------------------------------------------


def run_workers(env: Env, queue: WorkQueue, sync: Sync, workers: int, max_retries: int | None = None) -> None:
    """Start `workers` tasks that take keys from the queue and sync them.

    sync: returns None when the key needs no more work, or an error text
    max_retries: number of retries in a row for a failing key, with growing delay; None: unlimited
    """
    spawn_workers(env.ctx, queue, sync, workers, max_retries)


# --- expectations ---------------------------------------------------------------------------------


@dataclass(slots=True)
class _Expected:
    """Expectations of one owner: numbers of pending creates and deletes, and when they were set."""

    creates: int
    deletes: int
    since_us: int
    # objects of named deletes, in insertion order
    keys: dict[str, None] = field(default_factory=dict)


class Expectations:
    """Creates and deletes per owner key that were sent and are not in the cache yet.

    A sync waits while expectations are pending, because it would count too many or too few objects.
    `expect_deletes` names the objects, so that a deletion that is observed twice (first the
    deletionTimestamp, then the removal) counts once. Expectations expire after five minutes.
    """

    __slots__ = ("_now_us", "_owners")

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._owners: dict[str, _Expected] = {}

    def expect(self, owner: str, creates: int, deletes: int = 0) -> None:
        """Replace the expectations of an owner."""
        self._owners[owner] = _Expected(creates, deletes, self._now_us())

    def expect_creates(self, owner: str, count: int) -> None:
        """Expect this many creates of an owner and no deletes."""
        self.expect(owner, count)

    def expect_deletes(self, owner: str, keys: Sequence[str]) -> None:
        """Expect the deletes of these objects of an owner and no creates."""
        entry = _Expected(0, len(keys), self._now_us(), dict.fromkeys(keys))
        self._owners[owner] = entry

    def created(self, owner: str, count: int = 1) -> None:
        """Count creates that the cache has shown, or that failed."""
        entry = self._owners.get(owner)
        if entry is not None:
            entry.creates -= count

    def deleted(self, owner: str, key: str | None = None) -> None:
        """Count a delete that the cache has shown, or that failed.

        key: the object, if the deletes were named
        """
        entry = self._owners.get(owner)
        if entry is None:
            return
        if key is not None:
            if key not in entry.keys:
                return
            del entry.keys[key]
        entry.deletes -= 1

    def satisfied(self, owner: str) -> bool:
        """True if the owner has no pending expectations, or if they have expired."""
        entry = self._owners.get(owner)
        if entry is None or (entry.creates <= 0 and entry.deletes <= 0):
            return True
        return self._now_us() - entry.since_us > EXPECTATION_TTL_US

    def forget(self, owner: str) -> None:
        """Drop the expectations of an owner."""
        self._owners.pop(owner, None)


# --- many requests --------------------------------------------------------------------------------


async def in_parallel(ctx: Context, count: int, send: Send) -> list[Reply]:
    """Send requests 0 … count-1 at once by `send(i, on_reply)`; returns the replies in that order."""
    replies: list[Any] = [None] * count
    left = count
    finished = ctx.future("replies")

    def sent(index: int) -> Callable[[Reply], None]:
        def on_reply(reply: Reply) -> None:
            nonlocal left
            replies[index] = reply
            left -= 1
            if not left:
                finished.set(None)

        return on_reply

    for index in range(count):
        send(index, sent(index))
    if count:
        await finished.wait()
    return replies


async def slow_start(
    ctx: Context, count: int, send: Send, failed: Callable[[Reply], bool] | None = None
) -> list[Reply]:
    """Send requests in batches of 1, 2, 4, 8 …, each in parallel; stop after a batch with a
    failure.

    failed: returns True for replies that count as failures (default: replies that are not ok)
    Returns the replies of the requests that were sent.
    """
    replies: list[Reply] = []
    batch = min(count, SLOW_START_INITIAL)
    while batch:
        first = len(replies)
        replies += await in_parallel(ctx, batch, _from(first, send))
        if any(failed(reply) if failed is not None else not reply.ok for reply in replies[first:]):
            break
        batch = min(2 * batch, count - len(replies))
    return replies


def _from(first: int, send: Send) -> Send:
    return lambda index, on_reply: send(first + index, on_reply)


def aggregate(errors: Sequence[str]) -> str | None:
    """Join error texts as upstream's Aggregate: each text once, in brackets if there are several."""
    texts = list(dict.fromkeys(errors))
    return None if not texts else texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


async def retry_on_conflict(
    ctx: Context, waits_us: Sequence[int], attempt: Callable[[], Awaitable[Reply]]
) -> Reply:
    """Repeat a write while it conflicts; returns the first other reply, or the last one."""
    for wait_us in waits_us:
        reply = await attempt()
        if reply.reason != "Conflict":
            return reply
        await ctx.sleep_us(wait_us)
    return await attempt()


# --- controller references ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Claims:
    """Candidates that an owner keeps, adopts and releases."""

    kept: list[Obj]
    adopt: list[Obj]
    release: list[Obj]


def controller_ref(api_version: str, kind: str, owner: Obj) -> Obj:
    """The owner reference by which `owner` controls an object."""
    meta = owner["metadata"]
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def claim(owner: Obj, candidates: Sequence[Obj], matches: Callable[[Obj], bool]) -> Claims:
    """Sort candidates of the owner's namespace into those to keep, to adopt and to release.

    Objects with another controller are ignored. An owner that is being deleted neither adopts nor
    releases.
    """
    uid = owner["metadata"]["uid"]
    deleting = "deletionTimestamp" in owner["metadata"]
    kept: list[Obj] = []
    adopt: list[Obj] = []
    release: list[Obj] = []
    for obj in candidates:
        meta = obj["metadata"]
        holder = controller_of(obj)
        if holder is not None:
            if holder["uid"] != uid:
                continue
            if matches(obj):
                kept.append(obj)
            elif not deleting:
                release.append(obj)
        elif not deleting and "deletionTimestamp" not in meta and matches(obj):
            adopt.append(obj)
    return Claims(kept, adopt, release)


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner that claims objects: the object, its resource, and its type in owner references.

    finalizers: added to adopted objects and removed from released ones
    """

    obj: Obj
    resource: str
    api_version: str
    kind: str
    finalizers: tuple[str, ...] = ()


async def claim_objects(
    client: Client, owner: Owner, resource: str, candidates: Sequence[Obj], matches: Callable[[Obj], bool]
) -> tuple[list[Obj], str | None]:
    """Adopt and release objects through the API.

    Returns the objects that the owner controls now, in the order of the candidates, and the first
    error. Before the first adoption the owner is read from the API server, so that a lagging cache
    cannot make a deleted owner, or a new owner of the same name, adopt objects.
    """
    claims = claim(owner.obj, candidates, matches)
    if not claims.adopt and not claims.release:
        return claims.kept, None
    owned = {obj["metadata"]["uid"]: obj for obj in claims.kept}
    error: str | None = None
    for obj in claims.release:
        failure = await _release(client, owner, resource, obj)
        error = error or failure
    refused = await can_adopt(client, owner) if claims.adopt else None
    for obj in claims.adopt:
        failure = refused or await adopt(client, owner, resource, obj)
        if failure is None:
            owned[obj["metadata"]["uid"]] = obj
        elif failure != _GONE:
            error = error or failure
    return [obj for obj in candidates if obj["metadata"]["uid"] in owned], error


_GONE = "gone"


async def can_adopt(client: Client, owner: Owner) -> str | None:
    """Read the owner from the API server; returns the reason why it must not adopt, or None."""
    meta = owner.obj["metadata"]
    live = await client.get(owner.resource, meta.get("namespace", ""), meta["name"])
    if not live.ok:
        return f"can't adopt: {live.message}"
    if live.obj["metadata"]["uid"] != meta["uid"]:
        return f"original {owner.kind} {meta['name']} is gone"
    if "deletionTimestamp" in live.obj["metadata"]:
        return f"{meta['name']} has just been deleted"
    return None


async def adopt(client: Client, owner: Owner, resource: str, obj: Obj) -> str | None:
    """Set the controller reference of an object; returns an error text or None."""
    meta = obj["metadata"]
    ref = controller_ref(owner.api_version, owner.kind, owner.obj)
    change: Obj = {"ownerReferences": [ref], "uid": meta["uid"]}
    if owner.finalizers:
        change["finalizers"] = list(owner.finalizers)
    patch = {"metadata": change}
    reply = await client.patch(resource, meta.get("namespace", ""), meta["name"], patch)
    if reply.ok:
        return None
    return _GONE if reply.reason == "NotFound" else reply.message


async def _release(client: Client, owner: Owner, resource: str, obj: Obj) -> str | None:
    meta = obj["metadata"]
    gone = {"$patch": "delete", "uid": owner.obj["metadata"]["uid"]}
    change: Obj = {"ownerReferences": [gone], "uid": meta["uid"]}
    if owner.finalizers:
        change["$deleteFromPrimitiveList/finalizers"] = list(owner.finalizers)
    patch = {"metadata": change}
    reply = await client.patch(resource, meta.get("namespace", ""), meta["name"], patch)
    # Invalid: the object was recreated with another uid, or has no such reference any more.
    return None if reply.ok or reply.reason in ("NotFound", "Invalid") else reply.message
