"""Authorization: decides whether a user may use a verb on a path or a resource, and lists a user's
rules.

Mirrors  kubernetes v1.25 pkg/authorization; public paths: those of the bootstrap role
         system:public-info-viewer.
Differs  there are no roles yet: an authenticated user may do everything but impersonate.
"""

from __future__ import annotations

from sim.api.types import Obj, UserInfo
from sim.ident import Names

PUBLIC = ("/healthz", "/livez", "/readyz", "/version", "/version/")
IMPERSONATE = "impersonate"


def may(names: Names, user: UserInfo, verb: str, path: str | None = None) -> bool:
    """True if the user may use the verb.

    path: a non-resource path, None for a request to a resource
    """
    if names.group_masters in user.groups:
        return True
    if verb == "get" and path in PUBLIC:
        return True
    return verb != IMPERSONATE and names.group_authenticated in user.groups


def rules_of(names: Names, user: UserInfo) -> Obj:
    """The status of a SelfSubjectRulesReview."""
    everything = ["*"]
    if not may(names, user, "get"):
        public: Obj = {"verbs": ["get"], "nonResourceURLs": list(PUBLIC)}
        return {"resourceRules": [], "nonResourceRules": [public], "incomplete": False}
    return {
        "resourceRules": [{"verbs": everything, "apiGroups": everything, "resources": everything}],
        "nonResourceRules": [{"verbs": everything, "nonResourceURLs": everything}],
        "incomplete": False,
    }
