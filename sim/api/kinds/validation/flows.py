"""FlowSchemas and PriorityLevelConfigurations.

Holds: what passes here can be classified by (`sim.api.fairness.classification`): every subject has its member, every rule its lists.

Mirrors  kubernetes v1.25 pkg/apis/flowcontrol/validation/validation.go.
Differs  that the specs of `exempt` and `catch-all` stay as they are is asked of their type and precedence only; the
         spelling of verbs, groups, resources and URLs is not checked.
"""

from __future__ import annotations

from sim.api.kinds.validation import text
from sim.api.kinds.validation.errors import Errors, forbidden, invalid, required, unsupported
from sim.api.kinds.validation.meta import object_meta, object_meta_update
from sim.api.types import Json, Obj

EXEMPT = "exempt"  # types.go: PriorityLevelConfigurationNameExempt, FlowSchemaNameExempt
PRECEDENCE_MAX = 10_000  # types.go: FlowSchemaMaxMatchingPrecedence
QUEUES_MAX = 10_000_000  # validation.go: priorityLevelConfigurationQueuingMaxQueues
HASH_BITS = 60  # shufflesharding.go: MaxHashBits
POSITIVE = "must be positive"
_MEMBERS = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}


def create_schema(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], False, text.subdomain, core=False) + _schema(obj)


def update_schema(new: Obj, old: Obj) -> Errors:
    return object_meta_update(new["metadata"], old["metadata"], core=False) + _schema(new)


def create_level(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], False, text.subdomain, core=False) + _level(obj)


def update_level(new: Obj, old: Obj) -> Errors:
    return object_meta_update(new["metadata"], old["metadata"], core=False) + _level(new)


# --- FlowSchema -------------------------------------------------------------------------------------------


def _schema(obj: Obj) -> Errors:
    spec, errors = obj.get("spec") or {}, []
    precedence = spec.get("matchingPrecedence", 0)
    at = "spec.matchingPrecedence"
    if precedence <= 0:
        errors.append(invalid(at, precedence, "must be a positive value"))
    if precedence > PRECEDENCE_MAX:
        errors.append(invalid(at, precedence, f"must not be greater than {PRECEDENCE_MAX}"))
    if precedence == 1 and obj["metadata"].get("name") != EXEMPT:
        errors.append(invalid(at, precedence, "only the schema named 'exempt' may have matchingPrecedence 1"))
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in ("ByNamespace", "ByUser"):
        errors.append(
            unsupported("spec.distinguisherMethod", method.get("type", ""), ("ByNamespace", "ByUser"))
        )
    name, at = (
        (spec.get("priorityLevelConfiguration") or {}).get("name"),
        "spec.priorityLevelConfiguration.name",
    )
    if not name:
        errors.append(required(at, "must reference a priority level"))
    else:
        errors += [invalid(at, name, problem) for problem in text.subdomain(name)]
    for i, rule in enumerate(spec.get("rules") or ()):
        errors += _rule(rule, f"spec.rules[{i}]")
    return errors


def _rule(rule: Obj, at: str) -> Errors:
    errors: Errors = []
    subjects = rule.get("subjects") or []
    if not subjects:
        errors.append(required(f"{at}.subjects", "subjects must contain at least one value"))
    for i, subject in enumerate(subjects):
        errors += _subject(subject, f"{at}.subjects[{i}]")
    covered, paths = rule.get("resourceRules") or [], rule.get("nonResourceRules") or []
    if not covered and not paths:
        detail = "at least one of resourceRules and nonResourceRules has to be non-empty"
        errors.append(required(at, detail))
    for i, one in enumerate(covered):
        where = f"{at}.resourceRules[{i}]"
        for key in ("verbs", "apiGroups", "resources"):
            errors += _listed(one, key, where)
        if not one.get("clusterScope") and not one.get("namespaces"):
            detail = "resource rules that are not cluster scoped must supply at least one namespace"
            errors.append(required(f"{where}.namespaces", detail))
    for i, one in enumerate(paths):
        for key in ("verbs", "nonResourceURLs"):
            errors += _listed(one, key, f"{at}.nonResourceRules[{i}]")
    return errors


_LACKING = {
    "verbs": "verbs must contain at least one value",
    "apiGroups": "resource rules must supply at least one api group",
    "resources": "resource rules must supply at least one resource",
    "nonResourceURLs": "nonResourceURLs must contain at least one value",
}


def _listed(rule: Obj, key: str, at: str) -> Errors:
    """A list that must have members; "*" stands alone."""
    values = rule.get(key) or []
    if not values:
        return [required(f"{at}.{key}", _LACKING[key])]
    if "*" in values and len(values) > 1:
        return [invalid(f"{at}.{key}", values, "if '*' is present, must not specify other " + _PLURALS[key])]
    return []


_PLURALS = {
    "verbs": "verbs",
    "apiGroups": "api groups",
    "resources": "resources",
    "nonResourceURLs": "non-resource URLs",
}


def _subject(subject: Obj, at: str) -> Errors:
    kind = subject.get("kind", "")
    if kind not in _MEMBERS:
        return [unsupported(f"{at}.kind", kind, sorted(_MEMBERS))]
    member = _MEMBERS[kind]
    value = subject.get(member)
    if value is None:
        errors = [required(f"{at}.{member}", f"{member} is required when subject kind is '{kind}'")]
    else:
        errors = [required(f"{at}.{member}.{key}") for key in _NEEDED[kind] if not value.get(key)]
    for other, name in _MEMBERS.items():
        if other != kind and subject.get(name) is not None:
            detail = f"{name} is forbidden when subject kind is not '{other}'"
            errors.append(forbidden(f"{at}.{name}", detail))
    return errors


_NEEDED = {"Group": ("name",), "ServiceAccount": ("name", "namespace"), "User": ("name",)}


# --- PriorityLevelConfiguration ---------------------------------------------------------------------------


def _level(obj: Obj) -> Errors:
    spec, name = obj.get("spec") or {}, obj["metadata"].get("name")
    kind, limited = spec.get("type", ""), spec.get("limited")
    errors: Errors = []
    if (name == EXEMPT) != (kind == "Exempt"):
        detail = "type must be 'Exempt' if and only if name is 'exempt'"
        errors.append(invalid("spec.type", kind, detail))
    if kind == "Exempt":
        if limited is not None:
            errors.append(forbidden("spec.limited", "must be nil if the type is not Limited"))
    elif kind == "Limited":
        if limited is None:
            errors.append(required("spec.limited", "must not be empty when type is Limited"))
        else:
            errors += _limited(limited)
    else:
        errors.append(unsupported("spec.type", kind, ("Exempt", "Limited")))
    return errors


def _limited(limited: Obj) -> Errors:
    at = "spec.limited"
    errors = _positive(limited, "assuredConcurrencyShares", at)
    response, at = limited.get("limitResponse") or {}, f"{at}.limitResponse"
    queuing = response.get("queuing")
    if response.get("type") == "Reject":
        if queuing is not None:
            errors.append(forbidden(f"{at}.queuing", "must be nil if limitResponse.type is not Limited"))
    elif response.get("type") == "Queue":
        if queuing is None:
            errors.append(
                required(f"{at}.queuing", "must not be empty if limited.limitResponse.type is Limited")
            )
        else:
            errors += _queuing(queuing, f"{at}.queuing")
    else:
        errors.append(unsupported(f"{at}.type", response.get("type", ""), ("Queue", "Reject")))
    return errors


def _positive(obj: Obj, key: str, at: str) -> Errors:
    value: Json = obj.get(key) or 0
    return [] if value > 0 else [invalid(f"{at}.{key}", value, POSITIVE)]


def _queuing(queuing: Obj, at: str) -> Errors:
    errors = _positive(queuing, "queueLengthLimit", at)
    queues, hand = queuing.get("queues") or 0, queuing.get("handSize") or 0
    errors += _positive(queuing, "queues", at)
    if queues > QUEUES_MAX:
        errors.append(invalid(f"{at}.queues", queues, f"must not be greater than {QUEUES_MAX}"))
    errors += _positive(queuing, "handSize", at)
    if errors:
        return errors
    if hand > queues:
        return [invalid(f"{at}.handSize", hand, f"should not be greater than queues ({queues})")]
    bits = _entropy_bits(queues, hand)
    if bits > HASH_BITS:
        detail = f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS}"
        return [invalid(f"{at}.handSize", hand, detail)]
    return []


def _entropy_bits(deck: int, hand: int) -> int:
    """Bits of a hash that tells all hands apart (shufflesharding.go, RequiredEntropyBits)."""
    hands = 1
    for i in range(hand):
        hands *= deck - i
    return (hands - 1).bit_length()
