"""Tokens of service accounts as credentials: signed on their way out, known when they come back.

Turns the token of a TokenRequest that is answered into one that this server signed, and such a token into the
`UserInfo` of its service account.

Holds: whoever has not the server's key, which is random and never leaves it, can make no token; one whose account, pod
or secret is gone, or another by now, is none.

Mirrors  kubernetes v1.25 pkg/serviceaccount/{jwt,claims,util}.go.
Differs  the signature is keyed digests of the length of RS256's.
"""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from sim.api.types import Obj, UserInfo
from sim.api.verbs.token import SIGNATURE_BYTES
from sim.ident import Names
from sim.units import SECOND, parse_time

LEEWAY_S = 60  # go-jose jwt.DefaultLeeway: of clocks, and of objects that are being deleted
_BOUND = {"pod": "pods", "secret": "secrets"}
Look = Callable[[str, str, str], Obj | None]


class AccountTokens:
    """Of one server.  key: what it signs with; wall_us: Unix time; look: an object by resource, namespace and name."""

    def __init__(self, names: Names, key: bytes, wall_us: Callable[[], int], look: Look) -> None:
        self._names = names
        self._key = key
        self._wall_us = wall_us
        self._look = look

    def sign(self, token: str) -> str:
        """The same claims, signed by this server."""
        claims = token.rpartition(".")[0]
        blocks = [
            hmac.digest(self._key, f"{i}.{claims}".encode(), sha256) for i in range(SIGNATURE_BYTES // 32)
        ]
        return f"{claims}.{urlsafe_b64encode(b''.join(blocks)).rstrip(b'=').decode()}"

    def user(self, token: str) -> UserInfo | None:
        """Whose token it is; None if it is not this server's, or not valid any more."""
        if not token.isascii() or token.count(".") != 2 or not hmac.compare_digest(token, self.sign(token)):
            return None
        text = token.split(".")[1]
        claims: dict[str, Any] = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        now_s = self._wall_us() / SECOND
        timely = claims["nbf"] - LEEWAY_S <= now_s <= claims["exp"] + LEEWAY_S
        if not timely or claims["iss"] not in claims["aud"]:
            return None
        return self._of(claims[self._names.domain])

    def _of(self, private: dict[str, Any]) -> UserInfo | None:
        names, namespace = self._names, private["namespace"]
        account = private["serviceaccount"]
        if not self._lives("serviceaccounts", namespace, account):
            return None
        extra: dict[str, tuple[str, ...]] = {}
        for kind, resource in _BOUND.items():
            bound = private.get(kind)
            if bound is not None and not self._lives(resource, namespace, bound):
                return None
            if bound is not None and kind == "pod":
                extra[f"authentication.{names.domain}/pod-name"] = (bound["name"],)
                extra[f"authentication.{names.domain}/pod-uid"] = (bound["uid"],)
        user = names.service_account_user(namespace, account["name"])
        return UserInfo(user, names.service_account_groups(namespace), account["uid"], extra)

    def _lives(self, resource: str, namespace: str, claimed: dict[str, str]) -> bool:
        obj = self._look(resource, namespace, claimed["name"])
        if obj is None or obj["metadata"]["uid"] != claimed["uid"]:
            return False
        ends = obj["metadata"].get("deletionTimestamp")
        return not ends or parse_time(ends) + LEEWAY_S * SECOND >= self._wall_us()
