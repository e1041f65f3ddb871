"""The claims of service account tokens: what a server signs, and what makes a token valid.

An account and the object that a token is bound to become claims; the claims of a verified token
become a user or an error.

Holds: a token is invalid once its service account, pod or secret is deleted or replaced; a legacy
token is valid only while its Secret holds exactly this token.

Mirrors  kubernetes v1.25 pkg/serviceaccount/{jwt,claims,legacy,util}.go,
         pkg/controller/serviceaccount/tokengetter.go, go-jose jwt/validation.go.
Differs  objects are read from the store, and not from a cache that may lag behind it; stale
         tokens are counted, and cause no audit annotation.
"""

from __future__ import annotations

import hmac
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from sim.api.auth.authenticator import Accepted, Outcome, Rejected, intersection
from sim.api.auth.web_tokens import parse_token, text_of
from sim.api.schema.json_text import go_quote
from sim.api.types import Obj, UserInfo
from sim.dataclass import dataclass
from sim.ident import Names
from sim.units import SECOND, parse_time

if TYPE_CHECKING:
    from sim.api.auth.keys import VerifyingKeys

# Projected volumes ask for this expiration, so that old clients, which do not read a token again,
# are noticed: their tokens live for a year, with a claim from when on they are stale.
WARN_ONLY_EXPIRATION_S = 3607
EXTENDED_EXPIRATION_S = 365 * 24 * 3600
LEEWAY_S = 60  # jwt.DefaultLeeway: for clocks, and for objects that are being deleted
LEGACY_TOKEN_KEY = "token"  # core.ServiceAccountTokenKey
_KINDS = {"pods": "pod", "secrets": "secret"}
Find = Callable[[str, str, str], Obj | None]


@dataclass(frozen=True, slots=True)
class TokenRules:
    """How a cluster issues tokens.

    issuers: those that are accepted; the first one issues
    audiences: of the API
    extends: True if pods' tokens of 3607 s live for a year
    expiration_max_s: longer requests are shortened; 0: none is
    """

    issuers: tuple[str, ...]
    audiences: tuple[str, ...]
    extends: bool = True
    expiration_max_s: int = 0

    @classmethod
    def of(cls, names: Names) -> TokenRules:
        """The rules of a server without options."""
        return cls((names.issuer_service_account,), (names.issuer_service_account,))

    @property
    def issuer(self) -> str:
        """The issuer of new tokens."""
        return self.issuers[0]


class _Reference(msgspec.Struct, frozen=True):
    name: str = ""
    uid: str = ""


class _Bound(msgspec.Struct, frozen=True):
    namespace: str = ""
    serviceaccount: _Reference = _Reference()
    pod: _Reference | None = None
    secret: _Reference | None = None


class _Times(msgspec.Struct, frozen=True):
    """The times of a token, in seconds; None where it names none."""

    exp: float | None = None
    nbf: float | None = None
    iat: float | None = None


# --- issuing --------------------------------------------------------------------------------------


def bound_claims(
    names: Names,
    issuer: str,
    account: Obj,
    bound: tuple[str, Obj] | None,
    audiences: Sequence[str],
    now_s: int,
    expiration_s: int,
    warn_after_s: int = 0,
) -> Obj:
    """The claims of a token that a TokenRequest gets.

    bound: plural and object that the token lives as long as
    warn_after_s: 0 for no such claim
    """
    metadata = account["metadata"]
    private: Obj = {"namespace": metadata["namespace"], "serviceaccount": _reference(account)}
    if bound is not None:
        private[_KINDS[bound[0]]] = _reference(bound[1])
    if warn_after_s:
        private["warnafter"] = now_s + warn_after_s
    return {
        "aud": list(audiences),
        "exp": now_s + expiration_s,
        "iat": now_s,
        "iss": issuer,
        names.claim_bound: private,
        "nbf": now_s,
        "sub": names.service_account_user(metadata["namespace"], metadata["name"]),
    }


def legacy_claims(names: Names, account: Obj, secret_name: str) -> Obj:
    """The claims of a token that a Secret holds."""
    metadata = account["metadata"]
    return {
        "iss": names.issuer_legacy_service_account,
        names.claim_legacy_namespace: metadata["namespace"],
        names.claim_legacy_secret: secret_name,
        names.claim_legacy_account: metadata["name"],
        names.claim_legacy_uid: metadata["uid"],
        "sub": names.service_account_user(metadata["namespace"], metadata["name"]),
    }


def _reference(obj: Obj) -> Obj:
    return {"name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]}


# --- verifying ------------------------------------------------------------------------------------


class AccountTokens:
    """Verifies tokens of service accounts: with `legacy` those of Secrets, otherwise bound ones.

    find: finds an object by resource, namespace and name
    wall_us: reads Unix time, in microseconds
    """

    def __init__(
        self,
        names: Names,
        rules: TokenRules,
        keys: VerifyingKeys,
        find: Find,
        wall_us: Callable[[], int],
        *,
        legacy: bool = False,
    ) -> None:
        self._names = names
        self._rules = rules
        self._keys = keys
        self._find = find
        self._wall_us = wall_us
        self._legacy = legacy
        # Called with "legacy", "valid" or "stale" for a token that metrics count.
        self.counted: Callable[[str], None] = lambda kind: None
        self._issuers = (names.issuer_legacy_service_account,) if legacy else rules.issuers

    def authenticate(self, token: str, audiences: tuple[str, ...]) -> Outcome:
        """The service account of a token; None if another issuer's."""
        found = parse_token(token)
        if found is None or text_of(found.claims, "iss") not in self._issuers:
            return None
        errors = self._keys.errors_of(found)
        if errors:
            return Rejected(errors)
        own = _audiences(found.claims) or self._rules.audiences
        wanted = audiences or self._rules.audiences
        common = intersection(own, wanted)
        if not common and self._rules.audiences:
            shown = f"token audiences {_quoted(own)} is invalid for the target audiences {_quoted(wanted)}"
            return Rejected((shown,))
        user = self._legacy_user(found.claims, token) if self._legacy else self._bound_user(found.claims)
        if isinstance(user, str):
            return Rejected((user,))
        self._count(found.claims)
        return Accepted(user, common)

    def _count(self, claims: Obj) -> None:
        """Count a token (pkg/serviceaccount/metrics.go): a bound one if it says when it is stale."""
        if self._legacy:
            self.counted("legacy")
            return
        warn_after_s = (claims.get(self._names.claim_bound) or {}).get("warnafter")
        if warn_after_s:
            self.counted("stale" if self._wall_us() > warn_after_s * SECOND else "valid")

    def _bound_user(self, claims: Obj) -> UserInfo | str:
        try:
            times = msgspec.convert(claims, _Times)
            bound = msgspec.convert(claims.get(self._names.claim_bound) or {}, _Bound)
        except msgspec.ValidationError:
            return "service account token claims could not be validated due to unexpected private claim"
        error = self._time_error(times) or self._account_error(bound) or self._bound_error(bound)
        if error:
            return error
        names, account = self._names, bound.serviceaccount
        extra: dict[str, tuple[str, ...]] = {}
        if bound.pod is not None:
            extra = {names.extra_pod_name: (bound.pod.name,), names.extra_pod_uid: (bound.pod.uid,)}
        return self._user(bound.namespace, account.name, account.uid, extra)

    def _user(self, namespace: str, name: str, uid: str, extra: Mapping[str, tuple[str, ...]]) -> UserInfo:
        names = self._names
        groups = names.service_account_groups(namespace)
        return UserInfo(names.service_account_user(namespace, name), groups, uid, extra)

    def _time_error(self, times: _Times) -> str:
        now_s = self._wall_us() / SECOND
        if times.nbf is not None and now_s + LEEWAY_S < times.nbf:
            return "service account token is not valid yet"
        if times.exp is not None and now_s - LEEWAY_S > times.exp:
            return "service account token has expired"
        if times.iat is not None and now_s + LEEWAY_S < times.iat:
            return "service account token claims could not be validated due to unexpected validation error"
        return ""

    def _account_error(self, bound: _Bound) -> str:
        namespace, claimed = bound.namespace, bound.serviceaccount
        account = self._find("serviceaccounts", namespace, claimed.name)
        if account is None:
            return f'serviceaccounts "{claimed.name}" not found'
        if self._is_deleted(account):
            return f"service account {namespace}/{claimed.name} has been deleted"
        uid = account["metadata"]["uid"]
        return (
            "" if uid == claimed.uid else f"service account UID ({uid}) does not match claim ({claimed.uid})"
        )

    def _bound_error(self, bound: _Bound) -> str:
        for resource, claimed, what in (
            ("secrets", bound.secret, "secret"),
            ("pods", bound.pod, "pod"),
        ):
            if claimed is None:
                continue
            obj = self._find(resource, bound.namespace, claimed.name)
            if obj is None or self._is_deleted(obj):
                return "service account token has been invalidated"
            uid = obj["metadata"]["uid"]
            if uid != claimed.uid:
                does_not = f"does not match service account {what} ref claim ({claimed.uid})"
                return f"{what} UID ({uid}) {does_not}"
        return ""

    def _is_deleted(self, obj: Obj) -> bool:
        """True if an object has been going to be deleted for longer than the leeway."""
        ends = obj["metadata"].get("deletionTimestamp")
        return bool(ends) and parse_time(ends) + LEEWAY_S * SECOND < self._wall_us()

    def _legacy_user(self, claims: Obj, token: str) -> UserInfo | str:
        names = self._names
        subject = text_of(claims, "sub")
        namespace, secret_name, name, uid = (
            text_of(claims, claim)
            for claim in (
                names.claim_legacy_namespace,
                names.claim_legacy_secret,
                names.claim_legacy_account,
                names.claim_legacy_uid,
            )
        )
        wanted = {
            "sub": subject,
            "namespace": namespace,
            "secretName": secret_name,
            "serviceAccountName": name,
            "serviceAccountUID": uid,
        }
        missing = next((what for what, value in wanted.items() if not value), "")
        if missing:
            return f"{missing} claim is missing"
        if subject != names.service_account_user(namespace, name):
            return "sub claim is invalid"
        return self._legacy_error(namespace, secret_name, name, uid, token) or self._user(
            namespace, name, uid, {}
        )

    def _legacy_error(self, namespace: str, secret_name: str, name: str, uid: str, token: str) -> str:
        secret = self._find("secrets", namespace, secret_name)
        if secret is None or secret["metadata"].get("deletionTimestamp"):
            return "Token has been invalidated"
        held = b64decode((secret.get("data") or {}).get(LEGACY_TOKEN_KEY, ""))
        if not hmac.compare_digest(held, token.encode()):
            return "Token does not match server's copy"
        account = self._find("serviceaccounts", namespace, name)
        if account is None:
            return f'serviceaccounts "{name}" not found'
        if account["metadata"].get("deletionTimestamp"):
            return f"ServiceAccount {namespace}/{name} has been deleted"
        found = account["metadata"]["uid"]
        return "" if found == uid else f"ServiceAccount UID ({found}) does not match claim ({uid})"


def _audiences(claims: Obj) -> tuple[str, ...]:
    """The audiences of a token: a text or a list of texts."""
    value = claims.get("aud")
    if isinstance(value, str):
        return (value,)
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def _quoted(texts: Sequence[str]) -> str:
    """A list of texts as Go's %q prints it."""
    return "[" + " ".join(go_quote(text) for text in texts) + "]"
