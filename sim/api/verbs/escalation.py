"""No user grants more than the user holds: the check of writes to roles and bindings.

A write to one of the four kinds becomes the store operations that read the roles and bindings of
its user, and a refusal if the written object would grant a rule that these do not hold.

Holds: a write that passes grants only rules that its user holds, or that the verbs escalate and
bind allow the user to grant; members of the group system:masters, and every user of a server
without an authorizer, may grant all rules.

Mirrors  kubernetes v1.25 pkg/registry/rbac/{escalation_check,helpers}.go,
         pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/policybased/storage.go,
         pkg/registry/rbac/validation/rule.go (ConfirmNoEscalation), apiserver
         pkg/registry/generic/registry/store.go (NamespaceKeyFunc).
Differs  an update that names an old revision is a conflict before it is checked.
"""

from __future__ import annotations

from collections.abc import Generator

from sim.api import status
from sim.api.auth.attributes import AccessAttributes, Decision, OpinionGiver
from sim.api.auth.rbac.authorizer import RbacAuthorizer, aggregate
from sim.api.auth.rbac.rules import EVERYTHING, Rule, go_list, rules_of, texts_of, uncovered
from sim.api.auth.rbac.source import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    RESOURCES,
    ROLE_BINDINGS,
    ROLES,
    RoleBook,
)
from sim.api.objects import with_metadata
from sim.api.refusals import Refusal, bad_request, internal
from sim.api.schema.json_text import go_quote
from sim.api.store import Answer, Get, Op, Page, Range, Unavailable
from sim.api.types import Obj
from sim.api.validation.text import segment
from sim.api.verbs.call import Call, found, unavailable

Check = Generator[Op, Answer, None]

GUARDED = frozenset(RESOURCES)  # values of `Resource.rule`
_REFERENCES = {"Role": ROLES, "ClusterRole": CLUSTER_ROLES}
_AGGREGATION = "must have cluster-admin privileges to use the aggregationRule"


def confirm(call: Call, obj: Obj, old: Obj | None) -> Check:
    """Raises if the user of a write must not grant what the object grants.

    obj: the object after mutating admission
    old: the stored object; None if the write creates one
    """
    authorizer = call.registry.authorizer
    masters = call.registry.names.group_masters
    if authorizer is None or masters in call.request.user.groups:
        return
    if call.resource.rule in (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS):
        yield from _confirm_binding(call, authorizer, obj)
    else:
        yield from _confirm_role(call, authorizer, obj, old)


def is_collector_change(obj: Obj, old: Obj) -> bool:
    """True if an update changes nothing but owner references and finalizers, as the garbage
    collector does.
    """
    before = old["metadata"]
    kept = {key: before.get(key) for key in ("ownerReferences", "finalizers")}
    return with_metadata(obj, **kept) == with_metadata(old, **kept)


def _confirm_role(call: Call, authorizer: OpinionGiver, obj: Obj, old: Obj | None) -> Check:
    request, resource = call.request, call.resource
    wanted = AccessAttributes(
        "escalate", "", resource.group, "*", resource.rule, "", request.namespace, request.name
    )
    if authorizer.authorize(request.user, wanted).decision is Decision.ALLOW:
        return
    holder = yield from _holder(call)
    holder.confirm(obj, rules_of(obj))
    aggregates = any(role and _has_aggregation(role) for role in (obj, old))
    if resource.rule == CLUSTER_ROLES and aggregates and holder.lacks(EVERYTHING):
        raise _forbidden(call, obj, _AGGREGATION)


def _has_aggregation(role: Obj) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _confirm_binding(call: Call, authorizer: OpinionGiver, obj: Obj) -> Check:
    request, reference = call.request, obj.get("roleRef") or {}
    kind, name = reference.get("kind", ""), reference.get("name", "")
    referenced = _REFERENCES.get(kind)
    if referenced is None:
        raise internal(f"unsupported role reference kind: {go_quote(kind)}")
    wanted = AccessAttributes(
        "bind", "", reference.get("apiGroup", ""), "*", referenced, "", request.namespace, name
    )
    if authorizer.authorize(request.user, wanted).decision is Decision.ALLOW:
        return
    role = yield from _role(call, referenced, name)
    holder = yield from _holder(call)
    holder.confirm(obj, rules_of(role))


def _role(call: Call, referenced: str, name: str) -> Generator[Op, Answer, Obj]:
    """The role that a binding refers to."""
    scheme = call.registry.scheme
    resource = scheme.resource(referenced)
    namespace = call.request.namespace if resource.namespaced else ""
    if resource.namespaced and not namespace:
        raise bad_request("Namespace parameter required.")
    if not name:
        raise bad_request("Name parameter required.")
    problems = segment(name)
    if problems:
        raise bad_request(f"Name parameter invalid: {go_quote(name)}: {';'.join(problems)}")
    item = found((yield Get(scheme.key(resource, namespace, name))))
    if item is None:
        raise Refusal.of(status.not_found(resource, name))
    return item.obj


class _Holder:
    """The user of a write, with the rules that the user holds where the object is written."""

    def __init__(self, call: Call, rules: list[Rule], errors: list[str]) -> None:
        self._call = call
        self._rules = rules
        self._errors = errors

    def lacks(self, wanted: tuple[Rule, ...]) -> list[Rule]:
        """The parts of rules that the user does not hold."""
        return uncovered(self._rules, wanted)

    def confirm(self, obj: Obj, wanted: tuple[Rule, ...]) -> None:
        """Raises if the user does not hold the rules that an object grants."""
        missing = self.lacks(wanted)
        if not missing:
            return
        user = self._call.request.user
        text = (
            f"user {go_quote(user.name)} (groups={go_list(user.groups)}) is attempting to grant RBAC "
            "permissions not currently held:\n" + "\n".join(texts_of(missing))
        )
        if self._errors:
            text += f"; resolution errors: [{aggregate(self._errors)}]"
        raise _forbidden(self._call, obj, text)


def _holder(call: Call) -> Generator[Op, Answer, _Holder]:
    """The user of a write with the rules that the storage has for it."""
    request, scheme, book = call.request, call.registry.scheme, RoleBook()
    for resource in RESOURCES:
        namespaced = scheme.resource(resource).namespaced
        if namespaced and not request.namespace:
            continue
        answer = yield Range(scheme.prefix(resource, request.namespace if namespaced else ""))
        if isinstance(answer, Unavailable):
            unavailable(answer)
        assert isinstance(answer, Page)
        for item in answer.items:
            book.put(resource, item.obj)
    judge = RbacAuthorizer(call.registry.names, book, stored=True)
    return _Holder(call, *judge.rules_for(request.user, request.namespace))


def _forbidden(call: Call, obj: Obj, text: str) -> Refusal:
    return Refusal.of(status.forbidden(call.resource, obj["metadata"].get("name", ""), text))
