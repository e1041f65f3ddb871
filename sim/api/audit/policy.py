"""The audit policy: which requests are recorded, in how much detail and at which stages.

Turns the value of a policy file into a `Policy`, or into the problems of its fields, and a user and
the attributes of a request into `Scope`: level, omitted stages and managedFields.

Holds: the first rule that matches a request decides; without one nothing is recorded.

Mirrors  kubernetes v1.25 apiserver pkg/audit/policy/{reader,checker,util}.go,
         pkg/apis/audit/validation/validation.go.
Differs  an unknown field is a problem; upstream logs it and reads the file without it.
Quirk    the problems of a rule's `resources` name no index.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final, Literal, NamedTuple

import msgspec

from sim.api.auth.attributes import AccessAttributes
from sim.api.go.printing import GoValue
from sim.api.types import UserInfo
from sim.api.validation.errors import Errors, FieldError, invalid, required, unsupported
from sim.api.validation.text import subdomain
from sim.ident import Names
from sim.patterns import pattern

GROUP, VERSION, KIND = "audit", "v1", "Policy"
ALL = "*"


class Level(IntEnum):
    """How much of a request is recorded; a greater level includes the lesser ones."""

    NONE = 0
    METADATA = 1
    REQUEST = 2
    REQUEST_RESPONSE = 3


LEVELS = {
    "None": Level.NONE,
    "Metadata": Level.METADATA,
    "Request": Level.REQUEST,
    "RequestResponse": Level.REQUEST_RESPONSE,
}
LEVEL_TEXTS = {level: text for text, level in LEVELS.items()}
Stage = Literal["RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"]
RECEIVED: Final = "RequestReceived"
STARTED: Final = "ResponseStarted"
COMPLETE: Final = "ResponseComplete"
PANIC: Final = "Panic"
STAGES = (RECEIVED, STARTED, COMPLETE, PANIC)


class PolicyError(Exception):
    """A policy that cannot be used.  problems: each with its field; "" is the whole document"""

    def __init__(self, problems: Errors) -> None:
        super().__init__(problem_line(problems[0]))
        self.problems = problems


def problem_line(problem: FieldError) -> str:
    """The field of a problem and its message."""
    return f"{problem.field}: {problem.message}" if problem.field else problem.message


# --- the file -------------------------------------------------------------------------------------


class _Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """Base of the structures of the file."""


class GroupResources(_Strict, frozen=True):
    """Resources of one group; without `resources` all of the group."""

    group: str = ""
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()


class Rule(_Strict, frozen=True):
    """One rule.  Empty conditions match every request; `omit_managed_fields` None: as the policy."""

    level: str = ""
    users: tuple[str, ...] = ()
    user_groups: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    resources: tuple[GroupResources, ...] = ()
    namespaces: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")
    omit_stages: tuple[str, ...] = ()
    omit_managed_fields: bool | None = None


class _File(_Strict, frozen=True):
    """The whole file."""

    api_version: str = ""
    kind: str = ""
    metadata: dict[str, Any] = {}
    rules: tuple[Rule, ...] = ()
    omit_stages: tuple[str, ...] = ()
    omit_managed_fields: bool = False


class Scope(NamedTuple):
    """What is recorded of one request."""

    level: Level
    omitted_stages: tuple[str, ...] = ()
    omits_managed_fields: bool = False


class Policy(msgspec.Struct, frozen=True):
    """A valid policy: each rule with the scope of the requests that it matches.

    otherwise: the scope of a request that no rule matches
    """

    rules: tuple[tuple[Rule, Scope], ...]
    otherwise: Scope

    def scope(self, user: UserInfo | None, attributes: AccessAttributes) -> Scope:
        """What is recorded of a request.  user: None if it could not be authenticated"""
        for rule, scope in self.rules:
            if _matches(rule, user, attributes):
                return scope
        return self.otherwise


_AT = pattern(r"^(?P<text>.*?)(?: - at `\$\.?(?P<at>.*)`)?$", re.DOTALL)


def parse_policy(value: Any, names: Names) -> Policy:
    """The policy of a file's value.  Raises PolicyError."""
    try:
        file = msgspec.convert(value, _File)
    except msgspec.ValidationError as error:
        found = _AT.match(str(error))
        assert found is not None
        text = found["text"]
        raise PolicyError([FieldError(found["at"] or "", text[:1].lower() + text[1:])]) from None
    wanted = names.api_version(GROUP, VERSION)
    if file.api_version != wanted:
        raise PolicyError([unsupported("apiVersion", file.api_version, [wanted])])
    if file.kind != KIND:
        raise PolicyError([unsupported("kind", file.kind, [KIND])])
    problems = [error for at, rule in enumerate(file.rules) for error in _problems(rule, f"rules[{at}]")]
    if problems:
        raise PolicyError(problems)
    if not file.rules:
        raise PolicyError([FieldError("", "loaded illegal policy with 0 rules")])
    return Policy(
        tuple([(rule, _scope(rule, file)) for rule in file.rules]),
        Scope(Level.NONE, file.omit_stages, file.omit_managed_fields),
    )


def _scope(rule: Rule, file: _File) -> Scope:
    own = rule.omit_managed_fields
    return Scope(
        LEVELS[rule.level],
        tuple(dict.fromkeys((*file.omit_stages, *rule.omit_stages))),
        file.omit_managed_fields if own is None else own,
    )


def _problems(rule: Rule, at: str) -> Errors:
    found: Errors = []
    if not rule.level:
        found.append(required(f"{at}.level"))
    elif rule.level not in LEVELS:
        found.append(unsupported(f"{at}.level", rule.level, LEVELS))
    found += _url_problems(rule.non_resource_urls, f"{at}.nonResourceURLs")
    found += _resource_problems(rule.resources, f"{at}.resources")
    found += [
        invalid(f"{at}.omitStages[{index}]", stage, f"allowed stages are {','.join(STAGES)}")
        for index, stage in enumerate(rule.omit_stages)
        if stage not in STAGES
    ]
    if rule.non_resource_urls and (rule.resources or rule.namespaces):
        detail = "rules cannot apply to both regular resources and non-resource URLs"
        found.append(invalid(f"{at}.nonResourceURLs", GoValue("[]string", rule.non_resource_urls), detail))
    return found


def _url_problems(urls: Sequence[str], at: str) -> Errors:
    found: Errors = []
    for index, url in enumerate(urls):
        if url == ALL:
            continue
        if not url.startswith("/"):
            detail = "non-resource URL rules must begin with a '/' character"
            found.append(invalid(f"{at}[{index}]", url, detail))
        if ALL in url[:-1]:
            detail = "non-resource URL wildcards '*' must be the final character of the rule"
            found.append(invalid(f"{at}[{index}]", url, detail))
    return found


def _resource_problems(groups: Sequence[GroupResources], at: str) -> Errors:
    found: Errors = []
    for each in groups:
        problems = subdomain(each.group) if each.group else []
        if problems:
            found.append(invalid(f"{at}.group", each.group, ",".join(problems)))
        if each.resource_names and not each.resources:
            detail = "using resourceNames requires at least one resource"
            found.append(invalid(f"{at}.resourceNames", GoValue("[]string", each.resource_names), detail))
    return found


# --- matching -------------------------------------------------------------------------------------


def _matches(rule: Rule, user: UserInfo | None, asked: AccessAttributes) -> bool:
    if rule.users and (user is None or user.name not in rule.users):
        return False
    if rule.user_groups and (user is None or not any(group in rule.user_groups for group in user.groups)):
        return False
    if rule.verbs and asked.verb not in rule.verbs:
        return False
    if rule.namespaces or rule.resources:
        return asked.is_resource and _covers_resource(rule, asked)
    if rule.non_resource_urls:
        return not asked.is_resource and any(_is_path(asked.path, url) for url in rule.non_resource_urls)
    return True


def _is_path(path: str, url: str) -> bool:
    return url in (ALL, path) or (url.endswith(ALL) and path.startswith(url.rstrip(ALL)))


def _covers_resource(rule: Rule, asked: AccessAttributes) -> bool:
    if rule.namespaces and asked.namespace not in rule.namespaces:
        return False
    if not rule.resources:
        return True
    return any(
        each.group == asked.group and (not each.resources or _is_named(each, asked))
        for each in rule.resources
    )


def _is_named(group: GroupResources, asked: AccessAttributes) -> bool:
    if group.resource_names and asked.name not in group.resource_names:
        return False
    sub = asked.subresource
    names = {ALL, f"{asked.resource}/{sub}" if sub else asked.resource, f"{asked.resource}/{ALL}"}
    if sub:
        names.add(f"{ALL}/{sub}")
    return any(resource in names for resource in group.resources)
