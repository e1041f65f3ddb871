"""What a pod's resolver would be told, as far as somebody is warned of it.  Pure.

Turns a pod's DNS policy and settings, and the agent's options, into the warnings of what is missing or does not fit.

Mirrors  pkg/kubelet/network/dns/dns.go: GetPodDNS, formDNSConfigFitsLimits; pkg/apis/core/validation: MaxDNSNameservers,
         MaxDNSSearchPathsLegacy, MaxDNSSearchListCharsLegacy (v1.25).
Differs  a machine's own file names one server and no domain to search (systemd-resolved writes such a one); nobody looks a name
         up.
"""

from __future__ import annotations

from collections.abc import Sequence

from sim.api.types import Obj
from sim.options.node_agent import NodeAgentOptions

OWN_SERVER = "127.0.0.53"  # systemd-resolved: its stub
LOCAL_SERVER = "127.0.0.1"  # dns.go: GetPodDNS, where there is no file
SERVERS_MAX, PATHS_MAX, LETTERS_MAX = 3, 6, 256
PATH_LETTERS_MAX = 253  # validation.DNS1123SubdomainMaxLength
MISSING, FORMING = "MissingClusterDNS", "DNSConfigForming"
NO_CLUSTER_DNS = (
    'kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. '
    'Falling back to "Default" policy.'
)
SERVERS = (
    "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: {}"
)
PATHS = (
    "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {}"
)


def asks_cluster(spec: Obj) -> bool:
    """Whether the pod wants to be told of the cluster's names."""
    policy = spec.get("dnsPolicy") or "ClusterFirst"
    return policy == "ClusterFirstWithHostNet" or (policy == "ClusterFirst" and not spec.get("hostNetwork"))


def misfits(pod: Obj, options: NodeAgentOptions) -> list[str]:
    """What to warn of: more servers, or domains to search, than a resolver takes."""
    spec, own = pod["spec"], pod["spec"].get("dnsConfig") or {}
    if not own and len(options.cluster_dns) <= SERVERS_MAX and not options.cluster_domain:
        return []  # nearly always
    servers, paths = _base(pod, options)
    if "dnsConfig" in spec:
        servers = _once([*servers, *(own.get("nameservers") or ())])
        paths = _once([*paths, *(own.get("searches") or ())])
    told = []
    if len(servers) > SERVERS_MAX:
        told.append(SERVERS.format(" ".join(servers[:SERVERS_MAX])))
    applied = fitting(paths)
    if applied != paths:
        told.append(PATHS.format(" ".join(applied)))
    return told


def _base(pod: Obj, options: NodeAgentOptions) -> tuple[list[str], list[str]]:
    """Servers and domains to search, before what the pod adds to them."""
    if pod["spec"].get("dnsPolicy") == "None":
        return [], []
    if asks_cluster(pod["spec"]) and options.cluster_dns:
        domain, namespace = options.cluster_domain, pod["metadata"]["namespace"]
        paths = [f"{namespace}.svc.{domain}", f"svc.{domain}", domain] if domain else []
        return list(options.cluster_dns), paths
    return ([OWN_SERVER], []) if options.resolv_conf else ([LOCAL_SERVER], ["."])


def fitting(paths: Sequence[str]) -> list[str]:
    """Those that are searched: the first so many, no longer than a name may be, as long as they are short together."""
    kept = [path for path in paths[:PATHS_MAX] if len(path) <= PATH_LETTERS_MAX]
    while len(" ".join(kept)) > LETTERS_MAX:
        kept.pop()
    return kept


def _once(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(names))
