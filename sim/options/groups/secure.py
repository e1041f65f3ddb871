"""Options of the secure port of a controller manager or a scheduler that runs alone.

Mirrors  kubernetes v1.25 apiserver pkg/server/options/{serving_with_loopback,authentication,
         authorization}.go (NewDelegatingAuthenticationOptions, NewDelegatingAuthorizationOptions),
         component-base config/v1alpha1 (DebuggingConfiguration).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.dataclass import dataclass
from sim.options.base import at_least, boolean, document, file_name, integer, option, with_default
from sim.options.groups.access import AccessReviewFlags, RequestHeaderFlags, TokenReviewFlags
from sim.options.groups.listening import CertificateFlags


@dataclass(frozen=True, slots=True)
class SecureFlags(CertificateFlags, RequestHeaderFlags, TokenReviewFlags, AccessReviewFlags):
    """Its certificates, its clients, and what it answers beside health and metrics."""

    cert_dir: str = with_default(CertificateFlags, "cert_dir", "")
    http2_max_streams: int = option("http2-max-streams-per-connection", integer, 0, check=at_least(0))
    client_ca_file: str = option("client-ca-file", file_name, "")
    token_reviews_config: Mapping[str, Any] = option("authentication-kubeconfig", document, {})
    skip_lookup: bool = option("authentication-skip-lookup", boolean, False)
    tolerate_lookup_failure: bool = option("authentication-tolerate-lookup-failure", boolean, False)
    token_webhook_cache_ttl_us: int = with_default(TokenReviewFlags, "token_webhook_cache_ttl_us", "10s")
    authorized_ttl_us: int = with_default(AccessReviewFlags, "authorized_ttl_us", "10s")
    unauthorized_ttl_us: int = with_default(AccessReviewFlags, "unauthorized_ttl_us", "10s")
    requestheader_username_headers: tuple[str, ...] = with_default(
        RequestHeaderFlags, "requestheader_username_headers", "x-remote-user"
    )
    requestheader_group_headers: tuple[str, ...] = with_default(
        RequestHeaderFlags, "requestheader_group_headers", "x-remote-group"
    )
    requestheader_extra_prefixes: tuple[str, ...] = with_default(
        RequestHeaderFlags, "requestheader_extra_prefixes", "x-remote-extra-"
    )
    profiling: bool = option("profiling", boolean, True)
    contention_profiling: bool = option("contention-profiling", boolean, False)


@dataclass(frozen=True, slots=True)
class SchedulerSecureFlags(SecureFlags):
    """Those of a scheduler, which starts without the authentication of its cluster too."""

    tolerate_lookup_failure: bool = with_default(SecureFlags, "tolerate_lookup_failure", True)
