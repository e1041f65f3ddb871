"""Options of controller manager and scheduler about the API server that they use.

Turns an address, or a client configuration, into the name of one API server.

Mirrors  kubernetes v1.25 cmd/kube-controller-manager/app/options/options.go (master, kubeconfig:
         the address overrides the one of the configuration) and client-go tools/clientcmd
         (current-context).
Differs  without both options the process uses every API server in turn, where upstream reads the
         configuration of the pod that it runs in. Of a configuration only the server's address is
         read: a simulated process has the identity that kubeadm gives it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.dataclass import dataclass
from sim.options.base import at_least, document, integer, number, option, string
from sim.options.client_config import configured_server, host_of


@dataclass(frozen=True)  # without slots: it is one of several bases
class ClientFlags:
    """The options that choose an API server, and the rate of requests to it."""

    api_qps: float = option("{short}-api-qps", number, 50)
    api_burst: int = option("{short}-api-burst", integer, 100, check=at_least(1))
    master: str = option("master", string, "")
    client_config: Mapping[str, Any] = option("{short}config", document, {})

    def check_client(self) -> None:
        """Raises ValueError if the options name no server."""
        if self.client_config:
            try:
                configured_server(self.client_config)
            except ValueError as problem:
                raise ValueError(f"config: {problem}") from None
        if (self.master or self.client_config) and not self.server:
            raise ValueError("master: must be the address of an API server, such as https://apiserver-0")

    @property
    def server(self) -> str:
        """The name of the only API server that is used; "" for all."""
        if self.master:
            return host_of(self.master)
        return host_of(configured_server(self.client_config)) if self.client_config else ""
