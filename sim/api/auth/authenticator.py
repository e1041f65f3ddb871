"""Authentication: the credentials of a request become a user, an error, or nothing.

Holds: the first success decides; a credential that every authenticator refuses is an error and
never an anonymous user; a request without credentials is anonymous, where that is allowed.

Mirrors  kubernetes v1.25 pkg/kubeapiserver/authenticator/config.go (New),
         apiserver pkg/authentication/{authenticator/audagnostic.go,
         request/{union,bearertoken,websocket},token/union,
         group/authenticated_group_adder.go}, apiserver pkg/server/config.go
         (AuthorizeClientBearerToken: the token of the loopback client is tried first, so that each
         refused token has the error "invalid bearer token" before its own).
Differs  nothing is cached: a success of upstream's is repeated for 10 s, so that a token outlives
         its account there for so long, and ends at once here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sim.api.auth.websocket_tokens import websocket_token
from sim.api.types import UserInfo
from sim.dataclass import dataclass
from sim.ident import Names

INVALID_TOKEN = "invalid bearer token"


class Accepted(NamedTuple):
    """A credential that is valid.

    audiences: those of the wanted audiences for which it is valid; () if the authenticator does not
        know audiences
    lasting: True if the credential is valid as long as the server runs
    """

    user: UserInfo
    audiences: tuple[str, ...] = ()
    lasting: bool = False


class Rejected(NamedTuple):
    """A credential that was judged invalid.  errors: in upstream's words"""

    errors: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The errors as upstream's Aggregate prints them."""
        found = list(dict.fromkeys(self.errors))
        return found[0] if len(found) == 1 else f"[{', '.join(found)}]" if found else ""


class Pending(NamedTuple):
    """A token about which a service outside has to be consulted first.

    source: which service; the shell that answers requests knows how to reach it
    """

    source: str
    token: str
    audiences: tuple[str, ...] = ()


# None: no credential that the authenticator recognizes.
Outcome = Accepted | Rejected | Pending | None
# The judgement of all authenticators.
Judged = Accepted | Rejected | Pending


@dataclass(frozen=True, slots=True)
class Certificate:
    """A client certificate as a connection presented it.

    name: the common name; groups: the organizations
    client_ca, front_proxy_ca: True if an authority of that bundle signed it
    valid_from_us, valid_until_us: Unix times
    for_clients: True if its extended key usage allows client authentication
    identifier: what errors name it
    """

    name: str
    groups: tuple[str, ...] = ()
    client_ca: bool = True
    front_proxy_ca: bool = False
    valid_from_us: int = 0
    valid_until_us: int = 1 << 62
    for_clients: bool = True
    identifier: str = ""


class Credentials(NamedTuple):
    """What a request shows of its sender.

    headers: all of the request, with names in lower case
    """

    headers: Sequence[tuple[str, str]] = ()
    certificate: Certificate | None = None


# The user of a request, by a credential that is no bearer token.
AuthenticateRequest = Callable[[Credentials], Outcome]
# The user of a bearer token that has to be valid for one of these audiences.
AuthenticateToken = Callable[[str, tuple[str, ...]], Outcome]


class AudienceAgnostic:
    """A token authenticator that does not know audiences: its tokens are for the API alone."""

    def __init__(self, audiences: tuple[str, ...], inner: AuthenticateToken) -> None:
        self._audiences = audiences
        self._inner = inner

    def authenticate(self, token: str, audiences: tuple[str, ...]) -> Outcome:
        """The user of a token, if one of the wanted audiences is the API's."""
        common = intersection(self._audiences, audiences)
        if audiences and not common:
            return None
        found = self._inner(token, audiences)
        return Accepted(found.user, common, found.lasting) if isinstance(found, Accepted) else found


class Authenticator:
    """All authenticators of a server, in upstream's order.

    audiences: those of the API
    anonymous: True if a request without credentials is anonymous
    """

    def __init__(
        self,
        names: Names,
        requests: Sequence[AuthenticateRequest],
        tokens: Sequence[AuthenticateToken],
        audiences: tuple[str, ...] = (),
        *,
        anonymous: bool = True,
    ) -> None:
        self._names = names
        self._requests = tuple(requests)
        self._tokens = tuple(tokens)
        self.audiences = audiences
        self._anonymous = anonymous

    def identify(self, credentials: Credentials) -> Judged:
        """The user of a request; ask again when what is pending has been answered."""
        found = _first(each(credentials) for each in self._requests)
        if not isinstance(found, Accepted):
            found = self._by_headers(credentials.headers, found)
        if isinstance(found, Pending):
            return found
        if isinstance(found, Accepted):
            return Accepted(self._with_group(found.user), found.audiences, found.lasting)
        if found is None and self._anonymous:
            names = self._names
            return Accepted(UserInfo(names.user_anonymous, (names.group_unauthenticated,)), self.audiences)
        return found or Rejected()

    def review(self, token: str, audiences: tuple[str, ...]) -> Judged:
        """The user of a token for a TokenReview."""
        header = bearer_token([("authorization", f"Bearer {token}")])
        if not header:
            return self.identify(Credentials())
        found = self._by_token(header, audiences or self.audiences)
        if isinstance(found, Accepted):
            return Accepted(self._with_group(found.user), found.audiences)
        return found

    def _by_headers(self, headers: Sequence[tuple[str, str]], before: Outcome) -> Outcome:
        """The user of a token in a header or, of a WebSocket request, in a subprotocol."""
        found = before
        errors = before.errors if isinstance(before, Rejected) else ()
        protocol, error = websocket_token(headers, self._names.protocol_bearer_prefix)
        for token in filter(None, (bearer_token(headers), protocol)):
            found = self._by_token(token, self.audiences, errors)
            if not isinstance(found, Rejected):
                return found
            errors = found.errors
        return Rejected((*errors, error)) if error else found

    def _by_token(self, token: str, audiences: tuple[str, ...], before: tuple[str, ...] = ()) -> Judged:
        found = _first(each(token, audiences) for each in self._tokens)
        if isinstance(found, Accepted | Pending):
            return found
        errors = (INVALID_TOKEN, *before)
        return Rejected((*errors, *(found.errors if found else (INVALID_TOKEN,))))

    def _with_group(self, user: UserInfo) -> UserInfo:
        names = self._names
        known = (names.group_authenticated, names.group_unauthenticated)
        if user.name == names.user_anonymous or any(group in known for group in user.groups):
            return user
        return UserInfo(user.name, (*user.groups, names.group_authenticated), user.uid, user.extra)


def _first(outcomes: Iterable[Outcome]) -> Outcome:
    """The first success or what has to be asked for before it; else all errors, else None."""
    errors: list[str] = []
    failed = False
    for outcome in outcomes:
        if isinstance(outcome, Accepted | Pending):
            return outcome
        if outcome is not None:
            failed = True
            errors += outcome.errors
    return Rejected(tuple(errors)) if failed else None


def bearer_token(headers: Iterable[tuple[str, str]]) -> str:
    """The token of the first Authorization header; "" if it holds none."""
    value = next((value for name, value in headers if name == "authorization"), "")
    scheme, _, rest = value.strip().partition(" ")
    return rest.split(" ")[0] if scheme.lower() == "bearer" else ""


def intersection(these: Iterable[str], others: Sequence[str]) -> tuple[str, ...]:
    """Those of `these` that are among `others`, in their order."""
    return tuple(each for each in these if each in others)
