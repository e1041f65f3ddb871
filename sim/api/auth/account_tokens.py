"""Tokens of service accounts as credentials: signs the tokens that a server issues and verifies
those that clients present.

Holds: only a holder of the server's key, which is random and never leaves it, can make a valid
token; a token is invalid once its service account, pod or secret is deleted or replaced.

Mirrors  kubernetes v1.25 pkg/serviceaccount/{jwt,claims,util}.go.
Differs  the signature consists of keyed digests and has the length of RS256's.
"""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from sim.api.types import Obj, UserInfo
from sim.ident import Names
from sim.units import SECOND, parse_time

SIGNATURE_BYTES = 256  # RS256 with a key of 2048 bits
LEEWAY_S = 60  # go-jose jwt.DefaultLeeway: for clocks, and for objects that are being deleted
_BOUND = {"pod": "pods", "secret": "secrets"}
Find = Callable[[str, str, str], Obj | None]


class AccountTokens:
    """The tokens of one server.

    key: the key that it signs with
    wall_us: reads Unix time, in microseconds
    find: finds an object by resource, namespace and name
    """

    def __init__(self, names: Names, key: bytes, wall_us: Callable[[], int], find: Find) -> None:
        self._names = names
        self._key = key
        self._wall_us = wall_us
        self._find = find

    def sign(self, token: str) -> str:
        """The same claims, signed by this server."""
        claims = token.rpartition(".")[0]
        blocks = [
            hmac.digest(self._key, f"{i}.{claims}".encode(), sha256) for i in range(SIGNATURE_BYTES // 32)
        ]
        return f"{claims}.{urlsafe_b64encode(b''.join(blocks)).rstrip(b'=').decode()}"

    def user(self, token: str) -> UserInfo | None:
        """The service account of a token; None if another server signed it or it is no longer
        valid.
        """
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
        """True if the object that a claim names still exists."""
        obj = self._find(resource, namespace, claimed["name"])
        if obj is None or obj["metadata"]["uid"] != claimed["uid"]:
            return False
        ends = obj["metadata"].get("deletionTimestamp")
        return not ends or parse_time(ends) + LEEWAY_S * SECOND >= self._wall_us()
