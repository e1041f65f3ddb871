"""A request as authorization sees it, and what an authorizer says of it.

Every transport turns a request into `AccessAttributes`; every authorizer answers with an `Opinion`.

Mirrors  kubernetes v1.25 apiserver pkg/authorization/authorizer/interfaces.go.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol

import msgspec

from sim.api.types import UserInfo


class AccessAttributes(msgspec.Struct, frozen=True):
    """What a user wants to do.

    verb: of a resource request, or the lower-case HTTP method of a request for a path
    path: the path of a request that is not for a resource, else ""
    group, version, resource, subresource, namespace, name: of a resource request, else ""
    """

    verb: str
    path: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def is_resource(self) -> bool:
        """True for a request to a resource."""
        return bool(self.resource)


class Decision(Enum):
    """The three answers of an authorizer."""

    ALLOW = "allow"
    DENY = "deny"
    NO_OPINION = "no opinion"


class Opinion(NamedTuple):
    """The answer of an authorizer.

    reason: why, in upstream's words; "" if there is none
    error: what kept it from evaluating all rules (for example a binding to an absent role); "" if
        nothing did
    """

    decision: Decision
    reason: str = ""
    error: str = ""


NO_OPINION = Opinion(Decision.NO_OPINION)


class OpinionGiver(Protocol):
    """One authorizer, or a chain of them."""

    def authorize(self, user: UserInfo, attributes: AccessAttributes) -> Opinion:
        """Judge one request."""
        ...
