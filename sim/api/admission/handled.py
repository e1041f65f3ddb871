"""Which operations each admission plugin handles in which pass, for its metrics.

A plugin counts for every request with such an operation, of any resource, since upstream
measures the call of a plugin and not what it decides.

Mirrors  kubernetes v1.25 plugin/pkg/admission/*/admission.go (NewHandler, and which interfaces each
         plugin has), pkg/admission/{chain.go,metrics/metrics.go}.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from sim.api.admission.base import Operation
from sim.api.admission.chain import plugin_names

Pass = Literal["admit", "validate"]
ADMIT: Final = "admit"
VALIDATE: Final = "validate"
Operations = tuple[Operation, ...]
_C: Operations = ("create",)
_CU: Operations = ("create", "update")
_U: Operations = ("update",)
_CUD: Operations = ("create", "update", "delete")
_EVERY: Operations = (*_CUD, "connect")
# For each plugin the operations of the mutating and of the validating pass.
_HANDLED: Mapping[str, tuple[Operations, Operations]] = {
    "AlwaysAdmit": (_EVERY, _EVERY),
    "NamespaceAutoProvision": (_C, ()),
    "NamespaceLifecycle": (_CUD, ()),
    "NamespaceExists": ((), _CUD),
    "SecurityContextDeny": ((), _CU),
    "LimitPodHardAntiAffinityTopology": ((), _CU),
    "LimitRanger": (_CU, _CU),
    "ServiceAccount": (_CU, _CU),
    "NodeRestriction": (_CUD, ()),
    "TaintNodesByCondition": (_C, ()),
    "AlwaysPullImages": (_CU, _CU),
    "ImagePolicyWebhook": ((), _CU),
    "PodSecurity": ((), _CU),
    "PodNodeSelector": (_C, _C),
    "Priority": (_CUD, _CUD),
    "DefaultTolerationSeconds": (_CU, ()),
    "PodTolerationRestriction": (_CU, _CU),
    "EventRateLimit": ((), _CU),
    "ExtendedResourceToleration": (_CU, ()),
    "DefaultStorageClass": (_C, ()),
    "StorageObjectInUseProtection": (_C, ()),
    "OwnerReferencesPermissionEnforcement": ((), _CU),
    "PersistentVolumeClaimResize": ((), _U),
    "RuntimeClass": (_C, _C),
    "CertificateApproval": ((), _U),
    "CertificateSigning": ((), _U),
    "CertificateSubjectRestriction": ((), _C),
    "DefaultIngressClass": (_C, ()),
    "DenyServiceExternalIPs": ((), _CU),
    "MutatingAdmissionWebhook": (_EVERY, ()),
    "ValidatingAdmissionWebhook": ((), _EVERY),
    "ResourceQuota": ((), _CU),
    "AlwaysDeny": (_EVERY, _EVERY),
}


def handlers(running: Iterable[str], operation: Operation, kind: Pass) -> tuple[str, ...]:
    """The plugins that a request goes through in one pass, in order.

    running: the plugins that are on
    """
    at = 0 if kind == ADMIT else 1
    on = tuple(running)
    return tuple(name for name in plugin_names() if name in on and operation in _HANDLED[name][at])
