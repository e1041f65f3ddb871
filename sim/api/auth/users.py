"""Users by name: the groups that belong to a name without being asked for.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/filters/impersonation.go,
         pkg/authentication/serviceaccount/util.go (SplitUsername).
"""

from __future__ import annotations

from collections.abc import Mapping

from sim.api.types import NO_EXTRA, UserInfo
from sim.ident import Names


def user_named(
    names: Names,
    name: str,
    groups: tuple[str, ...] = (),
    uid: str = "",
    extra: Mapping[str, tuple[str, ...]] = NO_EXTRA,
) -> UserInfo:
    """A user with the groups that come with its name.

    groups: if there are none, a service account is in the groups of service accounts
    """
    account = account_named(names, name)
    if account and not groups:
        groups = names.service_account_groups(account[0])
    authenticated, unauthenticated = names.group_authenticated, names.group_unauthenticated
    if name == names.user_anonymous:
        groups = groups if unauthenticated in groups else (*groups, unauthenticated)
    elif authenticated not in groups and unauthenticated not in groups:
        groups = (*groups, authenticated)
    return UserInfo(name, groups, uid, extra)


def account_named(names: Names, name: str) -> tuple[str, str] | None:
    """Namespace and name of the service account that a user name stands for, if it does."""
    start = names.service_account_user("", "").removesuffix(":")
    namespace, _, account = name.removeprefix(start).partition(":")
    if not namespace or not account or ":" in account or not name.startswith(start):
        return None
    return namespace, account
