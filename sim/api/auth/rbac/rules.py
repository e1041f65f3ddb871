"""The rules of roles: what a rule allows, which rules cover which, and their text.

A rule in the JSON of a role becomes a `Rule`; all questions about rules are answered here.

Mirrors  kubernetes v1.25 pkg/apis/rbac/v1/evaluation_helpers.go,
         component-helpers auth/rbac/validation/policy_comparator.go,
         pkg/registry/rbac/validation/policy_compact.go,
         plugin/pkg/auth/authorizer/rbac/rbac.go (RuleAllows).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from sim.api.auth.attributes import AccessAttributes
from sim.api.schema.json_text import go_quote
from sim.api.types import Obj

ALL = "*"
Texts = tuple[str, ...]


class Rule(msgspec.Struct, frozen=True):
    """One rule of a role.

    verbs, groups, resources, names: of requests to resources; no names mean all names
    urls: paths of requests that are not for resources; "*" at the end stands for any rest
    """

    verbs: Texts
    groups: Texts = ()
    resources: Texts = ()
    names: Texts = ()
    urls: Texts = ()


# What a user must hold to use an aggregation rule, which can gather any rule.
EVERYTHING = (Rule((ALL,), groups=(ALL,), resources=(ALL,)), Rule((ALL,), urls=(ALL,)))

# The fields of a Rule with their names in JSON and in texts, in the order of texts.
_FIELDS = (
    ("groups", "apiGroups", "APIGroups"),
    ("resources", "resources", "Resources"),
    ("urls", "nonResourceURLs", "NonResourceURLs"),
    ("names", "resourceNames", "ResourceNames"),
    ("verbs", "verbs", "Verbs"),
)


def rules_of(role: Obj) -> tuple[Rule, ...]:
    """The rules of a Role or ClusterRole."""
    return tuple(_rule(rule) for rule in role.get("rules") or ())


def _rule(rule: Obj) -> Rule:
    return Rule(**{field: tuple(rule.get(name) or ()) for field, name, _ in _FIELDS})


def review_rules(rules: Iterable[Rule]) -> tuple[list[Obj], list[Obj]]:
    """Rules as a SelfSubjectRulesReview lists them: those for resources, and those for paths."""
    resource_rules: list[Obj] = []
    path_rules: list[Obj] = []
    for rule in rules:
        if rule.resources:
            names: Obj = {"resourceNames": list(rule.names)} if rule.names else {}
            groups: Obj = {"apiGroups": list(rule.groups)} if rule.groups else {}
            resource_rules.append(
                {"verbs": list(rule.verbs), **groups, "resources": list(rule.resources), **names}
            )
        if rule.urls:
            path_rules.append({"verbs": list(rule.verbs), "nonResourceURLs": list(rule.urls)})
    return resource_rules, path_rules


# --- what a rule allows ---------------------------------------------------------------------------


def allows(rule: Rule, attributes: AccessAttributes) -> bool:
    """True if the rule allows the request."""
    if not allows_any_name(rule, attributes):
        return False
    return not attributes.is_resource or not rule.names or attributes.name in rule.names


def allows_any_name(rule: Rule, attributes: AccessAttributes) -> bool:
    """True if the rule allows the request for some name: `allows` without the names of the rule."""
    if ALL not in rule.verbs and attributes.verb not in rule.verbs:
        return False
    if not attributes.is_resource:
        return any(_url_covers(url, attributes.path) for url in rule.urls)
    if ALL not in rule.groups and attributes.group not in rule.groups:
        return False
    if ALL in rule.resources:
        return True
    if not attributes.subresource:
        return attributes.resource in rule.resources
    named = f"{attributes.resource}/{attributes.subresource}"
    return named in rule.resources or f"{ALL}/{attributes.subresource}" in rule.resources


def _url_covers(pattern: str, url: str) -> bool:
    """True if a path, or a pattern with a "*" at its end, covers another path or pattern."""
    return pattern == url or (pattern.endswith(ALL) and url.startswith(pattern.rstrip(ALL)))


# --- which rules cover which ----------------------------------------------------------------------


def uncovered(owned: Sequence[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """The parts of the wanted rules that no owned rule covers; each has one verb and one resource,
    name or path.
    """
    return [
        part
        for rule in wanted
        for part in broken_down(rule)
        if not any(_covers(owner, part) for owner in owned)
    ]


def broken_down(rule: Rule) -> Iterator[Rule]:
    """The parts of a rule with one verb and one resource and name, or one verb and one path."""
    for group in rule.groups:
        for resource in rule.resources:
            for verb in rule.verbs:
                part = Rule((verb,), (group,), (resource,))
                named = [Rule(part.verbs, part.groups, part.resources, (name,)) for name in rule.names]
                yield from named or [part]
    for url in rule.urls:
        for verb in rule.verbs:
            yield Rule((verb,), urls=(url,))


def _covers(owner: Rule, part: Rule) -> bool:
    """True if a rule covers one part of a rule."""
    return (
        _has_all(owner.verbs, part.verbs)
        and _has_all(owner.groups, part.groups)
        and all(_resource_covered(owner.resources, resource) for resource in part.resources)
        and (not owner.names or (bool(part.names) and set(part.names) <= set(owner.names)))
        and all(any(_url_covers(owned, url) for owned in owner.urls) for url in part.urls)
    )


def _has_all(owned: Texts, wanted: Texts) -> bool:
    return ALL in owned or set(wanted) <= set(owned)


def _resource_covered(owned: Texts, resource: str) -> bool:
    if ALL in owned or resource in owned:
        return True
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"{ALL}/{subresource}" in owned


# --- text -----------------------------------------------------------------------------------------


def compacted(rules: Iterable[Rule]) -> list[Rule]:
    """The rules, those for one resource without names merged into one that lists all verbs."""
    others: list[Rule] = []
    simple: dict[tuple[str, str], Rule] = {}
    for rule in rules:
        if rule.names or rule.urls or len(rule.groups) != 1 or len(rule.resources) != 1:
            others.append(rule)
            continue
        key = (rule.groups[0], rule.resources[0])
        known = simple.get(key)
        simple[key] = rule if known is None else Rule(known.verbs + rule.verbs, rule.groups, rule.resources)
    return others + list(simple.values())


def texts_of(rules: Iterable[Rule]) -> list[str]:
    """The texts of rules in errors about escalation: compact, sorted and each one once."""
    return sorted({rule_text(rule) for rule in compacted(rules)})


def rule_text(rule: Rule) -> str:
    """The text of one rule."""
    fields = [(title, getattr(rule, field)) for field, _, title in _FIELDS]
    return "{" + ", ".join(f"{title}:{go_list(values)}" for title, values in fields if values) + "}"


def go_list(texts: Iterable[str]) -> str:
    """A list of texts, as Go's %q prints it."""
    return f"[{' '.join(go_quote(text) for text in texts)}]"
