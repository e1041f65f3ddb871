"""Which admission plugins count for a request in which pass.

To see it fail: leave the operations of a plugin out of its registration, or give it others.
"""

from __future__ import annotations

from sim.api.admission.chain import PLUGINS, plugin_names
from sim.api.admission.handled import ADMIT, VALIDATE, handlers

DEFAULT = tuple(plugin.name for plugin in PLUGINS if not plugin.optional)


def test_default_plugins_count_in_upstreams_order() -> None:
    assert handlers(DEFAULT, "delete", ADMIT) == (
        "NamespaceLifecycle",
        "Priority",
        "MutatingAdmissionWebhook",
    )
    assert handlers(DEFAULT, "update", VALIDATE) == (
        "LimitRanger",
        "ServiceAccount",
        "PodSecurity",
        "Priority",
        "PersistentVolumeClaimResize",
        "CertificateApproval",
        "CertificateSigning",
        "ValidatingAdmissionWebhook",
        "ResourceQuota",
    )
    assert handlers(DEFAULT, "connect", VALIDATE) == ("ValidatingAdmissionWebhook",)


def test_each_plugin_counts_in_some_pass() -> None:
    passes = [(operation, kind) for operation in ("create", "update") for kind in (ADMIT, VALIDATE)]
    found = {name for each in passes for name in handlers(plugin_names(), *each)}
    assert found == set(plugin_names())
