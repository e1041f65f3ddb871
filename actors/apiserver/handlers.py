"""How a request is executed: as a run of its verb on the store, a read of a watch cache, or a
watch.

Turns a `Request` into a `Call` (its resource, rights and options), and that into `Steps`, a
`CachedRead` or a `Reply` with an open watch.  Refusals are raised in this order: authorization,
unknown resource, then those of the verb.

Holds: this module writes nothing and waits for nothing; one object serves one incarnation of a
replica.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/installer.go, pkg/endpoints/handlers,
         pkg/storage/cacher (which requests a cache answers, and which it passes to the storage).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import assert_never

from actors.apiserver.caches.converting_watch import Consulting, ConvertingWatch
from actors.apiserver.caches.selection import select
from actors.apiserver.caches.watch_caches import CachedRead, Caches
from actors.apiserver.metrics.storage import count_cached_list, count_initial
from actors.apiserver.ports import Authorizer, LocalStore
from sim import remembered
from sim.api import status
from sim.api.kinds import conversion as forms
from sim.api.refusals import Refusal, Steps, bad_request, method_not_allowed, no_such_resource
from sim.api.schema.kind import CONNECTING
from sim.api.store import Page
from sim.api.types import Reply, Request
from sim.api.verbs import apply as verbs_apply
from sim.api.verbs import custom as verbs_custom
from sim.api.verbs import delete as verbs_delete
from sim.api.verbs import list as verbs_list
from sim.api.verbs import single as verbs
from sim.api.verbs import subresources as verbs_sub
from sim.api.verbs.call import Call, Registry, bad_dry_run, is_true
from sim.api.watch.cache import WatchCache
from sim.api.watch.cache_watch import CacheWatch
from sim.options.features.gates import CHUNKING, DRY_RUN, REMAINING_COUNT
from sim.units import Virtual, not_unsigned, parse_whole

READS = ("get", "list", "watch")
DELETES = ("delete", "deletecollection")
PLAIN: dict[str, Callable[[Call], Steps]] = {
    "get": verbs.get,
    "create": verbs.create,
    "update": verbs.update,
    "patch": verbs_apply.patch,
    "delete": verbs_delete.delete,
}


class Handlers:
    """The execution of requests by one incarnation of a replica.

    hold_back: raises the refusal of a write that waits until the server has registered in which
        versions it stores resources; None if no write has to wait
    """

    def __init__(
        self,
        authorizer: Authorizer,
        registry: Registry,
        store: LocalStore,
        caches: Caches,
        consult: Consulting,
    ) -> None:
        self.hold_back: Callable[[Request], None] | None = None
        self._authorizer = authorizer
        self._consult = consult
        self._scheme = registry.scheme
        self._registry = registry
        self._store = store
        self._caches = caches

    def call(self, request: Request) -> Call:
        """Return the resource, rights and options of a request."""
        refusal = None if request.authorized else self._authorizer.refusal(request)
        if refusal is not None:
            raise Refusal.of(refusal)
        if self.hold_back is not None:
            self.hold_back(request)
        resource = self._scheme.find(request.group, request.version, request.resource)
        if resource is None:
            raise no_such_resource()
        if request.subresource:
            sub = resource.subresource(request.subresource)
            if sub is None:
                raise (
                    no_such_resource()
                    if not resource.custom
                    else Refusal.of(status.not_found(resource, request.name))
                )
        options = self._options(request)
        if resource.rule == "bindings":
            resource = self._scheme.resource("pods")
        call = Call(request, resource, self._registry, options=options, subresource=request.subresource)
        if isinstance(request.body, bytes | bytearray):
            remembered.take_in(request.body)
        if resource.custom:
            verbs_custom.admit(call)
        # In this case the query is ignored.
        deletes_by_body = request.verb in DELETES and request.body
        writes = request.verb not in READS and request.subresource not in CONNECTING
        if options and "dryRun" in options and writes and not deletes_by_body:
            if DRY_RUN in self._registry.gates:
                raise bad_request("the dryRun feature is disabled")
            if options["dryRun"] != "All":
                raise bad_dry_run(self._scheme.names, request)
            call.dry_run = True
        return call

    def let_writes_pass(self, then: Callable[[], None]) -> None:
        """Hold no write back any more, since the server is registered."""
        self.hold_back = None
        then()

    def _options(self, request: Request) -> Mapping[str, str]:
        """The options of a request; lists are whole while APIListChunking is off."""
        if request.verb != "list" or CHUNKING not in self._registry.gates:
            return request.options
        return {key: value for key, value in request.options.items() if key not in ("limit", "continue")}

    def is_admitted(self, request: Request) -> bool:
        """Return True if admission sees a request: a write, or a connection."""
        return request.verb not in READS or request.subresource in CONNECTING

    def converts(self, call: Call) -> bool:
        """True if a webhook may have to convert objects of the request."""
        form = forms.form_of(call.resource, self._scheme.names)
        return form is not None and form.prepare is not None

    def steps(self, call: Call) -> Steps:
        """Return the run of a request that is no watch, on the store and not on a cache."""
        steps = self._plain_steps(call)
        form = forms.form_of(call.resource, self._scheme.names)
        return steps if form is None else forms.converted(steps, form, call.resource.prefix)

    def _plain_steps(self, call: Call) -> Steps:
        request, options = call.request, call.options
        verb = request.verb
        if request.subresource or _is_virtual(call):
            special = verbs_sub.verb_of(call)
            if special is None:
                raise method_not_allowed()
            return special(call)
        if verb == "list":
            selection = select(self._scheme, call)
            matches, only = selection.matches, selection.only
            if not options:
                return verbs_list.list_stored(call, verbs_list.ListPlan(False), matches)
            # Upstream's cache answers lists of converted kinds, too: its words about bad options.
            verbs_list.plan_list(options, self._caches.of(call.resource).direct)
            return verbs_list.list_stored(call, verbs_list.plan_list(options, True), matches, only)
        if verb == "get" and options.get("resourceVersion"):
            verbs_list.parse_list_revision(options["resourceVersion"], self._caches.of(call.resource).direct)
        if verb == "deletecollection":
            return self._delete_collection(call)
        if verb not in PLAIN or verb not in call.resource.verbs:
            raise method_not_allowed()
        return PLAIN[verb](call)

    def cached(self, call: Call) -> CachedRead | None:
        """Return a read that the watch cache answers; None if the store must answer it."""
        request = call.request
        if not call.options or request.subresource or _is_virtual(call):
            return None
        if not self._caches.ready:
            return None
        cache = self._caches.of(call.resource)
        form = None if cache.direct else forms.form_of(call.resource, self._scheme.names)
        if form is not None and (not call.resource.custom or form.prepare is not None):
            return None  # the store answers, converted and up to date
        plain: CachedRead | None = None
        match request.verb:
            case "list":
                plain = self._list(call, cache)
            case "get":
                plain = self._get(call, cache)
            case "watch" | "create" | "update" | "patch" | "delete" | "deletecollection" | "":
                pass
            case _:
                assert_never(request.verb)
        if plain is None or form is None:
            return plain
        return CachedRead(plain.cache, plain.rev, lambda: forms.converted_reply(plain.read(), form))

    def _get(self, call: Call, cache: WatchCache) -> CachedRead | None:
        text = call.options.get("resourceVersion", "")
        if not text:
            return None
        rev = verbs_list.parse_list_revision(text, cache.direct)
        if cache.direct:
            if rev > self._store.revision:
                raise Refusal.of(status.revision_too_large(rev, self._store.revision, 0))
            return None

        def read() -> Reply:
            item = cache.get(call.key)
            return call.not_found().reply() if item is None else Reply(200, item=item)

        return CachedRead(cache, rev, read)

    def _list(self, call: Call, cache: WatchCache) -> CachedRead | None:
        selection = select(self._scheme, call)
        plan = verbs_list.plan_list(call.options, cache.direct)
        if not plan.cached:
            return None
        prefix = self._scheme.prefix(call.resource, call.request.namespace)
        counts = REMAINING_COUNT not in self._registry.gates

        def read() -> Reply:
            matches = selection.matches
            if selection.key and not plan.limit:  # thousands of node agents list one node each
                item = cache.get(selection.key)
                page = Page([] if item is None else [item], cache.revision())
            else:
                of_node = selection.node and not plan.limit
                by_node = self._caches.by_node
                page = (
                    by_node.page(cache, prefix, selection.node)
                    if of_node
                    else cache.page(prefix, selection.only)
                )
                if of_node and selection.alone:
                    matches = None  # so that no pod is decoded to be compared
            reply = verbs_list.page_reply(page, plan, matches, prefix, counts)
            meters = self._caches.kernel.meters
            if meters is not None and not cache.direct:
                index = "f:spec.nodeName" if selection.node and not selection.key else ""
                count_cached_list(meters, call.resource, index, page.count, len(reply.items or ()))
            return reply

        return CachedRead(cache, plan.rev, read)

    def _delete_collection(self, call: Call) -> Steps:
        selection = select(self._scheme, call)
        options = call.options
        how = verbs_delete.checked_options(call)
        verbs_list.plan_list(options, self._caches.of(call.resource).direct)
        plan = verbs_list.plan_list({k: v for k, v in options.items() if k != "resourceVersion"}, True)
        listed = yield from verbs_list.list_stored(call, plan, selection.matches, selection.only)
        return (yield from verbs_delete.delete_collection(call, listed, how))

    def needs_cache(self, call: Call) -> bool:
        """True if the request needs the cache of its resource to be ready: a watch, or a read of a
        minimal
        revision.
        """
        request, options = call.request, call.options
        if request.subresource or _is_virtual(call) or self._caches.of(call.resource).direct:
            return False
        if request.verb == "list":
            plan = verbs_list.plan_list(options, False)
            return plan.cached and plan.rev > 0
        if request.verb == "get":
            return verbs_list.parse_list_revision(options.get("resourceVersion", ""), False) > 0
        return request.verb == "watch"

    def deadline_us(self, call: Call) -> Virtual:
        """Return when a watch that begins now ends; a negative timeout ends it at once (apiserver
        get.go:
        ListResource).
        """
        timeout = call.options.get("timeoutSeconds", "")
        timeout_s = parse_whole(timeout or "0")
        if timeout_s is None:
            raise bad_request(not_unsigned(timeout, "ParseInt"))
        return self._caches.deadline_us(timeout_s)

    def watch(self, call: Call) -> Reply:
        """Open a watch."""
        caches = self._caches
        request, options = call.request, call.options
        if _is_virtual(call):
            raise method_not_allowed()
        selection = select(self._scheme, call)
        rev = verbs_list.parse_list_revision(options.get("resourceVersion", ""), False)
        deadline_us = self.deadline_us(call)
        cache = caches.of(call.resource)
        form, matches = forms.form_of(call.resource, self._scheme.names), selection.matches
        if form is not None and form.prepare is None and matches is not None:
            matches = forms.converted_first(matches, form)
        watch = CacheWatch(
            cache,
            self._scheme.prefix(call.resource, request.namespace),
            matches,
            key=selection.key,
            value=selection.node,
            deadline_us=deadline_us,
            # The storage's own watches, which serve resources without a cache, have no deadline
            # (etcd3/watcher.go).
            bookmarks=is_true(options, "allowWatchBookmarks") and not cache.direct,
        )
        watch.client = request.user.name
        opened = caches.open(cache, watch, rev)
        meters = caches.kernel.meters
        if meters is not None and not cache.direct and opened is watch:
            count_initial(meters, call.resource, watch)
        if form is None:
            return Reply(200, watch=opened)
        if form.prepare is not None:
            return Reply(200, watch=ConvertingWatch(opened, form, self._consult))
        return Reply(200, watch=forms.FormWatch(opened, form))


def _is_virtual(call: Call) -> bool:
    """True if nothing of the resource is stored."""
    return call.request.resource in verbs_sub.VIRTUAL and not call.resource.custom
