"""Options of the node agent that change nothing here, and are checked as upstream checks them.

Mirrors  kubernetes v1.25 cmd/kubelet/app/options/{options,container_runtime}.go,
         pkg/kubelet/apis/config/validation/validation.go: ValidateKubeletConfiguration;
         pkg/kubelet/kubelet_network_linux.go: initNetworkUtil.
Differs  upstream writes rules of packets and limits of its process; nothing of a simulated machine
         shows either.
"""

from __future__ import annotations

from sim.dataclass import dataclass
from sim.options.base import Check, boolean, integer, option, string, within

REMOTE = "remote"
HAIRPIN_MODES = ("none", "hairpin-veth", "promiscuous-bridge")
_BIT = within(0, 31)


def _runtime(value: str) -> str | None:
    return (
        None
        if value == REMOTE
        else f'unsupported CRI runtime: "{value}", only "{REMOTE}" is currently supported'
    )


def _hairpin(value: str) -> str | None:
    if value in HAIRPIN_MODES:
        return None
    return f'option "{value}" specified. Valid options are "none", "hairpin-veth" or "promiscuous-bridge"'


_OOM: Check = within(-1000, 1000)


@dataclass(frozen=True)  # without slots: it is one of several bases
class TakenFlags:
    """Options without an effect, which upstream's users give."""

    container_runtime: str = option("container-runtime", string, REMOTE, check=_runtime)
    hairpin_mode: str = option("hairpin-mode", string, "promiscuous-bridge", check=_hairpin)
    make_iptables_util_chains: bool = option("make-iptables-util-chains", boolean, True)
    iptables_masquerade_bit: int = option("iptables-masquerade-bit", integer, 14, check=_BIT)
    iptables_drop_bit: int = option("iptables-drop-bit", integer, 15, check=_BIT)
    oom_score_adj: int = option("oom-score-adj", integer, -999, check=_OOM)
    contention_profiling: bool = option("contention-profiling", boolean, False)
    api_content_type: str = option("{short}-api-content-type", string, "")
    cloud_config: str = option("cloud-config", string, "")
    cloud_registry_config: str = option("cloud-container-registry-config", string, "")

    def check_taken(self) -> None:
        """Raises ValueError if the options contradict each other."""
        if self.make_iptables_util_chains and self.iptables_masquerade_bit == self.iptables_drop_bit:
            raise ValueError("iptables-masquerade-bit and iptables-drop-bit must be different")
