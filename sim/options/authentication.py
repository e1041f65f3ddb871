"""Options of the API server by which it authenticates clients.

Turns nothing: `sim.options.api_server` parses them with the others.

Holds: files are read when a cluster is served, not here; rules between options are those of
upstream.

Mirrors  kubernetes v1.25 pkg/kubeapiserver/options/authentication.go, apiserver
         pkg/server/options/authentication.go: defaults and Validate.
Differs  files are read by a cluster that is served; in a run without clients from outside they
         affect nothing. `service-account-issuer` and the keys have defaults, since a cluster here
         has no manifests that name them.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from sim.options.base import boolean, duration, option, string, strings
from sim.units import SECOND

HOUR_US = 3600 * SECOND
EXPIRATION_MAX_US = (1 << 32) * SECOND


def _expiration(value: int) -> str | None:
    if value == 0 or HOUR_US <= value <= EXPIRATION_MAX_US:
        return None
    return "must be between 1 hour and 2^32 seconds"


def _issuers(value: tuple[str, ...]) -> str | None:
    for issuer in value:
        try:
            urlsplit(issuer)
        except ValueError as error:
            return f"contained a ':' but was not a valid URL: {error}"
    repeated = next((issuer for issuer in value if value.count(issuer) > 1), "")
    return f"{repeated!r} is already specified" if repeated else None


def _https(value: str) -> str | None:
    return None if not value or urlsplit(value).scheme == "https" else "requires https scheme"


@dataclass(frozen=True, slots=True)
class AuthenticationFlags:
    """The options by which clients from outside are authenticated, and tokens issued."""

    anonymous_auth: bool = option(
        "anonymous-auth", boolean, True, "false: requests without credentials are refused with 401"
    )
    client_ca_file: str = option(
        "client-ca-file",
        string,
        "",
        "authorities, beside the server's own, that sign certificates of clients",
    )
    token_auth_file: str = option("token-auth-file", string, "", 'users: token,user,uid,"group1,group2"')
    bootstrap_token_auth: bool = option(
        "enable-bootstrap-token-auth", boolean, False, "true: Secrets of bootstrap tokens are credentials"
    )
    api_audiences: tuple[str, ...] = option(
        "api-audiences", strings, "", "audiences of tokens for the API (default: the issuers)"
    )
    service_account_issuers: tuple[str, ...] = option(
        "service-account-issuer",
        strings,
        "",
        "issuers of service account tokens, of which the first issues (default: the service of the API)",
        check=_issuers,
    )
    service_account_signing_key_file: str = option(
        "service-account-signing-key-file", string, "", "private key that signs tokens (default: a new one)"
    )
    service_account_key_files: tuple[str, ...] = option(
        "service-account-key-file", strings, "", "keys that verify tokens (default: that of the signing key)"
    )
    service_account_jwks_uri: str = option(
        "service-account-jwks-uri",
        string,
        "",
        "where the discovery document says that the keys are",
        check=_https,
    )
    service_account_extend_token_expiration: bool = option(
        "service-account-extend-token-expiration",
        boolean,
        True,
        "true: a token of a pod that is requested for 3607 s lives for a year",
    )
    service_account_max_token_expiration_us: int = option(
        "service-account-max-token-expiration",
        duration,
        "0s",
        "longest life of a token that a request gets; 0: none",
        unit="us",
        check=_expiration,
    )
    requestheader_client_ca_file: str = option(
        "requestheader-client-ca-file",
        string,
        "",
        "authorities of front proxies; without it their headers mean nothing",
    )
    requestheader_allowed_names: tuple[str, ...] = option(
        "requestheader-allowed-names",
        strings,
        "",
        "common names of front proxies; none: any of the authorities'",
    )
    requestheader_username_headers: tuple[str, ...] = option(
        "requestheader-username-headers", strings, "", "headers of front proxies that name a user"
    )
    requestheader_group_headers: tuple[str, ...] = option(
        "requestheader-group-headers", strings, "", "headers of front proxies that name groups"
    )
    requestheader_extra_prefixes: tuple[str, ...] = option(
        "requestheader-extra-headers-prefix", strings, "", "prefixes of headers with further attributes"
    )

    def issuers(self, default: str) -> tuple[str, ...]:
        """The accepted issuers of service account tokens."""
        return self.service_account_issuers or (default,)

    @property
    def admits_users(self) -> bool:
        """True if an option lets users in whom the command line does not name."""
        return bool(self.token_auth_file or self.client_ca_file or self.requestheader_client_ca_file)

    def __post_init__(self) -> None:
        """Check rules between options; raises ValueError."""
        if self.service_account_signing_key_file and not self.service_account_key_files:
            raise ValueError("service-account-signing-key-file needs service-account-key-file")
        proxy = {
            "requestheader-allowed-names": self.requestheader_allowed_names,
            "requestheader-username-headers": self.requestheader_username_headers,
            "requestheader-group-headers": self.requestheader_group_headers,
            "requestheader-extra-headers-prefix": self.requestheader_extra_prefixes,
        }
        for name, value in proxy.items():
            if value and not self.requestheader_client_ca_file:
                raise ValueError(f"option {name} has no effect without requestheader-client-ca-file")
