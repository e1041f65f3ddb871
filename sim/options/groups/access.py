"""Options by which a server recognizes clients, and asks an API server for their rights.

Mirrors  kubernetes v1.25 apiserver pkg/server/options/authentication.go
         (RequestHeaderAuthenticationOptions, DelegatingAuthenticationOptions), authorization.go
         (DelegatingAuthorizationOptions).
"""

from __future__ import annotations

from sim.dataclass import dataclass
from sim.options.base import duration, file_name, option, strings


@dataclass(frozen=True)  # without slots: it is one of several bases
class TokenReviewFlags:
    """How long the review of a token counts."""

    token_webhook_cache_ttl_us: int = option("authentication-token-webhook-cache-ttl", duration, "2m0s")


@dataclass(frozen=True)
class AccessReviewFlags:
    """How long the review of a request counts."""

    authorized_ttl_us: int = option("authorization-webhook-cache-authorized-ttl", duration, "5m0s")
    unauthorized_ttl_us: int = option("authorization-webhook-cache-unauthorized-ttl", duration, "30s")


@dataclass(frozen=True)
class RequestHeaderFlags:
    """The front proxies, which name the user in headers."""

    requestheader_client_ca_file: str = option("requestheader-client-ca-file", file_name, "")
    requestheader_allowed_names: tuple[str, ...] = option("requestheader-allowed-names", strings, "")
    requestheader_username_headers: tuple[str, ...] = option("requestheader-username-headers", strings, "")
    requestheader_group_headers: tuple[str, ...] = option("requestheader-group-headers", strings, "")
    requestheader_extra_prefixes: tuple[str, ...] = option("requestheader-extra-headers-prefix", strings, "")

    def check_proxies(self) -> None:
        """Raises ValueError for headers without an authority of proxies."""
        entry: dict[str, object] = {
            "requestheader-allowed-names": self.requestheader_allowed_names,
            "requestheader-username-headers": self.requestheader_username_headers,
            "requestheader-group-headers": self.requestheader_group_headers,
            "requestheader-extra-headers-prefix": self.requestheader_extra_prefixes,
        }
        check_needed("requestheader-client-ca-file", self.requestheader_client_ca_file, entry)


def check_needed(needed: str, value: object, dependents: dict[str, object]) -> None:
    """Raises ValueError for an option that has no effect without another.

    dependents: values by the names of options
    """
    useless = next((name for name, each in dependents.items() if each and not value), "")
    if useless:
        raise ValueError(f"option {useless} has no effect without {needed}")
