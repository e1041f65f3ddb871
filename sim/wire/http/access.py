"""Authorization and impersonation of requests from outside.

A user and `Attributes` give a refusal or None; headers become the user that a request acts as.

Holds: only members of the masters' group impersonate.

Mirrors  kubernetes v1.25 apiserver pkg/authorization, pkg/endpoints/filters/impersonation.go.
Differs  there are no roles yet: a user with a valid credential may do everything but impersonate
         (`authorizer`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import unquote

from sim.api import status
from sim.api.auth.authorizer import IMPERSONATE, may
from sim.api.types import Obj, UserInfo
from sim.ident import Names
from sim.wire.http.routing import Attributes


class Access:
    """The authorizer of requests from outside."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def refusal(self, user: UserInfo, asked: Attributes) -> Obj | None:
        """The Status of a refusal; None if the user is allowed."""
        if may(self._names, user, asked.verb, None if asked.is_resource else asked.path):
            return None
        if not asked.is_resource:
            return status.forbidden_path(f'User "{user.name}" cannot {asked.verb} path "{asked.path}"')
        return _forbidden(asked, f'User "{user.name}" cannot {asked.verb} resource {_what(asked)}')

    def impersonated(self, user: UserInfo, wanted: Impersonation) -> UserInfo | Obj:
        """The user to act as, or the Status of a refusal."""
        names, name, groups = self._names, wanted.name, wanted.groups
        account = _account(names, name)
        if names.group_masters not in user.groups:
            what = (
                replace(_ACCOUNT, namespace=account[0], name=account[1])
                if account
                else replace(_USER, name=name)
            )
            return _forbidden(what, f'User "{user.name}" cannot {what.verb} resource {_what(what)}')
        if account and not groups:
            groups = names.service_account_groups(account[0])
        member = names.group_unauthenticated if name == names.user_anonymous else names.group_authenticated
        known = (names.group_authenticated, names.group_unauthenticated)
        if not any(group in known for group in groups):
            groups = (*groups, member)
        extra: dict[str, tuple[str, ...]] = {}
        for key, value in wanted.extra:
            extra[key] = (*extra.get(key, ()), value)
        return UserInfo(name, groups, wanted.uid, extra)


class Impersonation(NamedTuple):
    """The user that the headers of a request ask to act as."""

    name: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, headers: Iterable[tuple[str, str]]) -> Impersonation:
        """The impersonation that headers ask for."""
        name, uid, groups, extra = "", "", [], []
        for header, value in headers:
            key = header.lower()
            if key == "impersonate-user":
                name = name or value
            elif key == "impersonate-uid":
                uid = uid or value
            elif key == "impersonate-group":
                groups.append(value)
            elif key.startswith(_EXTRA):
                extra.append((unquote(key.removeprefix(_EXTRA)), value))
        return cls(name, tuple(groups), uid, tuple(extra))

    def without_user(self, names: Names) -> str:
        """The attributes requested without a user, as upstream prints them; "" if there are none."""
        if self.name:
            return ""
        version = names.api_version("authentication", "v1")
        told = [f"{{Group  {group}    }}" for group in self.groups]
        told += [f"{{UserExtra  {value}  {version}  {key}}}" for key, value in self.extra]
        told += [f"{{UID  {self.uid}  {version}  }}"] if self.uid else []
        return " ".join(told)


_EXTRA = "impersonate-extra-"
_USER = Attributes(IMPERSONATE, "", True, resource="users")
_ACCOUNT = Attributes(IMPERSONATE, "", True, resource="serviceaccounts")


def _account(names: Names, name: str) -> tuple[str, str] | None:
    """Namespace and name of a service account."""
    start = names.service_account_user("", "").removesuffix(":")
    namespace, _, account = name.removeprefix(start).partition(":")
    if not namespace or not account or ":" in account or not name.startswith(start):
        return None
    return namespace, account


def _what(asked: Attributes) -> str:
    resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    place = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    return f'"{resource}" in API group "{asked.group}" {place}'


def _forbidden(asked: Attributes, why: str) -> Obj:
    """As `status.forbidden`, for resources that may not exist."""
    qualified = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
    named = f'{qualified} "{asked.name}"' if asked.name else qualified
    details: Obj = {"name": asked.name} if asked.name else {}
    if asked.group:
        details["group"] = asked.group
    details["kind"] = asked.resource
    return status.status(403, "Forbidden", f"{named} is forbidden: {why}", details)
