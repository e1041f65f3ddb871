"""Who may do what.

Turns (user, verb, path or resource) into yes or no, and a user into the rules that say the same.

Mirrors  kubernetes v1.25 pkg/authorization; public paths: those of the bootstrap role system:public-info-viewer.
Differs  there are no roles yet: who is authenticated may do everything but impersonate.
"""

from __future__ import annotations

from sim.api.types import Obj, UserInfo
from sim.ident import Names

PUBLIC = ("/healthz", "/livez", "/readyz", "/version", "/version/")
IMPERSONATE = "impersonate"


def may(names: Names, user: UserInfo, verb: str, path: str | None = None) -> bool:
    """Whether the user may; `path` None: it is about a resource."""
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
