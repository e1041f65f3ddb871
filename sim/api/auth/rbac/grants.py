"""Which bindings apply to a user, and the rules that they grant.

A source of roles and bindings becomes an index of bindings by subject, so that the bindings of one
user are found without a look at the others.

Mirrors  kubernetes v1.25 pkg/registry/rbac/validation/rule.go,
         apiserver pkg/authentication/serviceaccount/util.go (MatchesUsername).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sim.api.auth.rbac.rules import Rule, rules_of
from sim.api.auth.rbac.source import RoleBook
from sim.api.schema.json_text import go_quote
from sim.api.types import Obj, UserInfo
from sim.ident import Names

USER, GROUP, SERVICE_ACCOUNT = "User", "Group", "ServiceAccount"
ROLE, CLUSTER_ROLE = "Role", "ClusterRole"

# The places of a binding in the list of its namespace and of the subject in the binding.
Match = tuple[int, int]


class Grant(NamedTuple):
    """What one binding grants to one user.

    binding: the binding and its subject in the words of a reason
    rules: the rules of the role
    error: why the role gives no rules; "" if it does
    """

    binding: str
    rules: tuple[Rule, ...] = ()
    error: str = ""


GROUPS_MAX = 256


class BindingIndex:
    """The bindings of a namespace, or those of the cluster, by subject.

    namespace: "" for ClusterRoleBindings
    """

    def __init__(self, names: Names, namespace: str, bindings: Sequence[Obj]) -> None:
        self._names = names
        self._namespace = namespace
        self._bindings = bindings
        self._by_subject: dict[tuple[str, str], list[Match]] = {}
        self._by_groups: dict[tuple[str, ...], tuple[Match, ...]] = {}  # of users without bindings
        for place, binding in enumerate(bindings):
            for position, subject in enumerate(binding.get("subjects") or ()):
                key = _subject_key(names, subject, namespace)
                if key is not None:
                    self._by_subject.setdefault(key, []).append((place, position))

    def matches(self, user: UserInfo) -> tuple[Match, ...]:
        """The bindings that apply to a user in their order, each with the first subject that
        matches.
        """
        own, alike = self._by_subject.get((USER, user.name), ()), self._by_groups.get(user.groups)
        if own or alike is None:
            first: dict[int, int] = {}
            for found in (own, *(self._by_subject.get((GROUP, group), ()) for group in user.groups)):
                for place, position in found:
                    first[place] = min(position, first.get(place, position))
            alike = tuple(sorted(first.items()))
            if not own and len(self._by_groups) < GROUPS_MAX:
                self._by_groups[user.groups] = alike
        return alike

    def grants(self, matches: Sequence[Match], source: RoleBook, stored: bool) -> Iterator[Grant]:
        """What the bindings of matches grant.

        stored: see `missing_role`
        """
        for place, position in matches:
            binding = self._bindings[place]
            text = _described(binding, binding["subjects"][position], self._namespace)
            rules = referenced_rules(source, binding["roleRef"], self._namespace)
            if rules is None:
                yield Grant(text, error=missing_role(self._names, binding["roleRef"], stored))
            else:
                yield Grant(text, rules)


def referenced_rules(source: RoleBook, reference: Obj, namespace: str) -> tuple[Rule, ...] | None:
    """The rules of the role that a binding refers to; None if there is no such role.

    namespace: of the binding; "" for a ClusterRoleBinding
    """
    role = source.role(namespace if reference["kind"] == ROLE else "", reference["name"])
    return None if role is None else rules_of(role)


def missing_role(names: Names, reference: Obj, stored: bool) -> str:
    """The error about an absent role.

    stored: True if the role was read from the storage, as writes do, False if it was read from a
        cache, as authorizers do: the two call it "roles.GROUP" and "role.GROUP"
    """
    kind = reference["kind"].lower() + ("s" if stored else "")
    return f"{kind}.{names.group('rbac')} {go_quote(reference['name'])} not found"


def _subject_key(names: Names, subject: Obj, namespace: str) -> tuple[str, str] | None:
    """The key in the index: a kind of subject and a name; None if the subject matches no user."""
    kind, name = subject.get("kind", ""), subject.get("name", "")
    if kind in (USER, GROUP):
        return kind, name
    of = subject.get("namespace") or namespace
    if kind == SERVICE_ACCOUNT and of:
        return USER, names.service_account_user(of, name)
    return None


def _described(binding: Obj, subject: Obj, namespace: str) -> str:
    """A binding and its subject in the words of a reason."""
    metadata, reference = binding["metadata"], binding["roleRef"]
    shown, kind = metadata["name"], "ClusterRoleBinding"
    if namespace:
        shown, kind = f"{shown}/{namespace}", "RoleBinding"
    holder = subject.get("name", "")
    if subject["kind"] == SERVICE_ACCOUNT:
        holder = f"{holder}/{subject.get('namespace') or namespace}"
    return (
        f"{kind} {go_quote(shown)} of {reference['kind']} {go_quote(reference['name'])} "
        f"to {subject['kind']} {go_quote(holder)}"
    )
