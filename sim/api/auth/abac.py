"""Attribute-based access control: a file of policies, one a line, fixed for the life of a server.

The text of a file becomes policies; a policy allows a request if its subject, verb and object
match.

Mirrors  kubernetes v1.25 pkg/auth/authorizer/abac/abac.go,
         pkg/apis/abac/{v0,v1beta1}/conversion.go.
Differs  the reader of JSON words its errors differently, and names of fields are case-sensitive.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from sim.api.auth.attributes import AccessAttributes, Decision, Opinion
from sim.api.auth.chain import ALLOWED, UserRules
from sim.api.types import Obj, UserInfo
from sim.ident import Names

READS = ("get", "list", "watch")
ALL = "*"
NO_MATCH = Opinion(Decision.NO_OPINION, "No policy matched.")
_TEXTS = {
    "user": "user",
    "group": "group",
    "namespace": "namespace",
    "resource": "resource",
    "apiGroup": "api_group",
    "nonResourcePath": "path",
}
_OLD = ("user", "group", "namespace", "resource")  # fields of a policy without a version


class Policy(msgspec.Struct, frozen=True):
    """One policy; an empty field matches only what has no value, except for a subject."""

    user: str = ""
    group: str = ""
    readonly: bool = False
    api_group: str = ""
    resource: str = ""
    namespace: str = ""
    path: str = ""


class PolicyError(ValueError):
    """A line of a policy file that is no policy.

    line: its number, from 1
    """

    def __init__(self, line: int, text: str, why: str) -> None:
        super().__init__(f"{text}: {why}")
        self.line = line


class AbacAuthorizer:
    """The mode ABAC."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        self._policies = tuple(policies)

    def authorize(self, user: UserInfo, attributes: AccessAttributes) -> Opinion:
        """Allow a request that a policy matches."""
        return ALLOWED if any(_matches(each, user, attributes) for each in self._policies) else NO_MATCH

    def user_rules(self, user: UserInfo, namespace: str) -> UserRules:
        """List the policies for a user in a namespace as rules."""
        resource: list[Obj] = []
        paths: list[Obj] = []
        for policy in self._policies:
            if not _is_for(policy, user) or policy.namespace not in (ALL, namespace):
                continue
            verbs = list(READS) if policy.readonly else [ALL]
            if policy.resource:
                groups, resources = [policy.api_group], [policy.resource]
                resource.append({"verbs": verbs, "apiGroups": groups, "resources": resources})
            if policy.path:
                paths.append({"verbs": verbs, "nonResourceURLs": [policy.path]})
        return UserRules(tuple(resource), tuple(paths))

    def standing(self, user: UserInfo, namespace: str) -> object:
        """The policies for the user."""
        return tuple([_is_for(policy, user) for policy in self._policies])


def _matches(policy: Policy, user: UserInfo, asked: AccessAttributes) -> bool:
    if not _is_for(policy, user) or (policy.readonly and asked.verb not in READS):
        return False
    if asked.is_resource:
        return (
            policy.namespace in (ALL, asked.namespace)
            and policy.resource in (ALL, asked.resource)
            and policy.api_group in (ALL, asked.group)
        )
    pattern = policy.path
    if pattern in (ALL, asked.path):
        return True
    return pattern.endswith(ALL) and asked.path.startswith(pattern.rstrip(ALL))


def _is_for(policy: Policy, user: UserInfo) -> bool:
    """True if the policy names the user and a group of the user, as far as it names any."""
    if not policy.user and not policy.group:
        return False
    named = not policy.user or policy.user in (ALL, user.name)
    return named and (not policy.group or policy.group == ALL or policy.group in user.groups)


# --- the file -------------------------------------------------------------------------------------


def read_policies(names: Names, text: str) -> list[Policy]:
    """The policies of a file, one a line; empty lines and comments are skipped.

    Raises PolicyError.
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.strip().startswith("#"):
            continue
        try:
            found.append(_policy(names, json.loads(line)))
        except ValueError as error:
            raise PolicyError(number, line, str(error)) from None
    return found


def _policy(names: Names, value: Any) -> Policy:
    """A policy from its JSON value.  Raises ValueError."""
    if not isinstance(value, dict):
        raise ValueError("a policy is an object")
    if not value.get("apiVersion") or not value.get("kind"):
        return _old_policy(names, value)
    version = f"abac.authorization.{names.domain}/v1beta1"
    if (value["apiVersion"], value["kind"]) != (version, "Policy"):
        kind = f'no kind "{value["kind"]}" is registered for version "{value["apiVersion"]}"'
        raise ValueError(f"{kind}; there is Policy in {version}")
    spec = value.get("spec")
    if not isinstance(spec, dict):
        raise ValueError("spec must be an object")
    texts = {field: _text(spec, name) for name, field in _TEXTS.items()}
    policy = Policy(**texts, readonly=_readonly(spec))
    return _for_authenticated(names, policy)


def _old_policy(names: Names, value: Obj) -> Policy:
    """A policy of the form without a version, in which an absent field matches everything."""
    texts = {field: _text(value, field) for field in _OLD}
    policy = Policy(**texts, readonly=_readonly(value), api_group=ALL)
    if not policy.user and not policy.group:
        policy = msgspec.structs.replace(policy, group=names.group_authenticated)
    return msgspec.structs.replace(
        _for_authenticated(names, policy),
        namespace=policy.namespace or ALL,
        resource=policy.resource or ALL,
        path="" if policy.namespace or policy.resource else ALL,
    )


def _for_authenticated(names: Names, policy: Policy) -> Policy:
    """The policy, in which "*" as a subject stands for all authenticated users."""
    if ALL not in (policy.user, policy.group):
        return policy
    return msgspec.structs.replace(policy, user="", group=names.group_authenticated)


def _text(value: Obj, field: str) -> str:
    text = value.get(field) or ""
    if not isinstance(text, str):
        raise ValueError(f"{field} must be a text")
    return text


def _readonly(value: Obj) -> bool:
    readonly = value.get("readonly") or False
    if not isinstance(readonly, bool):
        raise ValueError("readonly must be true or false")
    return readonly
