"""Syncs of accounts and of their token Secrets as steps: what follows an answer.  Pure.

Turns a key, what the caches hold and the answers to requests into the next action.

Holds: a token is made for the account that exists at that moment, under the name and uid that its
       Secret's annotations give; a new Secret without a reference to it is deleted again.

Mirrors  kubernetes v1.25 pkg/controller/serviceaccount/tokens_controller.go (syncServiceAccount,
         syncSecret, ensureReferencedToken, generateTokenIfNeeded, removeSecretReference).
Differs  The delays between attempts to remove a reference have no jitter (upstream doubles them at
         most).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from actors.controllers.serviceaccount_tokens.decide import (
    TOKEN,
    AccountKey,
    SecretKey,
    account_key,
    filled,
    has_referenced_token,
    missing_fields,
    secret_key,
    with_reference,
    without_reference,
)
from actors.controllers.shared.pod_owners import is_terminating_refusal
from actors.controllers.shared.shell import RETRY_US, RootCa, aggregate
from actors.controllers.shared.steps import Get, Sleep, T, Update
from sim.api.objects import uid_of
from sim.api.types import Obj, Reply
from sim.dataclass import dataclass
from sim.ident import Names
from sim.units import MS

ACCOUNTS, SECRETS = "serviceaccounts", "secrets"
REMOVE_US = (100 * MS,) * 9  # RemoveTokenBackoff


@dataclass(frozen=True, slots=True)
class Make:
    """Create a token Secret for an account, under a new name."""

    account: Obj


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete a Secret, if it has this uid."""

    secret: SecretKey


Action = Get | Make | Update | Remove | Sleep
Steps = Generator[Action, Reply, T]


class Seen(NamedTuple):
    """What syncs see besides the answers; the caches are asked at the moment of the decision.

    account, secret: the one in the cache, by its namespace and name
    secrets_of: the token Secrets in the cache that name an account
    sign: the token of an account that the Secret of this name holds
    generates: True if an account without a token gets one
    """

    names: Names
    account: Callable[[str], Obj | None]
    secret: Callable[[str], Obj | None]
    secrets_of: Callable[[AccountKey], Sequence[Obj]]
    authority: RootCa
    sign: Callable[[Obj, str], str]
    generates: bool


class Syncs:
    """The syncs of one process, which know the Secrets that were made and the cache may lack."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._made: dict[str, list[Obj]] = {}  # by the uid of their account

    def account(self, key: AccountKey) -> Steps[str | None]:
        """Delete the Secrets of an account that is gone; make one for an account that has none,
        if the gate says so.
        """
        account = self._cached_account(*key)
        if account is not None:
            return (yield from self._ensure_token(account)) if self._seen.generates else None
        errors: list[str] = []
        self._made.pop(key.uid, None)
        for secret in self._seen.secrets_of(key):
            error = _error((yield Remove(secret_key(secret, self._seen.names))))
            errors += [error] if error else []
        return aggregate(errors)

    def secret(self, key: SecretKey) -> Steps[str | None]:
        """Fill a Secret, or delete it if its account is gone; a Secret that is gone leaves its
        account's references.
        """
        if not key.account:
            return None  # an invalid Secret: upstream reports it and does not retry
        secret = self._seen.secret(f"{key.namespace}/{key.name}")
        account = self._cached_account(key.namespace, key.account, key.account_uid)
        if secret is None or uid_of(secret) != key.uid:
            if account is not None:
                yield from _unrefer(key)
            return None
        if account is None:
            live = yield Get(ACCOUNTS, key.namespace, key.account)
            if not live.ok and live.reason != "NotFound":
                return live.message
            if not live.ok or not _is(live.obj, key.account_uid):
                return _error((yield Remove(key)))
            account = live.obj
        return (yield from self._fill(secret, account))

    def _cached_account(self, namespace: str, name: str, uid: str) -> Obj | None:
        account = self._seen.account(f"{namespace}/{name}")
        return account if account is not None and _is(account, uid) else None

    # --- a token for an account -------------------------------------------------------------------

    def _has_token(self, account: Obj) -> bool:
        cached = self._seen.secrets_of(account_key(account))
        return has_referenced_token(account, [*self._made.get(uid_of(account), ()), *cached])

    def _ensure_token(self, account: Obj) -> Steps[str | None]:
        if self._has_token(account):
            return None
        metadata = account["metadata"]
        live = yield Get(ACCOUNTS, metadata["namespace"], metadata["name"])
        if not live.ok:
            return live.message
        if live.obj["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
            return "the account in the cache is not the newest one"
        created = yield Make(account)
        if not created.ok:
            return None if is_terminating_refusal(created) else created.message
        # It counts before the cache shows it, or the update of the account would lead to another.
        self._made.setdefault(uid_of(account), []).append(created.obj)
        return (yield from self._refer(live.obj, created.obj))

    def _refer(self, live: Obj, secret: Obj) -> Steps[str | None]:
        """Add the reference to a new Secret; without it the Secret is deleted again."""
        metadata, name = live["metadata"], secret["metadata"]["name"]
        reply = yield Update(ACCOUNTS, with_reference(live, name))
        for wait_us in RETRY_US:
            if reply.reason != "Conflict":
                break
            yield Sleep(wait_us)
            found = yield Get(ACCOUNTS, metadata["namespace"], metadata["name"])
            if not found.ok or uid_of(found.obj) != metadata["uid"] or self._has_token(found.obj):
                yield Remove(secret_key(secret, self._seen.names))
                return _error(found)
            reply = yield Update(ACCOUNTS, with_reference(found.obj, name))
        if not reply.ok:
            yield Remove(secret_key(secret, self._seen.names))
        return _error(reply)

    # --- the fields of a Secret -------------------------------------------------------------------

    def _fill(self, cached: Obj, account: Obj) -> Steps[str | None]:
        seen, authority = self._seen, self._seen.authority.pem
        if not missing_fields(cached, authority):
            return None
        metadata = cached["metadata"]
        live = yield Get(SECRETS, metadata["namespace"], metadata["name"])
        if not live.ok:
            return None if live.reason == "NotFound" else live.message
        secret = live.obj
        if secret["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
            return None  # the update that the cache lacks will come
        is_signed = TOKEN not in missing_fields(secret, authority)
        token = "" if is_signed else seen.sign(account, metadata["name"])
        return _error((yield Update(SECRETS, filled(secret, account, authority, token, seen.names))))


def _unrefer(key: SecretKey) -> Steps[None]:
    """Remove the references to a Secret that is gone from its account, again after a conflict."""
    for wait_us in (0, *REMOVE_US):
        if wait_us:
            yield Sleep(wait_us)
        live = yield Get(ACCOUNTS, key.namespace, key.account)
        account = without_reference(live.obj, key) if live.ok else None
        if account is None or (yield Update(ACCOUNTS, account)).reason != "Conflict":
            return


def _error(reply: Reply) -> str | None:
    """The error of a write; a conflict is none, for the change that led to it will be synced."""
    return None if reply.ok or reply.reason in ("Conflict", "NotFound") else reply.message


def _is(account: Obj, uid: str) -> bool:
    """True if an account has this uid; "" stands for any."""
    return not uid or uid_of(account) == uid
