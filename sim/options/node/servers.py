"""Options of the servers of a node agent: addresses, access and handlers.

Mirrors  kubernetes v1.25 cmd/kubelet/app/auth.go, pkg/kubelet/server/server.go.
Differs  enableSystemLogHandler, enableProfilingHandler and enableDebugFlagsHandler, which upstream
         takes from its configuration file only, are given like options, in flag spelling. A
         client-ca-file that is no PEM names a file of the simulated machine, which holds the
         authority of the cluster.
"""

from __future__ import annotations

from ipaddress import ip_address

from sim.dataclass import dataclass
from sim.options.base import boolean, duration, integer, option, string, within
from sim.options.groups.access import AccessReviewFlags, TokenReviewFlags
from sim.options.groups.tls import TlsFlags

PORT_MAX = 65535
ALWAYS_ALLOW, WEBHOOK = "AlwaysAllow", "Webhook"


def _address(value: str) -> str | None:
    try:
        ip_address(value)
    except ValueError:
        return f'"{value}" is not a valid IP address'
    return None


def _mode(value: str) -> str | None:
    if value in (ALWAYS_ALLOW, WEBHOOK):
        return None
    return f"unknown authorization mode {value}" if value else "no authorization mode specified"


@dataclass(frozen=True)  # without slots: it is one of several bases
class AgentServerOptions(TokenReviewFlags, AccessReviewFlags, TlsFlags):
    """The options of the servers of one node agent process."""

    address: str = option("address", string, "0.0.0.0", check=_address)
    port: int = option("port", integer, 10250, check=within(1, PORT_MAX))
    read_only_port: int = option("read-only-port", integer, 10255, check=within(0, PORT_MAX))
    healthz_port: int = option("healthz-port", integer, 10248, check=within(0, PORT_MAX))
    healthz_bind_address: str = option("healthz-bind-address", string, "127.0.0.1", check=_address)
    enable_server: bool = option("enable-server", boolean, True)
    enable_debugging_handlers: bool = option("enable-debugging-handlers", boolean, True)
    enable_system_log_handler: bool = option("enable-system-log-handler", boolean, True)
    enable_profiling_handler: bool = option("enable-profiling-handler", boolean, True)
    enable_debug_flags_handler: bool = option("enable-debug-flags-handler", boolean, True)
    streaming_idle_us: int = option("streaming-connection-idle-timeout", duration, "4h0m0s")

    # --- access ---
    anonymous_auth: bool = option("anonymous-auth", boolean, True)
    client_ca_file: str = option("client-ca-file", string, "")
    token_webhook: bool = option("authentication-token-webhook", boolean, False)
    authorization_mode: str = option("authorization-mode", string, ALWAYS_ALLOW, check=_mode)

    @property
    def lets_all_in(self) -> bool:
        """True if the server lets in every request without credentials."""
        return self.anonymous_auth and self.authorization_mode != WEBHOOK

    def _check_access(self) -> None:
        """Raises ValueError if no request could be let in."""
        if not (self.anonymous_auth or self.token_webhook or self.client_ca_file):
            raise ValueError("No authentication method configured: anonymous-auth is false")
        self.check_tls()
