"""Write templates: what one request of a given shape did, remembered so that the next one of the
same shape skips the work.

Turns a `Request` into the commit and the reply of the ordinary verb, if a request of the same shape
has been served before: reads of a pod or of a node in a cache, creates of events and of pods from
a template, bindings, patches of a pod's status (also at other times: `condition_times`) and of a
node's heartbeat times.  A shape is everything that the verb, admission, validation and ownership
depend on; what they do not depend on (names, addresses, ids of containers) is filled in.

Holds: a template is kept only if it gives what the ordinary path has just given, down to the order
of fields, and is used only while everything that admission read for it is still the same object.
In every other case `follow` returns None, nothing is drawn or written, and the request takes the
ordinary path.  `tests/property/test_write_templates.py` compares replicas with and without them.

Mirrors  nothing upstream: it is equal to the verbs of `sim.api.verbs.single` and
         `sim.api.verbs.subresources`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from actors.apiserver.caches.watch_caches import Caches
from actors.apiserver.fast import condition_times as shapes
from actors.apiserver.fast import node_creates as creates
from actors.apiserver.fast import node_heartbeats as beats
from actors.apiserver.fast.lease_updates import LeasePaths
from actors.apiserver.fast.template_kinds import Kinds
from actors.apiserver.ports import Server, writer_of
from actors.apiserver.rules import Reads, StoreView
from sim.api.generated_names import generated_name, new_uid
from sim.api.kinds.core.pod.kind import CONTAINER_STATUS
from sim.api.ownership import managed as ownership
from sim.api.patch.strategic_merge import ORDER_PREFIX, without_nulls
from sim.api.store import Item, Managed
from sim.api.types import Obj, Reply, Request
from sim.api.validation import text
from sim.api.verbs.call import Call, Registry
from sim.api.verbs.subresources import BOUND, first_scheduled
from sim.units import SECOND, format_time

TEMPLATES_MAX = 8192  # templates of one kind; beyond that, all are discarded
# Specs of bound pods, shared by the pods of a template on one node: more are not worth their
# memory.
BOUND_MAX = 1_024
MEMBERS = CONTAINER_STATUS.keys()
CONTAINERS = ("containerStatuses", "initContainerStatuses")
# The members of an Event that a template covers.
EVENT = frozenset(
    ("action", "apiVersion", "count", "eventTime", "firstTimestamp", "involvedObject", "kind", "lastTimestamp", "message",
     "metadata", "reason", "reportingComponent", "reportingInstance", "source", "type")
)  # fmt: skip
ORDER = ORDER_PREFIX + "conditions"
TEXTS = frozenset(("hostIP", "message", "phase", "podIP", "qosClass", "reason", "startTime"))
CACHED = {"resourceVersion": "0"}  # options of a read that any cache may answer
Key = tuple[Any, ...]


class Stamp:
    """A record of ownership with one owner, shared by its clients that write in one second."""

    __slots__ = ("entry", "record")

    def __init__(self, entry: Managed) -> None:
        self.entry = entry
        self.record = (entry,)

    def at(self, now_s: int) -> tuple[Managed, ...]:
        """Return the record with this time."""
        entry = self.entry
        if entry.time_s != now_s:
            self.entry = entry = Managed(
                entry.manager, entry.operation, entry.api_version, now_s, entry.fields, entry.subresource
            )
            self.record = (entry,)
        return self.record


class Created:
    """The template of a create: how a new object of one shape results from the request.

    given: fields that replace or follow the fields sent (the metadata is built for each object)
    stamp: its record of ownership (None: no owner)
    held: keeps the objects alive that the key names by identity
    `pattern`: the store's shape for compact items; None if the store has none for this shape
    """

    __slots__ = ("given", "held", "pattern", "reads", "stamp")

    def __init__(self, given: Obj, stamp: Stamp | None, reads: Reads, held: Any) -> None:
        self.given = given
        self.stamp = stamp
        self.reads = reads
        self.held = held
        self.pattern: Any = None

    def record(self, now_s: int) -> tuple[Managed, ...]:
        """Return the record of ownership of an object that is created at this time."""
        return () if self.stamp is None else self.stamp.at(now_s)


class Patched(NamedTuple):
    """The pod's conditions and record of ownership after a status patch, for one second."""

    conditions: Any
    record: tuple[Managed, ...]
    reads: Reads
    held: Any


class TemplateSource(NamedTuple):
    """The request from which a template is being learned, with its key and the object before it."""

    request: Request
    key: Key
    old: Item | None
    held: Any


class WriteTemplates:
    """The write templates of one incarnation of one replica."""

    def __init__(
        self, server: Server, registry: Registry, view: StoreView, caches: Caches, paths: LeasePaths
    ) -> None:
        self._server = server
        self._storage = server.storage
        self._registry = registry
        self._view = view
        self._strategic = registry.names.media_strategic_patch
        self._kinds = kinds = Kinds.of(registry.scheme)
        self._caches, self._lease_paths = caches, paths
        self._created: dict[Key, Created] = {}
        # Of node agents, with the uid of their owner.
        self._registered: dict[Key, tuple[Created, str]] = {}
        self._event_templates: dict[Key, Created] = {}  # by the shape that their recorder gives
        self._patched: dict[Key, Patched] = {}
        self._shapes: dict[Key, shapes.Shape] = {}
        # By signature: what admission read, and the record that keeps the signature's sets of
        # fields alive.
        self._beats: dict[beats.Signature, tuple[Reads, tuple[Managed, ...]]] = {}
        self._admitted: dict[str, Reads] = {}  # of bindings, by namespace
        self._bound: dict[tuple[int, str], tuple[Obj, Obj]] = {}
        self._second = (-1, "")
        self.origin: TemplateSource | None = None
        self.followed = 0  # number of requests served by templates
        self._branches: dict[tuple[str, ...], Callable[[Request], Reply | None]] = {
            ("get", "", "v1", "pods", ""): self._get,
            ("get", kinds.leases.group, "v1", "leases", ""): self._get,
            ("update", kinds.leases.group, "v1", "leases", ""): self._renew,
            ("create", "", "v1", "events", ""): self._create_event,
            ("create", "", "v1", "pods", ""): self._create_pod,
            ("create", "", "v1", "nodes", ""): self._create_by_agent,
            ("create", kinds.leases.group, "v1", "leases", ""): self._create_by_agent,
            ("create", kinds.csinodes.group, "v1", "csinodes", ""): self._create_by_agent,
            ("create", "", "v1", "pods", "binding"): self._bind,
            ("patch", "", "v1", "pods", "status"): self._patch_status,
            ("patch", "", "v1", "nodes", "status"): self._beat,
        }

    def follow(self, request: Request) -> Reply | None:
        """Carry out a request and return its reply; None if it has to take the ordinary path."""
        way = self._branches.get(
            (request.verb, request.group, request.version, request.resource, request.subresource)
        )
        if request.options:
            way = self._look if request.verb == "get" and request.options == CACHED else None
        if way is None or (type(request.body) is not dict and request.verb != "get"):
            return None
        user = request.user
        if not user.name.startswith("system:"):  # the texts of other users are validated
            return None
        if self._server.authorizer.refusal(request) is not None:
            return None
        reply = way(request)
        if reply is not None:
            self.followed += 1
        return reply

    def _ask(self, request: Request, key: Key, held: Any, old: Item | None = None) -> None:
        """Learn a template from the request that the ordinary path is about to serve."""
        self.origin = TemplateSource(request, key, old, held)
        self._view.reads = []

    def learn(self, request: Request, reply: Reply) -> None:
        """Keep the template of a request that the ordinary path has served, if it can be one."""
        origin, self.origin = self.origin, None
        reads, self._view.reads = self._view.reads, None
        if origin is None or reads is None or origin.request is not request or not reply.ok or reply.warnings:
            return
        taken = Reads(tuple(reads))
        if request.subresource == "binding":
            self._admitted[request.namespace] = taken
        elif type(origin.held) is creates.Shape:
            self._learn_registration(origin, reply, taken)
        elif request.resource == "nodes":
            self._learn_beat(origin, reply, taken)
        elif request.subresource:
            self._learn_patch(origin, reply, taken)
        else:
            self._learn_create(origin, reply, taken)

    def _get(self, request: Request) -> Reply | None:
        resource = self._kinds.pods if request.resource == "pods" else self._kinds.leases
        item = self._storage.store.get(f"{resource.prefix}{request.namespace}/{request.name}")
        return None if item is None else Reply(200, item=item)

    def _look(self, request: Request) -> Reply | None:
        """Read a node from the watch cache."""
        if request.resource != "nodes" or request.group or request.subresource or request.namespace:
            return None
        if not self._caches.ready or request.version != "v1":
            return None
        cache = self._caches.of(self._kinds.nodes)
        item = None if cache.direct else cache.get(f"{self._kinds.nodes.prefix}/{request.name}")
        return None if item is None else Reply(200, item=item)

    def _renew(self, request: Request) -> Reply | None:
        """Renew the lease of a leader, which sends an ordinary update."""
        lease_path = self._lease_paths.get(f"{self._kinds.leases.prefix}{request.namespace}/{request.name}")
        return None if lease_path is None else lease_path.update(request)

    # --- creates ----------------------------------------------------------------------------------

    def _create_event(self, request: Request) -> Reply | None:
        key = self._event_key(request.manager, request.namespace, request.body)
        if key is None:
            return None
        template = self._created.get(key)
        if template is None or not self._view.holds(template.reads):
            self._ask(request, key, None)
            return None
        item = self.put_event(request, request.body, template)
        return None if item is None else Reply(201, item=item)

    def event_template(self, manager: str, body: Obj, shape: tuple[str | int, ...]) -> Created | None:
        """The template of an event, or None.  shape: equal for events that differ only in texts
        that validation does not check
        """
        namespace = body["metadata"]["namespace"]
        known = (manager, namespace, len(body["source"]), shape)
        template = self._event_templates.get(known)
        if template is None:
            key = self._event_key(manager, namespace, body)
            template = None if key is None else self._created.get(key)
            if template is not None and len(self._event_templates) < TEMPLATES_MAX:
                self._event_templates[known] = template
        return template

    def put_event(self, like: Request, body: Obj, template: Created) -> Item | None:
        """Commit an event by its template; None if its name exists.  like: a request of its client"""
        metadata = body["metadata"]
        path = f"{self._kinds.events.prefix}{metadata['namespace']}/{metadata['name']}"
        store, now_s = self._storage.store, self._registry.wall_us() // SECOND
        if store.get(path) is not None:
            return None
        made = {
            **metadata, "uid": new_uid(self._registry.bits), "creationTimestamp": self._text_of(now_s),
            "resourceVersion": "",
        }  # fmt: skip
        if template.pattern is not None:
            # The order in which a compact event holds its values: its own, those of its metadata,
            # and those of the object that it is about.
            flat = [*body.values(), *template.given.values()]
            flat += [*made.values(), *body["involvedObject"].values()]
            self._storage.writer = like.user.name, "create"
            record, cause = template.record(now_s), self._server.kernel.cause
            item = store.cast(path, template.pattern, flat, record, cause)
            if item is not None:
                return item
        item = self._put(like, body, path, template, made)
        template.pattern = store.pattern(item)
        return item

    def _event_key(self, manager: str, namespace: str, body: Obj) -> Key | None:
        metadata = body.get("metadata")
        if type(metadata) is not dict or len(metadata) != 2 or body.get("apiVersion") != "v1":
            return None
        if not metadata.get("name") or metadata.get("namespace") != namespace or body.get("kind") != "Event":
            return None
        involved, source = body.get("involvedObject"), body.get("source")
        if type(involved) is not dict or type(source) is not dict or not EVENT.issuperset(body):
            return None
        if involved.get("namespace", namespace) != namespace:  # that of a node has no namespace
            return None
        values = (*body.values(), *involved.values(), *source.values())
        key: Key = (
            manager, namespace, len(body), len(involved), *metadata, *body, *involved, *source,
            *map(type, values), *map(bool, values),
        )  # fmt: skip
        if body.get("eventTime"):  # its other texts are validated then
            key += (body.get("reportingComponent"), body.get("reportingInstance"), body.get("action"))
            key += (body.get("reason"), len(body.get("message") or ""))
        return key

    def _create_pod(self, request: Request) -> Reply | None:
        """Create a pod as controllers do from their templates: the server names it, and all else is
        equal to
        other pods of the template.
        """
        body = request.body
        metadata, spec = body.get("metadata"), body.get("spec")
        if type(metadata) is not dict or len(body) != 4 or "name" in metadata:
            return None
        # The key holds the spec and the values of the metadata by identity, so a template is never
        # learned
        # from a pod that the ordinary path refuses, or changes depending on its content.
        base: Any = metadata.get("generateName")
        values = [value for name, value in metadata.items() if name != "generateName"]
        key = (
            *body, body.get("kind"), body.get("apiVersion"), request.namespace, request.manager, id(spec), base,
            *metadata, *map(id, values),
        )  # fmt: skip
        template = self._created.get(key)
        if template is None or not self._view.holds(template.reads):
            self._ask(request, key, (spec, values))
            return None
        registry, namespace = self._registry, request.namespace
        made = {**metadata, "namespace": namespace, "uid": new_uid(registry.bits)}
        name = generated_name(base, registry.bits)
        path = f"{self._kinds.pods.prefix}{namespace}/{name}"
        taken = self._storage.store.get(path)
        if taken is not None:
            return Call(request, self._kinds.pods, registry).already_exists(name, taken, True).reply()
        made["creationTimestamp"], made["name"] = "", name
        return Reply(201, item=self._put(request, body, path, template, made))

    def _put(
        self,
        like: Request,
        body: Obj,
        path: str,
        template: Created,
        made: Obj,
        record: tuple[Managed, ...] | None = None,
    ) -> Item:
        """Commit a new object.

        made: its metadata, except for the time
        record: its record of ownership, if it is not the template's
        """
        storage, now_s = self._storage, self._registry.wall_us() // SECOND
        made["creationTimestamp"] = self._text_of(now_s)
        obj = {**body, **template.given, "metadata": made}
        storage.writer = like.user.name, "create"
        record = template.record(now_s) if record is None else record
        item = storage.store.put(path, obj, 0, record, self._server.kernel.cause)
        assert isinstance(item, Item)
        return item

    def _text_of(self, now_s: int) -> str:
        if self._second[0] != now_s:
            self._second = now_s, format_time(now_s * SECOND)
        return self._second[1]

    def _learn_create(self, origin: TemplateSource, reply: Reply, reads: Reads) -> None:
        template = self._created_like(origin, reply, reads)
        if template is None:
            return
        if len(self._created) >= TEMPLATES_MAX:
            self._created.clear()
        self._created[origin.key] = template

    @staticmethod
    def _created_like(origin: TemplateSource, reply: Reply, reads: Reads) -> Created | None:
        """The template of a create that has been carried out, if it gives the same object."""
        item, body = reply.item, origin.request.body
        if item is None or len(item.managed) > 1:
            return None
        obj, made = item.obj, item.obj["metadata"]
        sent = {**body["metadata"]}
        if origin.request.namespace:
            sent["namespace"] = origin.request.namespace
        for field in ("uid", "creationTimestamp", "name"):
            sent[field] = made[field]
        sent["resourceVersion"] = made["resourceVersion"]
        if list(sent.items()) != list(made.items()):
            return None
        given = {}
        for field, value in obj.items():
            if field == "metadata" or (field in body and value is body[field]):
                continue
            if field in body and origin.held is None:
                return None  # the result depends on the content, not only on the shape
            given[field] = value
        if list({**body, **given}) != list(obj):
            return None
        stamp = Stamp(item.managed[0]) if item.managed else None
        return Created(given, stamp, reads, origin.held)

    # --- what a node agent creates ----------------------------------------------------------------

    def _create_by_agent(self, request: Request) -> Reply | None:
        shape = creates.shape_of(request, request.resource, self._registry.names)
        if shape is None:
            return None
        registry, body = self._registry, request.body
        metadata = body["metadata"]
        path = registry.scheme.key(request.resource, request.namespace, metadata["name"])
        known = self._registered.get(shape.words)
        if known is None or not self._view.holds(known[0].reads):
            self._ask(request, shape.words, shape)
            return None
        if path in self._lease_paths or self._storage.store.get(path) is not None:
            return None
        template, uid = known
        record = None
        if uid:
            assert template.stamp is not None
            record = (creates.owned(template.stamp.entry, uid, shape.uid, registry.wall_us() // SECOND),)
        made = {**metadata, "uid": new_uid(registry.bits), "creationTimestamp": ""}
        return Reply(201, item=self._put(request, body, path, template, made, record))

    def _learn_registration(self, origin: TemplateSource, reply: Reply, reads: Reads) -> None:
        shape: creates.Shape = origin.held
        template = self._created_like(origin, reply, reads)
        if template is None or shape.own in template.given or (template.stamp is None and shape.uid):
            return
        stamp = template.stamp
        if shape.uid and stamp is not None and not creates.names_owner(stamp.entry, shape.uid):
            return
        if len(self._registered) >= TEMPLATES_MAX:
            self._registered.clear()
        self._registered[origin.key] = template, shape.uid

    # --- bindings ---------------------------------------------------------------------------------

    def _bind(self, request: Request) -> Reply | None:
        body, namespace, name = request.body, request.namespace, request.name
        metadata, target = body.get("metadata"), body.get("target")
        if body.get("kind") != "Binding" or body.get("apiVersion") != "v1" or type(target) is not dict:
            return None
        node = target.get("name")
        if type(metadata) is not dict or len(metadata) != 3 or target.get("kind") != "Node" or not node:
            return None
        item = self._storage.store.get(f"{self._kinds.pods.prefix}{namespace}/{name}")
        if metadata.get("name") != name or metadata.get("namespace") != namespace or item is None:
            return None
        pod = item.obj
        own, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
        if metadata.get("uid") != own["uid"] or "deletionTimestamp" in own:
            return None
        if "nodeName" in spec or "conditions" in status:
            return None
        reads = self._admitted.get(namespace)
        if reads is None or not self._view.holds(reads):
            self._ask(request, (), None)
            return None
        known = self._bound.get((id(spec), node))
        if known is None:
            if len(self._bound) >= BOUND_MAX:
                self._bound.clear()
            known = self._bound[id(spec), node] = (spec, {**spec, "nodeName": node})
        conditions = first_scheduled(self._text_of(self._registry.wall_us() // SECOND))
        obj = {**pod, "metadata": {**own}, "spec": known[1], "status": {**status, "conditions": conditions}}
        self._storage.writer = writer_of(request)
        self._storage.store.put(item.key, obj, item.rev, item.managed, request.cause)
        return Reply(201, body=BOUND)

    # --- a pod's status ---------------------------------------------------------------------------

    def _patch_status(self, request: Request) -> Reply | None:
        store = self._storage.store
        item = store.get(f"{self._kinds.pods.prefix}{request.namespace}/{request.name}")
        if item is None or request.content_type != self._strategic:
            return None
        done = self.patch_pod(request, item, request.body)
        return None if done is None else Reply(200, item=done)

    def patch_pod(self, like: Request, item: Item, body: Obj) -> Item | None:
        """Commit a patch of a pod's status.  like: the request, from which a template may be
        learned, or another one of its client
        """
        metadata, patch = body.get("metadata"), body.get("status")
        if type(metadata) is not dict or type(patch) is not dict or len(body) != 2 or len(metadata) != 1:
            return None
        pod = item.obj
        own, held = pod["metadata"], pod.get("status") or {}
        if metadata.get("uid") != own["uid"] or "deletionTimestamp" in own:
            return None
        order, conditions, before = patch.get(ORDER), patch.get("conditions"), held.get("conditions")
        if not conditions or not before or not _is_plain(pod, held, patch):
            return None
        now_s = self._registry.wall_us() // SECOND
        key = (id(before), id(conditions), id(order), id(item.managed), now_s, like.manager, *patch, *held)
        template = self._patched.get(key) or self._at_another_time(like.manager, patch, key, item)
        if template is None or not self._view.holds(template.reads):
            if like.body is body:
                self._ask(like, key, (before, conditions, order, item.managed), item)
            return None
        obj = {**pod, "metadata": {**own}, "status": _patched(held, patch, template.conditions)}
        self._storage.writer = like.user.name, "patch status"
        done = self._storage.store.put(item.key, obj, item.rev, template.record, self._server.kernel.cause)
        assert isinstance(done, Item)
        return done

    def _shape_key(self, manager: str, patch: Obj, item: Item) -> Key | None:
        held = item.obj["status"]
        now_s = self._registry.wall_us() // SECOND
        words = shapes.words_of(
            held["conditions"], patch["conditions"], patch.get(ORDER), item.managed, now_s
        )
        return None if words is None else (manager, len(patch), *patch, *held, *words)

    def _at_another_time(self, manager: str, patch: Obj, key: Key, item: Item) -> Patched | None:
        """The template of a patch that differs only in its times from one that was served."""
        known = self._shape_key(manager, patch, item)
        shape = None if known is None else self._shapes.get(known)
        if shape is None:
            return None
        before, conditions = item.obj["status"]["conditions"], patch["conditions"]
        now_s = self._registry.wall_us() // SECOND
        held = (before, conditions, patch.get(ORDER), item.managed)
        return self._keep_patch(
            key,
            Patched(
                shapes.made_conditions(shape, before, conditions),
                shapes.made_record(shape, item.managed, now_s),
                shape.reads,
                held,
            ),
        )

    def _keep_patch(self, key: Key, template: Patched) -> Patched:
        if len(self._patched) >= TEMPLATES_MAX:
            self._patched.clear()
        self._patched[key] = template
        return template

    def _learn_patch(self, origin: TemplateSource, reply: Reply, reads: Reads) -> None:
        old, item = origin.old, reply.item
        if old is None or item is None or item is old or not ownership.is_bound(old.managed):
            return
        status, conditions = item.obj["status"], item.obj["status"].get("conditions")
        made = _patched(old.obj["status"], origin.request.body["status"], conditions)
        own = {**old.obj["metadata"], "resourceVersion": item.obj["metadata"]["resourceVersion"]}
        expected = {**old.obj, "metadata": own, "status": status}
        if list(made.items()) != list(status.items()) or list(expected.items()) != list(item.obj.items()):
            return
        self._keep_patch(origin.key, Patched(conditions, item.managed, reads, origin.held))
        known = self._shape_key(origin.request.manager, origin.request.body["status"], old)
        if known is None:
            return
        before, sent = old.obj["status"]["conditions"], origin.request.body["status"]["conditions"]
        now_s = self._registry.wall_us() // SECOND
        shape = shapes.learned((before, sent, conditions), (old.managed, item.managed), now_s, reads)
        if shape is not None:
            if len(self._shapes) >= TEMPLATES_MAX:
                self._shapes.clear()
            self._shapes[known] = shape

    # --- a node's heartbeat -----------------------------------------------------------------------

    def _beat(self, request: Request) -> Reply | None:
        body, store = request.body, self._storage.store
        patch, item = body.get("status"), store.get(f"{self._kinds.nodes.prefix}/{request.name}")
        if len(body) != 1 or type(patch) is not dict or len(patch) != 1 or item is None:
            return None
        node, sent = item.obj, patch.get("conditions") or []
        status = node.get("status") or {}
        held = status.get("conditions")
        if not held or "deletionTimestamp" in node["metadata"]:
            return None
        conditions = beats.with_new_times(held, sent) if request.content_type == self._strategic else None
        if conditions is None:
            return None
        key = beats.signature(item.managed, request.manager, sent)
        known = self._beats.get(key)
        if known is None or not self._view.holds(known[0]):
            self._ask(request, key, conditions, item)
            return None
        now_s = self._registry.wall_us() // SECOND
        record = beats.moved(item.managed, request.manager, self._kinds.nodes.api_version, now_s)
        assert record is not None  # the client had an entry when the template was learned
        obj = {**node, "metadata": {**node["metadata"]}, "status": {**status, "conditions": conditions}}
        self._storage.writer = writer_of(request)
        done = store.beat(item, obj, record, request.cause)
        assert done is not None
        return Reply(200, item=done)

    def with_new_times_before(self, item: Item, manager: str, sent: Sequence[Obj]) -> Reads | None:
        """What admission reads for such a heartbeat; None if that is unknown or has changed."""
        known = self._beats.get(beats.signature(item.managed, manager, sent))
        if known is None or "deletionTimestamp" in item.obj["metadata"] or not self.holds(known[0]):
            return None
        return known[0]

    def holds(self, reads: Reads) -> bool:
        """True if replaying these reads gives the same values."""
        return self._view.holds(reads)

    def _learn_beat(self, origin: TemplateSource, reply: Reply, reads: Reads) -> None:
        """Keep the template of a heartbeat if it gives what the ordinary path has given."""
        old, item, request = origin.old, reply.item, origin.request
        if old is None or item is None or item is old:
            return
        own = {**old.obj["metadata"], "resourceVersion": item.obj["metadata"]["resourceVersion"]}
        status = {**old.obj["status"], "conditions": origin.held}
        expected = {**old.obj, "metadata": own, "status": status}
        record = beats.moved(
            old.managed, request.manager, self._kinds.nodes.api_version, self._registry.wall_us() // SECOND
        )
        if record != item.managed or _pairs(expected) != _pairs(item.obj):
            return
        if len(self._beats) >= TEMPLATES_MAX:
            self._beats.clear()
        self._beats[origin.key] = reads, item.managed


def _pairs(node: Obj) -> tuple[Any, ...]:
    """The content of a node, with the order of its members."""
    status = node["status"]
    return [*node.items()], [*status.items()], [[*condition.items()] for condition in status["conditions"]]


def _patched(held: Obj, patch: Obj, conditions: Any) -> Obj:
    status = {**held, **patch}
    status["conditions"] = conditions
    status.pop(ORDER, None)
    return status


def _is_plain(pod: Obj, held: Obj, patch: Obj) -> bool:
    """True if everything in a status patch except conditions replaces what was stored, without a
    merge.
    """
    for field, value in patch.items():
        if field in TEXTS:
            if type(value) is not str or held.get(field) == value:
                return False
        elif field in CONTAINERS:
            if type(value) is not list or not _is_whole(value):
                return False
            if field not in held:
                if without_nulls(value) is not value:
                    return False
            elif held[field] == value or (pod.get("spec") or {}).get("restartPolicy") != "Always":
                return False  # a container that has ended may have to stay so
        elif field == "podIPs":
            if field in held or len(value) != 1 or not _is_address(value[0]):
                return False
        elif field != "conditions" and field != ORDER:
            return False
    address, listed = patch.get("podIP") or held.get("podIP"), patch.get("podIPs") or held.get("podIPs")
    return not address or bool(listed and listed[0].get("ip") == address)


def _is_whole(statuses: list[Any]) -> bool:
    """True if all container statuses are complete, so that defaulting adds nothing."""
    return all(type(status) is dict and status.keys() >= MEMBERS for status in statuses)


def _is_address(entry: Any) -> bool:
    return (
        type(entry) is dict and len(entry) == 1 and type(entry.get("ip")) is str and not text.ip(entry["ip"])
    )
