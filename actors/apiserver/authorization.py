"""Authorization of every request to a cluster, from inside and from outside of the simulation.

A `Request` becomes a Status if its user may not send it. The replicas of a cluster and the HTTP
front share one `Authorization`.

Most requests are allowed by a rule for all namespaces and names. The answer to that question is
kept by verb and resource, once for all users with equal rights, so that such a request costs two
look-ups. Every other request goes through the chain.

Holds: an answer depends on the roles, bindings and pods that are stored at that moment. Each change
       that may alter a kept answer drops all of them, and ends the fast paths that rely on them
       (`on_change`).

Mirrors  kubernetes v1.25 pkg/kubeapiserver/authorizer/config.go (New), apiserver
         pkg/endpoints/filters/authorization.go.
Differs  Roles, bindings and pods are those that are stored; upstream's servers watch them, and so
         observe a change some milliseconds later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from actors.apiserver.ports import Authorizer, LocalStore
from sim.api.audit.events import decision_annotations
from sim.api.auth.abac import AbacAuthorizer, Policy
from sim.api.auth.attributes import AccessAttributes, Decision, Opinion
from sim.api.auth.bootstrap_policy.policy import node_rules
from sim.api.auth.chain import AlwaysAllow, AlwaysDeny, Chain, Member, RbacMember, UserRules, refusal
from sim.api.auth.node_authorizer import NodeAuthorizer
from sim.api.auth.node_graph import ATTACHMENT, POD, VOLUME, NodeGraph
from sim.api.auth.rbac.authorizer import RbacAuthorizer
from sim.api.auth.rbac.rules import rules_of
from sim.api.auth.rbac.source import RESOURCES, RoleBook
from sim.api.auth.request_attributes import attributes_of
from sim.api.auth.webhook_authorizer import WebhookAuthorizer
from sim.api.scheme.scheme import Scheme
from sim.api.store import Change, Page, Question, Range
from sim.api.types import Obj, Request, UserInfo
from sim.api.webhooks.unanswered import Unanswered
from sim.ident import Names
from sim.kernel import Context

# No object is in this namespace, so that only a rule for all namespaces covers it.
NOWHERE = "/"
KEPT_MAX = 10_000  # limit of the users with kept rights

Right = tuple[str, str, str, str]  # verb, group, resource, subresource


class Authorization:
    """The authorizer of a cluster.

    on_change: called when a right may have been taken away or given
    keeps: False if an answer may change without a change of what is stored
    """

    def __init__(
        self, chain: Chain, on_change: Callable[[], None] = lambda: None, *, keeps: bool = True
    ) -> None:
        self._chain = chain
        self._keeps = keeps
        self._on_change = on_change
        # True if a request is allowed in all namespaces and for all names, by user and by the
        # groups and rights that the user shares with others.
        self._by_user: dict[tuple[str, tuple[str, ...]], dict[Right, bool]] = {}
        self._by_standing: dict[object, dict[Right, bool]] = {}

    def authorize(self, user: UserInfo, attributes: AccessAttributes) -> Opinion:
        """Judge one request."""
        return self._chain.authorize(user, attributes)

    def user_rules(self, user: UserInfo, namespace: str) -> UserRules:
        """List what a user may do in a namespace."""
        return self._chain.user_rules(user, namespace)

    def refusal(self, request: Request) -> Obj | None:
        """Return the Status of a refused request, or None if its user may send it."""
        user = request.user
        if request.annotations is not None:  # the audit records the reason too
            attributes = attributes_of(request)
            opinion = self._chain.authorize(user, attributes)
            request.annotate(decision_annotations(self._chain.names, opinion))
            return refusal(user, attributes, opinion)
        rights = self._by_user.get((user.name, user.groups))  # `covers`, for each request
        right = (request.verb, request.group, request.resource, request.subresource)
        covered = None if rights is None else rights.get(right)
        if covered or (covered is None and self.covers(user, *right)):
            return None
        attributes = attributes_of(request)
        return refusal(user, attributes, self._chain.authorize(user, attributes))

    def covers(self, user: UserInfo, verb: str, group: str, resource: str, subresource: str = "") -> bool:
        """Return True if the user may use a verb in all namespaces and for all names.

        It is False, too, if no answers are kept.
        """
        if not self._keeps:
            return False
        rights = self._by_user.get((user.name, user.groups))
        if rights is None:
            rights = self._rights(user)
        right = (verb, group, resource, subresource)
        covered = rights.get(right)
        if covered is None:
            asked = AccessAttributes(
                verb, group=group, resource=resource, subresource=subresource, namespace=NOWHERE
            )
            covered = self._chain.authorize(user, asked).decision is Decision.ALLOW
            rights[right] = covered
        return covered

    def forget(self) -> None:
        """Drop all answers that are kept."""
        self._by_user.clear()
        self._by_standing.clear()
        self._on_change()

    def _rights(self, user: UserInfo) -> dict[Right, bool]:
        if len(self._by_user) >= KEPT_MAX:
            self._by_user.clear()
            self._by_standing.clear()
        rights = self._by_standing.setdefault(self._chain.standing(user, NOWHERE), {})
        self._by_user[user.name, user.groups] = rights
        return rights


def allow_all(names: Names) -> Authorization:
    """Return an authorizer that allows everything."""
    return Authorization(Chain(names, [AlwaysAllow()]))


def make_authorization(
    scheme: Scheme,
    store: LocalStore,
    modes: Sequence[str],
    policies: Sequence[Policy] = (),
    on_change: Callable[[], None] = lambda: None,
    webhook: WebhookAuthorizer | None = None,
) -> Authorization:
    """Return the authorizer of a cluster, which follows what is stored.

    modes: of `authorization-mode`, in order
    policies: of the mode ABAC
    webhook: of the mode Webhook
    """
    names = scheme.names
    book = RoleBook()
    graph = StoredGraph(scheme, store)
    rules = rules_of({"rules": node_rules(names)})
    makers: dict[str, Callable[[], Member]] = {
        "AlwaysAllow": AlwaysAllow,
        "AlwaysDeny": AlwaysDeny,
        "ABAC": lambda: AbacAuthorizer(policies),
        "RBAC": lambda: RbacMember(RbacAuthorizer(names, book)),
        "Node": lambda: NodeAuthorizer(names, graph.current, rules),
    }
    if webhook is not None:
        makers["Webhook"] = lambda: webhook
    chain = Chain(names, [makers[mode]() for mode in modes])
    made = Authorization(chain, on_change, keeps=webhook is None)
    if "RBAC" in modes:
        for plural in RESOURCES:
            prefix = scheme.prefix(f"{plural}.{names.group('rbac')}")
            for obj in _stored(store, prefix):
                book.put(plural, obj)
            store.subscribe(prefix, partial(_see_role, made, book, plural))
    return made


def _see_role(made: Authorization, book: RoleBook, resource: str, change: Change) -> None:
    obj = change.item.obj
    if change.deleted:
        book.remove(resource, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
    else:
        book.put(resource, obj)
    made.forget()


def _stored(store: LocalStore, prefix: str) -> list[Obj]:
    page = store.range(Range(prefix))
    assert isinstance(page, Page)  # of the newest revision, which is never compacted
    return [item.obj for item in page.items]


class StoredGraph:
    """The graph of the node authorizer over what is stored.

    It is built when a request first depends on it, and follows the store from then on.
    """

    def __init__(self, scheme: Scheme, store: LocalStore) -> None:
        self._scheme = scheme
        self._store = store
        self._graph: NodeGraph | None = None

    def current(self) -> NodeGraph:
        """Return the graph as of now."""
        if self._graph is None:
            self._graph = self._built()
        return self._graph

    def _built(self) -> NodeGraph:
        graph = NodeGraph(self._scheme.names)
        table: dict[str, Callable[[Obj], None]] = {
            POD: graph.put_pod,
            VOLUME: graph.put_volume,
            ATTACHMENT: graph.put_attachment,
        }
        for plural, put in table.items():
            resource = self._scheme.named(plural)
            if resource is None:
                continue  # the kind does not exist here
            for obj in _stored(self._store, resource.prefix):
                put(obj)
            self._store.subscribe(resource.prefix, partial(_see_object, graph, plural, put))
        return graph


def _see_object(graph: NodeGraph, plural: str, put: Callable[[Obj], None], change: Change) -> None:
    """Follow a change of an object that links other objects to nodes."""
    if change.deleted:
        metadata = change.item.obj["metadata"]
        graph.remove((plural, metadata.get("namespace", ""), metadata["name"]))
    elif plural != POD or change.prev is None or _references_moved(change):
        put(change.item.obj)


def _references_moved(change: Change) -> bool:
    """Return True if a write of a pod may change its references: all references are immutable, but
    ephemeral containers may be added.
    """
    assert change.prev is not None
    old, new = change.prev, change.item
    fields = ("nodeName", "ephemeralContainers")
    return any(old.peek("spec", field) != new.peek("spec", field) for field in fields) or (
        old.peek("metadata", "uid") != new.peek("metadata", "uid")
    )


def judge(
    ctx: Context | None,
    authorizer: Authorizer,
    ask: Callable[[Question, Callable[..., None]], object],
    subject: tuple[UserInfo, AccessAttributes],
    done: Callable[[Opinion], None],
) -> None:
    """Judge a request of a client outside, with an answer of a service if that is needed."""
    try:
        opinion = authorizer.authorize(*subject)
    except Unanswered as missing:
        asked = missing
    else:
        done(opinion)
        return
    if ctx is None:
        done(Opinion(Decision.NO_OPINION, "", "the server has stopped"))
        return

    def take(answered: tuple[Any, str]) -> None:
        asked.take(*answered, ctx.wall_us())
        judge(ctx, authorizer, ask, subject, done)

    ask(asked.question, lambda *answered: ctx.run(take, answered))
