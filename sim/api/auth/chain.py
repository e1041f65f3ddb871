"""The authorizers of a server in the order of `authorization-mode`, as one, and its refusals.

The members are asked in order; the first that allows or denies decides. Members of the masters'
group are allowed before any of them. A refusal becomes the Status that a client receives.

Mirrors  kubernetes v1.25 apiserver pkg/authorization/union/union.go,
         pkg/authorization/authorizerfactory/builtin.go,
         pkg/endpoints/handlers/responsewriters/errors.go (Forbidden, InternalError),
         pkg/kubeapiserver/authorizer/config.go (New).
Differs  A name with "%" is written unchanged; upstream uses the text as a format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from sim.api import status
from sim.api.auth.attributes import NO_OPINION, AccessAttributes, Decision, Opinion
from sim.api.auth.rbac.authorizer import RbacAuthorizer, aggregate
from sim.api.auth.rbac.rules import review_rules
from sim.api.schema.json_text import go_quote
from sim.api.types import Obj, UserInfo
from sim.ident import Names

ALLOWED = Opinion(Decision.ALLOW)


class UserRules(NamedTuple):
    """The rules of one user in one namespace, as a SelfSubjectRulesReview lists them.

    incomplete: True if an authorizer cannot list its rules
    errors: what kept an authorizer from listing all of them
    """

    resource: tuple[Obj, ...] = ()
    paths: tuple[Obj, ...] = ()
    incomplete: bool = False
    errors: tuple[str, ...] = ()


class Member(Protocol):
    """One authorizer of a chain."""

    def authorize(self, user: UserInfo, attributes: AccessAttributes) -> Opinion:
        """Judge one request."""
        ...

    def user_rules(self, user: UserInfo, namespace: str) -> UserRules:
        """List the rules of a user in a namespace."""
        ...

    def standing(self, user: UserInfo, namespace: str) -> object:
        """A value that is equal for users with equal rights to all names in a namespace."""
        ...


_EVERYTHING = UserRules(
    ({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},), ({"verbs": ["*"], "nonResourceURLs": ["*"]},)
)


class AlwaysAllow:
    """The mode AlwaysAllow."""

    def authorize(self, user: UserInfo, attributes: AccessAttributes) -> Opinion:
        """Allow every request."""
        return ALLOWED

    def user_rules(self, user: UserInfo, namespace: str) -> UserRules:
        """List a rule for everything."""
        return _EVERYTHING

    def standing(self, user: UserInfo, namespace: str) -> object:
        """The same value for all users."""
        return None


class AlwaysDeny:
    """The mode AlwaysDeny: allows nothing, but leaves the decision to later members."""

    def authorize(self, user: UserInfo, attributes: AccessAttributes) -> Opinion:
        """Allow no request."""
        return Opinion(Decision.NO_OPINION, "Everything is forbidden.")

    def user_rules(self, user: UserInfo, namespace: str) -> UserRules:
        """List no rules."""
        return UserRules()

    def standing(self, user: UserInfo, namespace: str) -> object:
        """The same value for all users."""
        return None


class RbacMember:
    """The mode RBAC."""

    def __init__(self, rbac: RbacAuthorizer) -> None:
        self._rbac = rbac
        self.authorize = rbac.authorize

    def user_rules(self, user: UserInfo, namespace: str) -> UserRules:
        """List the rules of the user's roles; absent roles are errors."""
        rules, errors = self._rbac.rules_for(user, namespace)
        resource, paths = review_rules(rules)
        return UserRules(tuple(resource), tuple(paths), False, (aggregate(errors),) if errors else ())

    def standing(self, user: UserInfo, namespace: str) -> object:
        """What the user's bindings grant; users with the same bindings share it."""
        return self._rbac.grants(user, namespace)


class Chain:
    """All authorizers of a server.

    members: in the order of `authorization-mode`
    """

    def __init__(self, names: Names, members: Sequence[Member]) -> None:
        self.names = names
        self._masters = names.group_masters
        self._members = tuple(members)

    def authorize(self, user: UserInfo, attributes: AccessAttributes) -> Opinion:
        """Judge one request by the first member that has an opinion."""
        if self._masters in user.groups:
            return ALLOWED
        reasons, errors = [], []
        for member in self._members:
            opinion = member.authorize(user, attributes)
            if opinion.decision is not Decision.NO_OPINION:
                return opinion
            if opinion.reason:
                reasons.append(opinion.reason)
            if opinion.error:
                errors.append(opinion.error)
        if not reasons and not errors:
            return NO_OPINION
        return Opinion(Decision.NO_OPINION, "\n".join(reasons), aggregate(errors) if errors else "")

    def user_rules(self, user: UserInfo, namespace: str) -> UserRules:
        """List the rules of all members; the masters' group is no member."""
        found = [member.user_rules(user, namespace) for member in self._members]
        return UserRules(
            tuple(rule for each in found for rule in each.resource),
            tuple(rule for each in found for rule in each.paths),
            any(each.incomplete for each in found),
            tuple(error for each in found for error in each.errors),
        )

    def standing(self, user: UserInfo, namespace: str) -> object:
        """A value that is equal for users with equal rights to all names in a namespace."""
        masters = self._masters in user.groups
        return masters or tuple([member.standing(user, namespace) for member in self._members])


# --- refusals -------------------------------------------------------------------------------------


def refusal(user: UserInfo, attributes: AccessAttributes, opinion: Opinion) -> Obj | None:
    """The Status for a request that an opinion does not allow; None if it is allowed."""
    if opinion.decision is Decision.ALLOW:
        return None
    if opinion.error:
        return status.internal_error(opinion.error)
    return forbidden(user, attributes, opinion.reason)


def forbidden(user: UserInfo, attributes: AccessAttributes, reason: str) -> Obj:
    """The Status 403 of a request."""
    text = _escaped(_described(user, attributes))
    if reason:
        text = f"{text}: {reason}"
    if not attributes.is_resource:
        return status.forbidden_path(text)
    return status.forbidden_resource(attributes.group, attributes.resource, attributes.name, text)


def _described(user: UserInfo, asked: AccessAttributes) -> str:
    who = f"User {go_quote(user.name)} cannot {asked.verb}"
    if not asked.is_resource:
        return f"{who} path {go_quote(asked.path)}"
    resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    place = f"in the namespace {go_quote(asked.namespace)}" if asked.namespace else "at the cluster scope"
    return f"{who} resource {go_quote(resource)} in API group {go_quote(asked.group)} {place}"


def _escaped(text: str) -> str:
    """Text without the characters that a browser takes for markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
