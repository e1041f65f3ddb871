"""Authentication of requests from outside: bearer tokens and client certificates.

The credentials of a request become a `UserInfo`.

Holds: an invalid credential is refused, never treated as anonymous.

Mirrors  kubernetes v1.25 apiserver
         pkg/authentication/{request/bearertoken,token/tokenfile,request/x509}.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim.api.auth.account_tokens import AccountTokens
from sim.api.types import UserInfo
from sim.errors import InputError
from sim.files import read_bounded
from sim.ident import Names

TOKEN_COLUMNS_MIN = 3
TOKEN_FILE_MAX = 4 << 20  # bytes: some 50,000 users


@dataclass(frozen=True, slots=True)
class Certificate:
    """The subject of a verified client certificate: CN is the user, each O a group."""

    name: str
    groups: tuple[str, ...] = ()


def subject(peer: Mapping[str, Any] | None) -> Certificate | None:
    """The subject of what `ssl.SSLSocket.getpeercert` answers."""
    pairs = [pair for group in (peer or {}).get("subject", ()) for pair in group]
    name = next((value for key, value in pairs if key == "commonName"), "")
    return (
        Certificate(name, tuple(value for key, value in pairs if key == "organizationName")) if name else None
    )


def read_tokens(path: Path) -> dict[str, UserInfo]:
    """A static token file: token,user,uid and, quoted, groups.  Raises InputError."""
    try:
        text = read_bounded(path, TOKEN_FILE_MAX).decode()
        rows = list(csv.reader(text.splitlines(), skipinitialspace=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(str(error), str(path)) from None
    found = {}
    for number, columns in enumerate(rows, 1):
        if not columns or columns[0].startswith("#"):
            continue
        if len(columns) < TOKEN_COLUMNS_MIN or not columns[0] or not columns[1]:
            raise InputError("a line needs token, user and uid", f"{path}:{number}")
        groups = tuple(g.strip() for g in columns[3].split(",") if g.strip()) if len(columns) > 3 else ()
        found[columns[0]] = UserInfo(columns[1], groups, columns[2])
    return found


class Authenticator:
    """The tokens of a server and of its service accounts. `identify` returns None for an invalid
    one (401).
    """

    def __init__(
        self, names: Names, tokens: Mapping[str, UserInfo], accounts: AccountTokens | None = None
    ) -> None:
        self._names = names
        self._accounts = accounts
        self._tokens = {token: self._with_group(user) for token, user in tokens.items()}
        self._anonymous = UserInfo(names.user_anonymous, (names.group_unauthenticated,))

    def _with_group(self, user: UserInfo) -> UserInfo:
        member = self._names.group_authenticated
        if member in user.groups:
            return user
        return UserInfo(user.name, (*user.groups, member), user.uid, user.extra)

    def identify(self, authorization: str, certificate: Certificate | None) -> UserInfo | None:
        """The user of a request's credentials; None if they are invalid."""
        if certificate is not None:
            return self._with_group(UserInfo(certificate.name, certificate.groups))
        scheme, _, rest = authorization.strip().partition(" ")
        token = rest.split(" ")[0]
        if scheme.lower() != "bearer" or not token:
            return self._anonymous
        known = self._tokens.get(token)
        return self._accounts.user(token) if known is None and self._accounts is not None else known
