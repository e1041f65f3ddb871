"""The RBAC authorizer: whether the bindings of a user allow a request, and all rules of a user.

The bindings of a user become `Grants`, and the answers of `Grants` are kept by verb and resource,
so that a decision costs a few look-ups. Users with the same bindings, such as the agents of all
nodes, share their `Grants`. Everything kept is dropped when the generation of the source rises.

Holds: a decision is the one of the rules that the source has at that moment.

Mirrors  kubernetes v1.25 plugin/pkg/auth/authorizer/rbac/rbac.go,
         pkg/registry/rbac/validation/rule.go (RulesFor), apimachinery pkg/util/errors/errors.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from sim.api.auth.attributes import NO_OPINION, AccessAttributes, Decision, Opinion
from sim.api.auth.rbac.grants import BindingIndex, Grant, Match
from sim.api.auth.rbac.rules import Rule, allows_any_name
from sim.api.auth.rbac.source import RoleBook
from sim.api.types import UserInfo
from sim.ident import Names

# Clients choose the names of users, namespaces and resources that they ask about, so each table is
# emptied at this size.
KEPT_MAX = 10_000

# For each verb and resource: the opinions that allow it, each with the names to which it is
# limited (None: all names).
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_Allowed = tuple[tuple[frozenset[str] | None, Opinion], ...]


class Grants:
    """What some bindings allow together.

    grants: in the order in which they are tried
    """

    def __init__(self, grants: Sequence[Grant]) -> None:
        self._grants = grants
        errors = self.errors
        self._refused = Opinion(Decision.NO_OPINION, f"RBAC: {aggregate(errors)}") if errors else NO_OPINION
        self._allowed: dict[tuple[str, str, str, str], _Allowed] = {}

    @property
    def rules(self) -> list[Rule]:
        """All rules, in order."""
        return [rule for grant in self._grants for rule in grant.rules]

    @property
    def errors(self) -> list[str]:
        """The errors about absent roles, in order."""
        return [grant.error for grant in self._grants if grant.error]

    def opinion(self, attributes: AccessAttributes) -> Opinion:
        """Judges one request."""
        if attributes.is_resource:
            key = (attributes.verb, attributes.group, attributes.resource, attributes.subresource)
        else:
            key = (attributes.verb, attributes.path, "", "")
        allowed = self._allowed.get(key)
        if allowed is None:
            allowed = _kept(self._allowed, key, self._allowed_for(attributes))
        for limit, opinion in allowed:
            if limit is None or attributes.name in limit:
                return opinion
        return self._refused

    def _allowed_for(self, attributes: AccessAttributes) -> _Allowed:
        found: list[tuple[frozenset[str] | None, Opinion]] = []
        for grant in self._grants:
            opinion = Opinion(Decision.ALLOW, f"RBAC: allowed by {grant.binding}")
            for rule in grant.rules:
                if not allows_any_name(rule, attributes):
                    continue
                if not rule.names or not attributes.is_resource:
                    return (*found, (None, opinion))
                found.append((frozenset(rule.names), opinion))
        return tuple(found)


class RbacAuthorizer:
    """Judges requests by the roles and bindings of a source.

    stored: True if the source was read from the storage; see `grants.missing_role`
    """

    def __init__(self, names: Names, source: RoleBook, stored: bool = False) -> None:
        self._names = names
        self._source = source
        self._stored = stored
        self._generation = source.generation
        self._indexes: dict[str, BindingIndex] = {}
        self._by_user: dict[tuple[str, tuple[str, ...], str], Grants] = {}
        self._by_matches: dict[tuple[str, tuple[Match, ...], tuple[Match, ...]], Grants] = {}

    def authorize(self, user: UserInfo, attributes: AccessAttributes) -> Opinion:
        """Judges one request: allows it or has no opinion, never denies it."""
        return self.grants(user, attributes.namespace).opinion(attributes)

    def rules_for(self, user: UserInfo, namespace: str) -> tuple[list[Rule], list[str]]:
        """All rules of a user in a namespace ("": only those for the cluster), and the errors about
        absent roles.
        """
        grants = self.grants(user, namespace)
        return grants.rules, grants.errors

    def grants(self, user: UserInfo, namespace: str) -> Grants:
        """What the bindings of a user allow in a namespace."""
        if self._source.generation != self._generation:
            self._forget()
        key = (user.name, user.groups, namespace)
        grants = self._by_user.get(key)
        return _kept(self._by_user, key, self._compiled(user, namespace)) if grants is None else grants

    def _forget(self) -> None:
        self._generation = self._source.generation
        for kept in (self._indexes, self._by_user, self._by_matches):
            kept.clear()

    def _compiled(self, user: UserInfo, namespace: str) -> Grants:
        cluster = self._index("").matches(user)
        local = self._index(namespace).matches(user) if namespace else ()
        key = (namespace if local else "", cluster, local)
        grants = self._by_matches.get(key)
        if grants is not None:
            return grants
        found = list(self._index("").grants(cluster, self._source, self._stored))
        if local:
            found += self._index(namespace).grants(local, self._source, self._stored)
        return _kept(self._by_matches, key, Grants(found))

    def _index(self, namespace: str) -> BindingIndex:
        index = self._indexes.get(namespace)
        if index is None:
            made = BindingIndex(self._names, namespace, self._source.bindings(namespace))
            index = _kept(self._indexes, namespace, made)
        return index


def aggregate(errors: Sequence[str]) -> str:
    """Several errors as one text."""
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"


def _kept(table: dict[_Key, _Value], key: _Key, value: _Value) -> _Value:
    """Puts a value into a table of bounded size and returns it."""
    if len(table) >= KEPT_MAX:
        table.clear()
    table[key] = value
    return value
