"""Options of the servers of a node agent: addresses, access and handlers.

Mirrors  kubernetes v1.25 cmd/kubelet/app/auth.go, pkg/kubelet/server/server.go, component-base
         cli/flag/ciphersuites_flag.go.
Differs  enableSystemLogHandler, enableProfilingHandler and enableDebugFlagsHandler, which upstream
         takes from its configuration file only, are given like options, in flag spelling. A
         client-ca-file that is no PEM names a file of the simulated machine, which holds the
         authority of the cluster.
"""

from __future__ import annotations

from ipaddress import ip_address

from sim.dataclass import dataclass
from sim.options.base import boolean, duration, file_name, integer, option, string, strings, within

PORT_MAX = 65535
ALWAYS_ALLOW, WEBHOOK = "AlwaysAllow", "Webhook"
TLS_VERSIONS = ("VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13")
_ECDHE = [
    "AES_128_CBC_SHA",
    "AES_128_CBC_SHA256",
    "AES_128_GCM_SHA256",
    "AES_256_CBC_SHA",
    "AES_256_GCM_SHA384",
    "CHACHA20_POLY1305",
    "CHACHA20_POLY1305_SHA256",
    "RC4_128_SHA",
]
_RSA = [
    "3DES_EDE_CBC_SHA",
    "AES_128_CBC_SHA",
    "AES_128_CBC_SHA256",
    "AES_128_GCM_SHA256",
    "AES_256_CBC_SHA",
    "AES_256_GCM_SHA384",
    "RC4_128_SHA",
]
CIPHER_SUITES = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    *(f"TLS_ECDHE_{key}_WITH_{rest}" for key in ("ECDSA", "RSA") for rest in _ECDHE),
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    *(f"TLS_RSA_WITH_{rest}" for rest in _RSA),
)


def _address(value: str) -> str | None:
    try:
        ip_address(value)
    except ValueError:
        return f'"{value}" is not a valid IP address'
    return None


def _suites(value: tuple[str, ...]) -> str | None:
    unknown = next((each for each in value if each not in CIPHER_SUITES), None)
    return None if unknown is None else f"Cipher suite {unknown} not supported or doesn't exist"


def _version(value: str) -> str | None:
    return None if not value or value in TLS_VERSIONS else f'unknown tls version "{value}"'


def _mode(value: str) -> str | None:
    if value in (ALWAYS_ALLOW, WEBHOOK):
        return None
    return f"unknown authorization mode {value}" if value else "no authorization mode specified"


@dataclass(frozen=True, slots=True)
class AgentServerOptions:
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
    token_webhook_cache_ttl_us: int = option("authentication-token-webhook-cache-ttl", duration, "2m0s")
    authorization_mode: str = option("authorization-mode", string, ALWAYS_ALLOW, check=_mode)
    authorized_ttl_us: int = option("authorization-webhook-cache-authorized-ttl", duration, "5m0s")
    unauthorized_ttl_us: int = option("authorization-webhook-cache-unauthorized-ttl", duration, "30s")
    tls_cert_file: str = option("tls-cert-file", file_name, "")
    tls_private_key_file: str = option("tls-private-key-file", file_name, "")
    tls_cipher_suites: tuple[str, ...] = option("tls-cipher-suites", strings, "", check=_suites)
    tls_min_version: str = option("tls-min-version", string, "", check=_version)

    @property
    def lets_all_in(self) -> bool:
        """True if the server lets in every request without credentials."""
        return self.anonymous_auth and self.authorization_mode != WEBHOOK

    def _check_access(self) -> None:
        """Raises ValueError if no request could be let in."""
        if not (self.anonymous_auth or self.token_webhook or self.client_ca_file):
            raise ValueError("No authentication method configured: anonymous-auth is false")
        if bool(self.tls_cert_file) != bool(self.tls_private_key_file):
            raise ValueError("tls-cert-file and tls-private-key-file are given together")
