"""The names of a pod, and the files by which its programs learn names and addresses.  Pure.

Turns a pod and its addresses into its hostname and the content of `/etc/hosts`.

Mirrors  pkg/kubelet/kubelet_pods.go: GeneratePodHostNameAndDomain, truncatePodHostnameIfNeeded,
         managedHostsFileContent, nodeHostsFileContent, hostsEntriesFromHostAliases;
         pkg/kubelet/util/util.go: GetNodenameForKernel (v1.25).
Differs  the machine's own file holds its names for the loopback and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from sim.api.types import Obj

HOSTNAME_MAX = 63  # kubelet_pods.go: hostnameMaxLen
# The texts of the file have upstream's name in every naming set: programs compare them.
MANAGED = "# Kubernetes-managed hosts file.\n"
MANAGED_WITH_HOST = "# Kubernetes-managed hosts file (host network).\n"
LOCAL = (
    "127.0.0.1\tlocalhost\n"
    "::1\tlocalhost ip6-localhost ip6-loopback\n"
    "fe00::0\tip6-localnet\n"
    "fe00::0\tip6-mcastprefix\n"
    "fe00::1\tip6-allnodes\n"
    "fe00::2\tip6-allrouters\n"
)
OF_MACHINE = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"


def names_of(pod: Obj, cluster_domain: str) -> tuple[str, str]:
    """The hostname of a pod, and its domain within the cluster ("" without a subdomain)."""
    spec, meta = pod["spec"], pod["metadata"]
    hostname = spec.get("hostname") or meta["name"]
    if len(hostname) > HOSTNAME_MAX:
        hostname = hostname[:HOSTNAME_MAX].rstrip("-.")
    subdomain = spec.get("subdomain")
    domain = f"{subdomain}.{meta.get('namespace', 'default')}.svc.{cluster_domain}" if subdomain else ""
    return hostname, domain


def kernel_name(pod: Obj, cluster_domain: str, node: str) -> str:
    """What `hostname` shows in the pod's containers."""
    spec = pod["spec"]
    if spec.get("hostNetwork"):
        return node
    hostname, domain = names_of(pod, cluster_domain)
    if spec.get("setHostnameAsFQDN") and domain:
        return f"{hostname}.{domain}"
    return hostname


def hosts_file(pod: Obj, addresses: Sequence[str], cluster_domain: str) -> str:
    """The content of `/etc/hosts`.  addresses: the pod's own"""
    spec, lines = pod["spec"], list[str]()
    for alias in spec.get("hostAliases") or ():
        lines.append("\t".join([alias.get("ip", ""), *(alias.get("hostnames") or ())]))
    aliases = (
        "".join(f"{line}\n" for line in ["", "# Entries added by HostAliases.", *lines]) if lines else ""
    )
    if spec.get("hostNetwork"):
        return MANAGED_WITH_HOST + OF_MACHINE + aliases
    hostname, domain = names_of(pod, cluster_domain)
    names = f"{hostname}.{domain}\t{hostname}" if domain else hostname
    return MANAGED + LOCAL + "".join(f"{one}\t{names}\n" for one in addresses) + aliases
