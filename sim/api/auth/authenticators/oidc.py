"""OpenID Connect: ID tokens of one issuer, with claims that name a user.

A token and the keys of its issuer become a user or an error.

Holds: only a token that the issuer signed for this client, with an algorithm of the list, within
its time and with all required claims is accepted; without keys nothing is.

Mirrors  kubernetes v1.25 apiserver plugin/pkg/authenticator/token/oidc/oidc.go, coreos/go-oidc 2.2
         (verify.go, jwks.go: keys are fetched again when none verifies a token).
Differs  there are no distributed claims; times are those of the clock outside of the simulation,
         since the issuer is outside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from sim.api.auth.authenticator import Accepted, Outcome, Pending, Rejected
from sim.api.auth.keys import VerifyingKey
from sim.api.auth.web_tokens import WebToken, parse_token, text_of
from sim.api.schema.json_text import go_quote
from sim.api.types import Obj, UserInfo
from sim.dataclass import dataclass
from sim.units import SECOND

SOURCE = "oidc"
LEEWAY_S = 60  # verify.go: of nbf only
FETCH_AGAIN_US = 10 * SECOND  # oidc.go: the pause of its initialization


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """What tokens have to hold, and what of them names the user.

    client: the audience; user_prefix: without "-", which stands for none
    """

    issuer: str
    client: str
    user_claim: str = "sub"
    user_prefix: str = ""
    groups_claim: str = ""
    groups_prefix: str = ""
    algorithms: tuple[str, ...] = ("RS256",)
    required: Mapping[str, str] = field(default_factory=dict)


def prefix_of(given: str, issuer: str, user_claim: str) -> str:
    """The prefix of users that an option means (pkg/kubeapiserver/authenticator/config.go)."""
    if not given and user_claim != "email":
        return f"{issuer}#"
    return "" if given == "-" else given


class IssuerKeys:
    """The keys of the issuer as far as they are known.

    fixed: True if they come from a file and are never fetched
    """

    def __init__(self, keys: Sequence[VerifyingKey] = (), *, fixed: bool = False) -> None:
        self.keys = tuple(keys)
        self.fixed = fixed
        self.fetched_us = -FETCH_AGAIN_US

    def verifies(self, token: WebToken) -> bool:
        """True if a key verifies a token; a key that the token names is the only one tried."""
        named = token.key_id
        return any(key.verifies(token) for key in self.keys if not named or key.key_id == named)

    def take(self, keys: Sequence[VerifyingKey] | None, at_us: int) -> None:
        """Replace the keys; None keeps those that are known, after a failure."""
        self.fetched_us = at_us
        if keys is not None:
            self.keys = tuple(keys)


class IdTokens:
    """ID tokens.  outside_us: as of `ClientCertificates`"""

    def __init__(self, rules: ClaimRules, keys: IssuerKeys, outside_us: Callable[[], int]) -> None:
        self._rules = rules
        self._keys = keys
        self._outside_us = outside_us

    def authenticate(self, token: str, audiences: tuple[str, ...]) -> Outcome:
        """The user of a token; None if another issuer's."""
        found, keys = parse_token(token), self._keys
        if found is None or text_of(found.claims, "iss") != self._rules.issuer:
            return None
        error = self._error(found)
        if not error and not keys.verifies(found):
            if not keys.fixed and self._outside_us() >= keys.fetched_us + FETCH_AGAIN_US:
                return Pending(SOURCE, "")
            if not keys.keys:
                return Rejected(("oidc: authenticator not initialized",))
            error = "failed to verify signature: failed to verify id token signature"
        if error:
            return Rejected((f"oidc: verify token: {error}",))
        user = self._user(found.claims)
        return Rejected((f"oidc: {user}",)) if isinstance(user, str) else Accepted(user)

    def _error(self, token: WebToken) -> str:
        rules, claims = self._rules, token.claims
        own = claims.get("aud")
        own = [own] if isinstance(own, str) else own if isinstance(own, list) else []
        if rules.client not in own:
            shown = " ".join(go_quote(str(each)) for each in own)
            return f"oidc: expected audience {go_quote(rules.client)} got [{shown}]"
        now_s = self._outside_us() / SECOND
        if _number(claims.get("exp")) < now_s:
            return "oidc: token is expired"
        if now_s + LEEWAY_S < _number(claims.get("nbf")):
            return "oidc: current time is before the nbf (not before) time"
        if token.algorithm not in rules.algorithms:
            expected = " ".join(go_quote(each) for each in rules.algorithms)
            got = go_quote(token.algorithm)
            return f"oidc: id token signed with unsupported algorithm, expected [{expected}] got {got}"
        return ""

    def _user(self, claims: Obj) -> UserInfo | str:
        rules = self._rules
        name = claims.get(rules.user_claim)
        if not isinstance(name, str):
            why = "claim not present" if name is None else "it is no text"
            return f"parse username claims {go_quote(rules.user_claim)}: {why}"
        if rules.user_claim == "email" and claims.get("email_verified", True) is not True:
            return "email not verified"
        groups = claims.get(rules.groups_claim, []) if rules.groups_claim else []
        if isinstance(groups, str):
            groups = [groups]
        if not isinstance(groups, list) or not all(isinstance(each, str) for each in groups):
            return f"parse groups claim {go_quote(rules.groups_claim)}: it is no text and no list of texts"
        for claim, value in sorted(rules.required.items()):
            if claim not in claims:
                return f"required claim {claim} not present in ID token"
            if claims[claim] != value:
                return f"required claim {claim} value does not match. Got = {claims[claim]}, want = {value}"
        prefixed = tuple(f"{rules.groups_prefix}{group}" for group in groups)
        return UserInfo(f"{rules.user_prefix}{name}", prefixed)


def _number(value: Any) -> float:
    """A time of a token; 0 where there is none."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0
