"""Decisions about Secrets that hold tokens of service accounts.  Pure.

Turns a Secret of type service-account-token, its account and the certificate authority into the
fields that the Secret lacks, and into the filled Secret.

Mirrors  kubernetes v1.25 pkg/controller/serviceaccount/tokens_controller.go (secretUpdateNeeded,
         generateTokenIfNeeded, removeSecretReference, hasReferencedToken,
         ensureReferencedToken), pkg/serviceaccount/util.go.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import NamedTuple

from sim.api.types import Obj
from sim.ident import Names

CA, NAMESPACE, TOKEN = "ca.crt", "namespace", "token"


class AccountKey(NamedTuple):
    """A service account in the queue; its uid distinguishes it from a later one of the same name."""

    namespace: str
    name: str
    uid: str


class SecretKey(NamedTuple):
    """A token Secret in the queue, with the account that its annotations name.

    account_uid: "" if the Secret names none
    """

    namespace: str
    name: str
    uid: str
    account: str
    account_uid: str


def account_key(account: Obj) -> AccountKey:
    """The key of a service account."""
    metadata = account["metadata"]
    return AccountKey(metadata["namespace"], metadata["name"], metadata["uid"])


def secret_key(secret: Obj, names: Names) -> SecretKey:
    """The key of a token Secret."""
    metadata = secret["metadata"]
    annotations = metadata.get("annotations") or {}
    return SecretKey(
        metadata["namespace"],
        metadata["name"],
        metadata["uid"],
        annotations.get(names.annotation_service_account_name, ""),
        annotations.get(names.annotation_service_account_uid, ""),
    )


def is_token_secret(secret: Obj, names: Names) -> bool:
    """True if a Secret is of the type that this controller fills."""
    return bool(secret.get("type") == names.secret_type_service_account)


def token_owner(secret: Obj, names: Names) -> AccountKey:
    """The account that the annotations of a token Secret name; its uid may be absent ("")."""
    key = secret_key(secret, names)
    return AccountKey(key.namespace, key.account, key.account_uid)


def has_referenced_token(account: Obj, secrets: Iterable[Obj]) -> bool:
    """True if an account refers to one of its token Secrets.  secrets: those of the account"""
    named = {reference.get("name") for reference in account.get("secrets") or ()}
    return any(secret["metadata"]["name"] in named for secret in secrets)


def new_secret(account: Obj, name: str, authority: str, token: str, names: Names) -> Obj:
    """The token Secret of an account, of this name."""
    metadata = account["metadata"]
    values = {TOKEN: token, NAMESPACE: metadata["namespace"], **({CA: authority} if authority else {})}
    annotations = {
        names.annotation_service_account_name: metadata["name"],
        names.annotation_service_account_uid: metadata["uid"],
    }
    return {
        "metadata": {"name": name, "namespace": metadata["namespace"], "annotations": annotations},
        "type": names.secret_type_service_account,
        "data": {key: _encoded(value) for key, value in values.items()},
    }


def with_reference(account: Obj, secret: str) -> Obj:
    """The account with a reference to a Secret."""
    return {**account, "secrets": [*(account.get("secrets") or ()), {"name": secret}]}


def missing_fields(secret: Obj, authority: str) -> list[str]:
    """The keys of a Secret's data that have to be written.

    authority: the certificates as PEM text; "" if there are none, and the Secret's stay
    """
    data = secret.get("data") or {}
    wrong_authority = bool(authority) and data.get(CA) != _encoded(authority)
    return [
        *([CA] if wrong_authority else []),
        *([] if data.get(NAMESPACE) else [NAMESPACE]),
        *([] if data.get(TOKEN) else [TOKEN]),
    ]


def filled(secret: Obj, account: Obj, authority: str, token: str, names: Names) -> Obj:
    """The Secret with all that it lacked.

    token: "" if it has one
    """
    metadata, owner = secret["metadata"], account["metadata"]
    values = {CA: authority, NAMESPACE: metadata["namespace"], TOKEN: token}
    written = {field: _encoded(values[field]) for field in missing_fields(secret, authority)}
    annotations = {
        **(metadata.get("annotations") or {}),
        names.annotation_service_account_name: owner["name"],
        names.annotation_service_account_uid: owner["uid"],
    }
    return {
        **secret,
        "metadata": {**metadata, "annotations": annotations},
        "data": {**(secret.get("data") or {}), **written},
    }


def without_reference(account: Obj, secret: SecretKey) -> Obj | None:
    """The account without its references to a Secret that is gone; None if nothing has to change."""
    if secret.account_uid and secret.account_uid != account["metadata"]["uid"]:
        return None
    references = account.get("secrets") or []
    kept = [reference for reference in references if reference.get("name") != secret.name]
    return None if len(kept) == len(references) else {**account, "secrets": kept}


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()
