"""The priorities of API groups and versions, by which clients prefer one over another.

Turns nothing: `discovery` reads them.  The table holds groups that are not served as well, so that
a kind of one of them needs no change here.

Mirrors  kubernetes v1.25 cmd/kube-apiserver/app/aggregator.go (apiVersionPriorities).
"""

from __future__ import annotations

# The group of the aggregator itself has no priority; it is listed before all others, and always
# served.
FIRST_GROUP = "apiregistration"
# groupPriorityMinimum of each group.
GROUP_PRIORITIES = {
    "": 18000,
    "apps": 17800,
    "events": 17750,
    "authentication": 17700,
    "authorization": 17600,
    "autoscaling": 17500,
    "batch": 17400,
    "certificates": 17300,
    "networking": 17200,
    "policy": 17100,
    "rbac.authorization": 17000,
    "storage": 16800,
    "apiextensions": 16700,
    "admissionregistration": 16700,
    "scheduling": 16600,
    "coordination": 16500,
    "node": 16300,
    "discovery": 16200,
    "flowcontrol.apiserver": 16100,
    "internal.apiserver": 16000,
}
# versionPriority of the versions that do not have the usual one.
VERSION_PRIORITIES = {
    ("", "v1"): 1,
    ("autoscaling", "v2"): 30,
    ("autoscaling", "v2beta2"): 1,
    ("networking", "v1alpha1"): 1,
    ("storage", "v1beta1"): 9,
    ("storage", "v1alpha1"): 1,
    ("flowcontrol.apiserver", "v1beta1"): 12,
    ("internal.apiserver", "v1alpha1"): 9,
}
DEFAULT_VERSION_PRIORITY = 15
