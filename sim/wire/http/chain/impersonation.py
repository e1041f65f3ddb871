"""The stage of impersonation: the user that headers ask to act as, if the sender may.

Headers become an `Impersonation`, and that a `UserInfo` or a refusal. The authorizer judges each
part by itself: the user or service account, each group, each value of extra and the uid.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/filters/impersonation.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple
from urllib.parse import unquote

from sim.api.auth.attributes import AccessAttributes, Decision, OpinionGiver
from sim.api.auth.chain import forbidden
from sim.api.auth.users import account_named, user_named
from sim.api.types import Obj, UserInfo
from sim.ident import Names
from sim.wire.exchange import Response
from sim.wire.http.chain.authorization import Judge, judged
from sim.wire.http.chain.request import HttpRequest, Outcome, plain_text
from sim.wire.http.refused import Refused

VERB = "impersonate"
_HEADERS = "impersonate-"
_EXTRA = "impersonate-extra-"


class Impersonation(NamedTuple):
    """The user that the headers of a request ask to act as."""

    name: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, headers: Iterable[tuple[str, str]]) -> Impersonation:
        """The impersonation that headers ask for."""
        names: list[str] = []
        uids: list[str] = []
        groups, extra = [], []
        for header, value in headers:
            key = header.lower()
            if key == "impersonate-user":
                names.append(value)
            elif key == "impersonate-uid":
                uids.append(value)
            elif key == "impersonate-group":
                groups.append(value)
            elif key.startswith(_EXTRA):
                extra.append((unquote(key.removeprefix(_EXTRA)), value))
        # The first of repeated headers counts, an empty one too.
        return cls("".join(names[:1]), tuple(groups), "".join(uids[:1]), tuple(extra))

    def without_user(self, names: Names) -> str:
        """The attributes requested without a user, as upstream prints them; "" if there are none."""
        if self.name:
            return ""
        version = names.api_version("authentication", "v1")
        printed = [f"{{Group  {group}    }}" for group in self.groups]
        printed += [f"{{UserExtra  {value}  {version}  {key}}}" for key, value in self.extra]
        printed += [f"{{UID  {self.uid}  {version}  }}"] if self.uid else []
        return " ".join(printed)


def impersonated(
    names: Names, authorizer: OpinionGiver, user: UserInfo, wanted: Impersonation
) -> UserInfo | Obj:
    """The user to act as, or the Status of a refusal."""
    for asked in _rights(names, wanted):
        opinion = authorizer.authorize(user, asked)
        if opinion.decision is not Decision.ALLOW:
            return forbidden(user, asked, opinion.reason)
    extra: dict[str, tuple[str, ...]] = {}
    for key, value in wanted.extra:
        extra[key] = (*extra.get(key, ()), value)
    return user_named(names, wanted.name, wanted.groups, wanted.uid, extra)


def _rights(names: Names, wanted: Impersonation) -> Iterator[AccessAttributes]:
    """The rights that a request for an impersonation needs, in the order of the checks."""
    group, account = names.group("authentication"), account_named(names, wanted.name)
    if account:
        namespace, name = account
        yield AccessAttributes(VERB, version="v1", resource="serviceaccounts", namespace=namespace, name=name)
    else:
        yield AccessAttributes(VERB, version="v1", resource="users", name=wanted.name)
    for each in wanted.groups:
        yield AccessAttributes(VERB, version="v1", resource="groups", name=each)
    for key, value in wanted.extra:
        yield AccessAttributes(
            VERB, group=group, version="v1", resource="userextras", subresource=key, name=value
        )
    if wanted.uid:
        yield AccessAttributes(VERB, group=group, version="v1", resource="uids", name=wanted.uid)


class Impersonator:
    """The stage.  judge: gets the opinion about a request that a service has to judge"""

    def __init__(self, names: Names, authorizer: OpinionGiver, judge: Judge) -> None:
        self._names = names
        self._authorizer = authorizer
        self._judge = judge

    def __call__(self, request: HttpRequest) -> Outcome:
        """Replaces the user of a request that asks for it.  Raises Refused."""
        pairs = request.exchange.headers.pairs
        for name, _ in pairs:
            if name.startswith(_HEADERS):
                break
        else:
            return None
        wanted = Impersonation.of(pairs)
        userless = wanted.without_user(self._names)
        if userless:
            path = request.exchange.path
            text = f'Internal Server Error: "{path}": requested [{userless}] without impersonating a user\n'
            return plain_text(500, text)
        return self._impersonate(request, wanted) if wanted.name else None

    async def _impersonate(self, request: HttpRequest, wanted: Impersonation) -> Response | None:
        names, user = self._names, request.user
        acting = await judged(
            self._authorizer, self._judge, lambda giver: impersonated(names, giver, user, wanted)
        )
        if not isinstance(acting, UserInfo):
            raise Refused(acting)
        request.audited.impersonate(acting)
        request.user = acting
        return None
