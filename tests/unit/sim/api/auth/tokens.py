"""A signing key, an account with its objects, and tokens made with them."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from typing import Any

from sim.api.auth.account_tokens import AccountTokens, TokenRules, bound_claims, legacy_claims
from sim.api.auth.keys import SigningKey, VerifyingKeys
from sim.api.auth.web_tokens import compact, encode
from sim.api.types import Obj
from sim.ident import NAMES
from sim.units import SECOND

N = NAMES["kubernetes"]
NOW_S = 1_700_000_000
API = N.issuer_service_account
RULES = TokenRules.of(N)


@cache
def key(number: int = 0) -> SigningKey:
    """One of several keys, made once."""
    return SigningKey.new()


class World:
    """The objects that tokens name; now_s may be changed."""

    def __init__(self, rules: TokenRules = RULES) -> None:
        self.now_s = NOW_S
        self.rules = rules
        self.objects: dict[tuple[str, str, str], Obj] = {}
        self.account = self.add("serviceaccounts", "a")
        self.pod = self.add("pods", "p")
        self.secret = self.add("secrets", "s")
        self.keys = VerifyingKeys([key().public])

    def add(self, resource: str, name: str, namespace: str = "ns", **fields: Any) -> Obj:
        metadata = {"name": name, "namespace": namespace, "uid": f"uid-{resource}-{name}"}
        obj = {"metadata": metadata, **fields}
        self.objects[resource, namespace, name] = obj
        return obj

    def find(self, resource: str, namespace: str, name: str) -> Obj | None:
        return self.objects.get((resource, namespace, name))

    def wall_us(self) -> int:
        return self.now_s * SECOND

    def tokens(self, legacy: bool = False) -> AccountTokens:
        return AccountTokens(N, self.rules, self.keys, self.find, self.wall_us, legacy=legacy)

    def claims(self, bound: tuple[str, Obj] | None = None, audiences: tuple[str, ...] = (API,)) -> Obj:
        return bound_claims(N, API, self.account, bound, audiences, NOW_S, 3600)

    def legacy(self) -> str:
        """A legacy token that its Secret holds."""
        token = key().token(legacy_claims(N, self.account, "s"))
        self.secret["data"] = {"token": b64encode(token.encode()).decode()}
        return token


def forged(header: Obj, claims: Obj, signature: bytes = b"") -> str:
    """A token with any header and signature."""
    return f"{compact(header, claims)}.{encode(signature)}"
