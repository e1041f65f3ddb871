"""The DNS configuration of a pod.  Pure.

Turns a pod's DNS policy and settings, and the agent's options, into the file that its resolvers
read, and the warnings about what is missing or too long.

Mirrors  pkg/kubelet/network/dns/dns.go: GetPodDNS, formDNSConfigFitsLimits, mergeDNSOptions;
         containerd pkg/cri/server/sandbox_run_linux.go: parseDNSOptions (the file's form);
         pkg/apis/core/validation: MaxDNSNameservers, MaxDNSSearchPathsLegacy,
         MaxDNSSearchListCharsLegacy (v1.25).
Differs  a machine's own file names one server and no search domain (as systemd-resolved writes it);
         options keep their order, which upstream takes from a map.
"""

from __future__ import annotations

from collections.abc import Sequence

from sim.api.types import Obj
from sim.options.node.agent import NodeAgentOptions

OWN_SERVER = "127.0.0.53"  # systemd-resolved: its stub
LOCAL_SERVER = "127.0.0.1"  # dns.go: GetPodDNS, where there is no file
SERVERS_MAX, PATHS_MAX, SEARCH_LENGTH_MAX = 3, 6, 256
PATH_LENGTH_MAX = 253  # validation.DNS1123SubdomainMaxLength
USUAL_LENGTH_MAX = 50  # of a cluster's domain, with which its three search domains are short enough
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


def uses_cluster_dns(spec: Obj) -> bool:
    """True if the pod's resolver uses the cluster's DNS servers."""
    policy = spec.get("dnsPolicy") or "ClusterFirst"
    return policy == "ClusterFirstWithHostNet" or (policy == "ClusterFirst" and not spec.get("hostNetwork"))


def excess_warnings(pod: Obj, options: NodeAgentOptions) -> list[str]:
    """Warnings about more servers, or search domains, than a resolver supports."""
    own = pod["spec"].get("dnsConfig") or {}
    if not own and len(options.cluster_dns) <= SERVERS_MAX and len(options.cluster_domain) < USUAL_LENGTH_MAX:
        return []  # the usual case
    servers, paths = _settings(pod, options)
    warnings = []
    if len(servers) > SERVERS_MAX:
        warnings.append(SERVERS.format(" ".join(servers[:SERVERS_MAX])))
    applied = applied_paths(paths)
    if applied != paths:
        warnings.append(PATHS.format(" ".join(applied)))
    return warnings


def resolver_file(pod: Obj, options: NodeAgentOptions) -> str:
    """The content of `/etc/resolv.conf` in the pod's containers."""
    servers, paths = _settings(pod, options)
    paths, lines = applied_paths(paths), []
    if paths:
        lines.append(f"search {' '.join(paths)}")
    lines += [f"nameserver {server}" for server in servers[:SERVERS_MAX]]
    spec = pod["spec"]
    is_clusters = spec.get("dnsPolicy") != "None" and uses_cluster_dns(spec) and options.cluster_dns
    chosen = {"ndots": "5"} if is_clusters else {}
    for option in (spec.get("dnsConfig") or {}).get("options") or ():
        chosen[option["name"]] = option.get("value") or ""
    if chosen:
        texts = [f"{name}:{value}" if value else name for name, value in chosen.items()]
        lines.append(f"options {' '.join(texts)}")
    return "".join(f"{line}\n" for line in lines)


def _settings(pod: Obj, options: NodeAgentOptions) -> tuple[list[str], list[str]]:
    """All servers and search domains, also those that are too many."""
    servers, paths = _base(pod, options)
    own = pod["spec"].get("dnsConfig")
    if own is not None:
        servers = _unique([*servers, *(own.get("nameservers") or ())])
        paths = _unique([*paths, *(own.get("searches") or ())])
    return servers, paths


def _base(pod: Obj, options: NodeAgentOptions) -> tuple[list[str], list[str]]:
    """Servers and search domains before the pod's own additions."""
    if pod["spec"].get("dnsPolicy") == "None":
        return [], []
    if uses_cluster_dns(pod["spec"]) and options.cluster_dns:
        domain, namespace = options.cluster_domain, pod["metadata"]["namespace"]
        paths = [f"{namespace}.svc.{domain}", f"svc.{domain}", domain] if domain else []
        return list(options.cluster_dns), paths
    return ([OWN_SERVER], []) if options.resolv_conf else ([LOCAL_SERVER], ["."])


def applied_paths(paths: Sequence[str]) -> list[str]:
    """The search domains that are applied.

    The first `PATHS_MAX` of valid length, as many as fit into the length of the whole list.
    """
    kept = [path for path in paths[:PATHS_MAX] if len(path) <= PATH_LENGTH_MAX]
    while len(" ".join(kept)) > SEARCH_LENGTH_MAX:
        kept.pop()
    return kept


def _unique(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(names))
