"""Bootstrap tokens: Secrets of the system namespace by which a machine joins a cluster.

Holds: a token is accepted only if its Secret has the right type, names the same id and secret, has
not expired and allows authentication.

Mirrors  kubernetes v1.25 plugin/pkg/auth/authenticator/token/bootstrap/bootstrap.go,
         cluster-bootstrap token/util/helpers.go, util/secrets/secrets.go.
"""

from __future__ import annotations

import hmac
import re
from base64 import b64decode
from collections.abc import Callable

from sim.api.auth.authenticator import Accepted, Outcome
from sim.api.types import Obj, UserInfo
from sim.ident import Names
from sim.patterns import pattern
from sim.units import parse_time

ID, SECRET, EXPIRATION = "token-id", "token-secret", "expiration"
FOR_AUTHENTICATION, EXTRA_GROUPS = "usage-bootstrap-authentication", "auth-extra-groups"
_TOKEN = pattern(r"([a-z0-9]{6})\.([a-z0-9]{16})")
Find = Callable[[str, str, str], Obj | None]


class BootstrapTokens:
    """Tokens of Secrets.  find: as of `AccountTokens`; wall_us: reads Unix time, in microseconds"""

    def __init__(self, names: Names, find: Find, wall_us: Callable[[], int]) -> None:
        self._names = names
        self._find = find
        self._wall_us = wall_us
        self._group = re.compile(f"{names.group_bootstrappers}:[a-z0-9:-]{{0,255}}[a-z0-9]")

    def authenticate(self, token: str, audiences: tuple[str, ...]) -> Outcome:
        """The user of a token; None for any that is not valid."""
        names, parts = self._names, _TOKEN.fullmatch(token)
        if parts is None:
            return None
        secret = self._find("secrets", names.system_namespace, names.bootstrap_secret_prefix + parts[1])
        if secret is None or secret["metadata"].get("deletionTimestamp"):
            return None
        if secret.get("type") != names.secret_type_bootstrap_token:
            return None
        data = {key: b64decode(value) for key, value in (secret.get("data") or {}).items()}
        if not hmac.compare_digest(data.get(SECRET, b""), parts[2].encode()):
            return None
        if data.get(ID) != parts[1].encode() or self._has_expired(data.get(EXPIRATION, b"")):
            return None
        groups = self._groups(data.get(EXTRA_GROUPS, b"").decode("utf-8", "replace"))
        if data.get(FOR_AUTHENTICATION) != b"true" or groups is None:
            return None
        return Accepted(UserInfo(names.user_bootstrap_prefix + parts[1], groups))

    def _has_expired(self, expiration: bytes) -> bool:
        if not expiration:
            return False
        try:
            return parse_time(expiration.decode("utf-8", "replace")) <= self._wall_us()
        except ValueError:  # what cannot be read has expired
            return True

    def _groups(self, extra: str) -> tuple[str, ...] | None:
        """All groups, sorted; None if one is not allowed."""
        named = extra.split(",") if extra else []
        if not all(self._group.fullmatch(group) for group in named):
            return None
        return tuple(sorted({self._names.group_bootstrappers, *named}))
