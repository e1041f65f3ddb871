"""Deprecated options of upstream's programs, and the warnings about them.

Turns the name of an option into the words that follow its name in a warning.

Mirrors  spf13/pflag v1.0.5 flag.go (Set), which warns on standard error; kubernetes v1.25
         cmd/kubelet/app/options/options.go (AddFlags, AddKubeletConfigFlags), cmd/kube-apiserver
         app/options/options.go, component-base logs/logs.go (AddFlags).
"""

from __future__ import annotations

from collections.abc import Mapping

from sim.ident import SITE, Names

AGENT = ""
_LATER = "will be removed in a future version"
_EVICTION = "Use --eviction-hard or --eviction-soft instead. Will be removed in a future version."
_CLOUD = "will be removed in 1.25 or later, in favor of removing cloud provider code from {agent}."
_KLOG = (
    "will be removed in a future release, see https://github.com/kubernetes/enhancements/tree/master/keps"
    "/sig-instrumentation/2845-deprecate-klog-specific-flags-in-k8s-components"
)
_FILE = (
    "This parameter should be set via the config file specified by the {agent}'s --config flag. See "
    "https://{site}/docs/tasks/administer-cluster/{short}let-config-file/ for more information."
)
_KEPT = ("v", "vmodule", "log-flush-frequency")  # of the fields of an agent's file
_OF_KLOG = (
    "add-dir-header",
    "alsologtostderr",
    "log-dir",
    "log-file",
    "log-file-max-size",
    "logtostderr",
    "one-output",
    "skip-headers",
    "skip-log-headers",
    "stderrthreshold",
)
_OWN: Mapping[str, Mapping[str, str]] = {
    "apiserver": {
        "enable-logs-handler": "This flag will be removed in v1.19",
        "apiserver-count": "apiserver-count is deprecated and will be removed in a future version.",
        "default-watch-cache-size": "watch caches are sized automatically and this flag will be removed in a"
        " future version",
    },
    AGENT: {
        "minimum-container-ttl-duration": _EVICTION,
        "maximum-dead-containers-per-container": _EVICTION,
        "maximum-dead-containers": _EVICTION,
        "master-service-namespace": "This flag will be removed in a future version.",
        "register-schedulable": _LATER,
        "keep-terminated-pod-volumes": _LATER,
        "cloud-provider": _CLOUD,
        "cloud-config": _CLOUD,
        "experimental-allocatable-ignore-eviction": "will be removed in 1.25 or later.",
    },
}


def deprecation(names: Names, part: str, name: str) -> str:
    """What is said about an option of a program; "" for one that is not deprecated.

    part: as of `Program`
    """
    text = _OWN.get(part, {}).get(name, _KLOG if name in _OF_KLOG else "")
    if part == AGENT and not text and name not in _KEPT:
        from sim.options.node.configuration import options_of_file

        text = _FILE if name in options_of_file(names) else ""
    return text.format(agent=names.node_agent.capitalize(), short=names.short, site=SITE)
