"""Options of the API server by which it authenticates clients.

Turns nothing: `sim.options.apiserver.server` parses them with the others.

Holds: files are read when a cluster is served, not here; rules between options are those of
upstream.

Mirrors  kubernetes v1.25 pkg/kubeapiserver/options/authentication.go: defaults and Validate.
Differs  files are read by a cluster that is served; in a run without clients from outside they
         affect nothing. `service-account-issuer` and the keys have defaults, since a cluster here
         has no manifests that name them; `oidc-keys-file` does not exist upstream: it gives the
         keys of an issuer that cannot be reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from sim.dataclass import dataclass
from sim.options.base import (
    boolean,
    duration,
    file_name,
    file_names,
    mapping,
    one_of,
    option,
    string,
    strings,
)
from sim.options.groups.access import RequestHeaderFlags, TokenReviewFlags, check_needed
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


# apiserver plugin/pkg/authenticator/token/oidc/oidc.go: allowedSigningAlgs
SIGNING_ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512")


def _algorithms(value: tuple[str, ...]) -> str | None:
    unknown = next((each for each in value if each not in SIGNING_ALGORITHMS), "")
    return f"unsupported signing alg: {unknown!r}" if unknown else None


def _https(value: str) -> str | None:
    return None if not value or urlsplit(value).scheme == "https" else "requires https scheme"


@dataclass(frozen=True)
class AuthenticationFlags(TokenReviewFlags, RequestHeaderFlags):
    """The options by which clients from outside are authenticated, and tokens issued."""

    anonymous_auth: bool = option("anonymous-auth", boolean, True)
    client_ca_file: str = option("client-ca-file", file_name, "")
    token_auth_file: str = option("token-auth-file", file_name, "")
    bootstrap_token_auth: bool = option("enable-bootstrap-token-auth", boolean, False)
    api_audiences: tuple[str, ...] = option("api-audiences", strings, "")
    service_account_issuers: tuple[str, ...] = option("service-account-issuer", strings, "", check=_issuers)
    service_account_signing_key_file: str = option("service-account-signing-key-file", file_name, "")
    service_account_key_files: tuple[str, ...] = option("service-account-key-file", file_names, "")
    service_account_jwks_uri: str = option("service-account-jwks-uri", string, "", check=_https)
    service_account_extend_token_expiration: bool = option(
        "service-account-extend-token-expiration", boolean, True
    )
    service_account_max_token_expiration_us: int = option(
        "service-account-max-token-expiration", duration, "0s", check=_expiration
    )
    proxy_client_cert_file: str = option("proxy-client-cert-file", file_name, "")
    proxy_client_key_file: str = option("proxy-client-key-file", file_name, "")

    oidc_issuer_url: str = option("oidc-issuer-url", string, "", check=_https)
    oidc_client_id: str = option("oidc-client-id", string, "")
    oidc_ca_file: str = option("oidc-ca-file", file_name, "")
    oidc_keys_file: str = option("oidc-keys-file", file_name, "")
    oidc_username_claim: str = option("oidc-username-claim", string, "sub")
    oidc_username_prefix: str = option("oidc-username-prefix", string, "")
    oidc_groups_claim: str = option("oidc-groups-claim", string, "")
    oidc_groups_prefix: str = option("oidc-groups-prefix", string, "")
    oidc_signing_algs: tuple[str, ...] = option("oidc-signing-algs", strings, "RS256", check=_algorithms)
    oidc_required_claims: Mapping[str, str] = option("oidc-required-claim", mapping, "")
    token_webhook_config_file: str = option("authentication-token-webhook-config-file", file_name, "")
    token_webhook_version: str = option(
        "authentication-token-webhook-version", string, "v1beta1", check=one_of("v1", "v1beta1")
    )

    def issuers(self, default: str) -> tuple[str, ...]:
        """The accepted issuers of service account tokens."""
        return self.service_account_issuers or (default,)

    @property
    def admits_users(self) -> bool:
        """True if an option admits users that the command line does not name."""
        return any(
            (
                self.token_auth_file,
                self.client_ca_file,
                self.requestheader_client_ca_file,
                self.oidc_issuer_url,
                self.token_webhook_config_file,
            )
        )

    def __post_init__(self) -> None:
        """Check rules between options; raises ValueError."""
        if self.service_account_signing_key_file and not self.service_account_key_files:
            raise ValueError("service-account-signing-key-file needs service-account-key-file")
        if bool(self.oidc_issuer_url) is not bool(self.oidc_client_id):
            raise ValueError("oidc-issuer-url and oidc-client-id should be specified together")
        if bool(self.proxy_client_cert_file) is not bool(self.proxy_client_key_file):
            raise ValueError("proxy-client-cert-file and proxy-client-key-file are given together")
        of_issuer: dict[str, object] = {
            "oidc-ca-file": self.oidc_ca_file,
            "oidc-keys-file": self.oidc_keys_file,
            "oidc-groups-claim": self.oidc_groups_claim,
            "oidc-username-prefix": self.oidc_username_prefix,
            "oidc-required-claim": self.oidc_required_claims,
        }
        check_needed("oidc-issuer-url", self.oidc_issuer_url, of_issuer)
        self.check_proxies()
