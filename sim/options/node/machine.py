"""Options of the node agent about its machine: folders, control groups, the kernel and the runtime.

Mirrors  kubernetes v1.25 cmd/kubelet/app/options/options.go; pkg/kubelet/apis/config/validation;
         pkg/kubelet/cm/container_manager_linux.go: setupKernelTunables; component-helpers
         node/util/sysctl (the kernel's values that an agent wants).
Differs  the machine's container runtime listens at the endpoint that the agent is given, and uses
         the agent's driver of control groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.dataclass import dataclass
from sim.options.base import at_least, boolean, document, long_integer, one_of, option, string
from sim.options.features.gates import enabled

# util/sysctl/sysctl.go: the expected values of setupKernelTunables
KERNEL_DEFAULTS: Mapping[str, str] = {
    "vm.overcommit_memory": "1",
    "vm.panic_on_oom": "0",
    "kernel.panic": "10",
    "kernel.panic_on_oops": "1",
    "kernel.keys.root_maxkeys": "1000000",
    "kernel.keys.root_maxbytes": "25000000",
}
LIMITED_SWAP, UNLIMITED_SWAP = "LimitedSwap", "UnlimitedSwap"
_SWAP, _SECCOMP = "NodeSwap", "SeccompDefault"


def _swap_behavior(value: str) -> str | None:
    if value in ("", LIMITED_SWAP, UNLIMITED_SWAP):
        return None
    return f'"{value}" must be one of: "", "{LIMITED_SWAP}", or "{UNLIMITED_SWAP}"'


def _providers(value: Mapping[str, Any]) -> str | None:
    """plugin/config.go: decode, validateCredentialProviderConfig."""
    if not value:
        return None
    if value.get("kind") != "CredentialProviderConfig":
        return f'failed to decode "{value.get("kind")}" (wrong Kind)'
    given = value.get("providers")
    if not isinstance(given, list) or not given:
        return "providers: Required value: at least 1 item in plugins is required"
    for one in given:
        name, images = (one.get(key) if isinstance(one, Mapping) else None for key in ("name", "matchImages"))
        if not isinstance(name, str) or "/" in name or " " in name or name in (".", ".."):
            return f'providers.name: Invalid value: "{name}"'
        if not str(one.get("apiVersion", "")).startswith("credentialprovider."):
            return "providers.apiVersion: Required value: apiVersion is required"
        if not isinstance(images, list) or not images:
            return "providers.matchImages: Required value: at least 1 item in matchImages is required"
        if "defaultCacheDuration" not in one:
            return "providers.defaultCacheDuration: Required value: defaultCacheDuration is required"
    return None


@dataclass(frozen=True)  # without slots: it is one of several bases
class MachineFlags:
    """The options of one agent about its machine."""

    root_dir: str = option("root-dir", string, "/var/lib/{short}let")
    volume_plugin_dir: str = option(
        "volume-plugin-dir", string, "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/"
    )
    lock_file: str = option("lock-file", string, "")
    container_runtime_endpoint: str = option(
        "container-runtime-endpoint", string, "unix:///run/containerd/containerd.sock"
    )
    image_service_endpoint: str = option("image-service-endpoint", string, "")
    max_open_files: int = option("max-open-files", long_integer, 1_000_000, check=at_least(0))
    cert_dir: str = option("cert-dir", string, "/var/lib/{short}let/pki")
    cgroup_driver: str = option("cgroup-driver", string, "cgroupfs", check=one_of("cgroupfs", "systemd"))
    cgroup_root: str = option("cgroup-root", string, "")
    agent_cgroups: str = option("{short}let-cgroups", string, "")
    runtime_cgroups: str = option("runtime-cgroups", string, "")
    system_cgroups: str = option("system-cgroups", string, "")
    protect_kernel_defaults: bool = option("protect-kernel-defaults", boolean, False)
    fail_swap_on: bool = option("fail-swap-on", boolean, True)
    memory_swap_behavior: str = option("memory-swap-behavior", string, "", check=_swap_behavior)
    seccomp_default: bool = option("seccomp-default", boolean, False)
    image_credential_provider_config: Mapping[str, Any] = option(
        "image-credential-provider-config", document, {}, check=_providers
    )
    image_credential_provider_bin_dir: str = option("image-credential-provider-bin-dir", string, "")
    master_service_namespace: str = option("master-service-namespace", string, "default")

    def check_machine(self, gates: Mapping[str, str]) -> None:
        """Raises ValueError for options that contradict each other, or need a gate."""
        if self.system_cgroups and not self.cgroup_root:
            raise ValueError("system-cgroups was specified and cgroup-root was not specified")
        if self.memory_swap_behavior and not enabled(gates, _SWAP):
            raise ValueError(f"memory-swap-behavior cannot be set when {_SWAP} feature flag is disabled")
        if self.seccomp_default and not enabled(gates, _SECCOMP):
            raise ValueError(
                f"the {_SECCOMP} feature gate must be enabled in order to use the seccomp-default flag"
            )

    def provider_patterns(self, gates: Mapping[str, str]) -> tuple[str, ...]:
        """The images for which there are credential providers."""
        if not enabled(gates, "KubeletCredentialProviders") or not self.image_credential_provider_bin_dir:
            return ()
        providers = self.image_credential_provider_config.get("providers") or ()
        return tuple(str(each) for one in providers for each in one["matchImages"])

    def swaps(self, gates: Mapping[str, str]) -> bool:
        """True if containers may use the machine's swap beyond their limits of memory."""
        return self.memory_swap_behavior == UNLIMITED_SWAP and enabled(gates, _SWAP)
