"""The webhooks of the stored configurations, and the choice of those that a request concerns.

Turns the attributes of a request into the webhooks to call, in upstream's order: configurations by
name, webhooks in the order of each.

Mirrors  kubernetes v1.25 apiserver pkg/admission/plugin/webhook/{generic/webhook.go,
         predicates/{rules,namespace,object}}; pkg/admission/configuration (sorting).
Differs  configurations are read from the store, not from an informer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sim.api.admission.base import Attributes, Denial, View, not_found
from sim.api.schema.resource import Resource
from sim.api.selectors import from_selector
from sim.api.types import Obj
from sim.ident import Names

MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
PLURALS = (MUTATING, VALIDATING)


class Hook(NamedTuple):
    """One webhook.

    configuration: the name of its configuration
    uid: identifies it among all, also where names are repeated
    place: its index among all webhooks, for annotations
    """

    configuration: str
    uid: str
    place: int
    spec: Obj

    @property
    def name(self) -> str:
        """The name of the webhook."""
        return str(self.spec["name"])

    @property
    def ignores_failures(self) -> bool:
        """True if a failed call does not refuse the request."""
        return self.spec.get("failurePolicy") == "Ignore"


class Invocation(NamedTuple):
    """A webhook to call, and the resource that decides the version of the objects that it gets."""

    hook: Hook
    resource: Resource


Served = Callable[[Resource], Sequence[Resource]]


def hooks_of(view: View, plural: str) -> list[Hook]:
    """All webhooks of one kind of configuration."""
    found: list[Hook] = []
    for configuration in sorted(view.list(plural), key=lambda each: str(each["metadata"]["name"])):
        name = configuration["metadata"]["name"]
        counts: dict[str, int] = {}
        for spec in configuration.get("webhooks") or ():
            number = counts[spec["name"]] = counts.get(spec["name"], -1) + 1
            found.append(Hook(name, f"{name}/{spec['name']}/{number}", len(found), spec))
    return found


def invocation_of(
    hook: Hook, attributes: Attributes, obj: Obj | None, view: View, served: Served
) -> Invocation | Denial | None:
    """How a webhook is called for a request; None if the request does not concern it.

    served: all versions in which the objects of a resource are served, itself included
    """
    labelled = _matches_namespace(hook.spec.get("namespaceSelector"), attributes, obj, view)
    if labelled is False or not _matches_object(hook.spec.get("objectSelector"), obj, attributes.old):
        return None
    resource = _matching_resource(hook, attributes, served)
    if resource is None:
        return None
    return labelled if isinstance(labelled, Denial) else Invocation(hook, resource)


def _matching_resource(hook: Hook, attributes: Attributes, served: Served) -> Resource | None:
    """The resource of the request, or an equivalent one, that a rule of the webhook names."""
    rules = hook.spec.get("rules") or ()
    if any(_rule_matches(rule, attributes, attributes.resource) for rule in rules):
        return attributes.resource
    if hook.spec.get("matchPolicy") == "Exact":
        return None
    others = [each for each in served(attributes.resource) if each is not attributes.resource]
    for rule in rules:
        for other in others:
            if _rule_matches(rule, attributes, other):
                return other
    return None


def _rule_matches(rule: Obj, attributes: Attributes, resource: Resource) -> bool:
    operations = rule.get("operations") or ()
    if "*" not in operations and attributes.operation.upper() not in operations:
        return False
    if not _is_named(rule.get("apiGroups"), resource.group):
        return False
    if not _is_named(rule.get("apiVersions"), resource.version):
        return False
    is_namespaces = resource.rule == "namespaces"  # objects of cluster scope
    namespaced = bool(attributes.namespace) and not is_namespaces
    scope = rule.get("scope", "*")
    if scope != "*" and (scope == "Namespaced") is not namespaced:
        return False
    for entry in rule.get("resources") or ():
        plural, _, subresource = entry.partition("/")
        if plural in ("*", resource.plural) and subresource in ("*", attributes.subresource):
            return True
    return False


def _is_named(given: Sequence[str] | None, value: str) -> bool:
    return "*" in (given or ()) or value in (given or ())


def _matches_namespace(
    selector: Obj | None, attributes: Attributes, obj: Obj | None, view: View
) -> bool | Denial:
    """True if the namespace of the request has the labels; a refusal if there is no namespace."""
    is_namespace = attributes.resource.rule == "namespaces"
    if not (attributes.namespace or is_namespace) or not selector:
        return True
    if is_namespace and not attributes.subresource and attributes.operation != "delete":
        holder = obj
    else:
        name = attributes.name if is_namespace else attributes.namespace
        holder = view.get("namespaces", "", name)
        if holder is None:
            return not_found("namespaces", name)
    return from_selector(selector).matches(_labels(holder))


def _matches_object(selector: Obj | None, obj: Obj | None, old: Obj | None) -> bool:
    """True if the new or the old object has the labels."""
    if not selector:
        return True
    wanted = from_selector(selector)
    return any(wanted.matches(_labels(each)) for each in (obj, old) if each and "metadata" in each)


def _labels(obj: Obj | None) -> dict[str, str]:
    return ((obj or {}).get("metadata") or {}).get("labels") or {}


def is_exempt(attributes: Attributes, names: Names) -> bool:
    """True for requests that no webhook sees: configurations of webhooks, and the server's own."""
    return attributes.resource.rule in PLURALS or attributes.user.name == names.user_apiserver
