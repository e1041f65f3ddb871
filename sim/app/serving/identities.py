"""The identities of a served cluster: options and files become an authenticator and its keys.

Turns the options of authentication, the files that they name and the users of the command line into
an `Authenticator`, a `CertificateReader` and the documents of the issuer of service account tokens.

Holds: each file is read once, before the cluster is served; a file that cannot be used is an error
that names its option.

Mirrors  kubernetes v1.25 pkg/kubeapiserver/authenticator/config.go (New),
         pkg/kubeapiserver/options/authentication.go, pkg/serviceaccount/openidmetadata.go.
Differs  The server's own authority and its administrator's token are accepted in addition to those
         of the options.  Certificates are compared with the real clock, since TLS is outside of the
         simulation, and tokens of the cluster with its virtual clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from urllib.parse import urlsplit

import msgspec

from actors.apiserver.builtin.client_authorities import CLIENT_CA, LISTS, PROXY_CA
from actors.controllers.certificates.decide import signer_names
from actors.controllers.certificates.issue import read_authority
from sim.api.aggregation.delegation import EXTRA_HEADER, GROUP_HEADER, USER_HEADER
from sim.api.auth.account_tokens import AccountTokens, Find
from sim.api.auth.authenticator import (
    AudienceAgnostic,
    AuthenticateRequest,
    AuthenticateToken,
    Authenticator,
)
from sim.api.auth.authenticators.bootstrap_tokens import BootstrapTokens
from sim.api.auth.authenticators.client_certificates import ClientCertificates
from sim.api.auth.authenticators.front_proxy import FrontProxy, ProxyHeaders
from sim.api.auth.authenticators.oidc import ClaimRules, IdTokens, IssuerKeys, prefix_of
from sim.api.auth.authenticators.token_file import StaticTokens, parse_users
from sim.api.auth.authenticators.token_webhook import WebhookTokens
from sim.api.auth.keys import (
    SigningKey,
    VerifyingKeys,
    public_key_set,
    read_key_set,
    read_signing_key,
    read_verifying_keys,
)
from sim.api.types import UserInfo
from sim.app.cluster import Cluster
from sim.app.receivers import read_receiver
from sim.app.serving.remote import Issuer, Remote, Webhook
from sim.dataclass import dataclass
from sim.errors import InputError
from sim.ident import Names
from sim.kernel.measure import count, observe
from sim.options.apiserver.authentication import AuthenticationFlags
from sim.options.base import options_of
from sim.options.controllers.manager import ControllerManagerOptions
from sim.scenario.read.option_file import OptionFile, OptionFiles
from sim.wire.authority import Authority
from sim.wire.http.certificates import CertificateReader, load_bundle
from sim.wire.http.documents import Published
from sim.wire.outside.receiver import Receiver
from sim.wire.tls import client_context

MEDIA_KEYS = "application/jwk-set+json"  # RFC 7517
PROXY_CA_NAME, PROXY_USER = "front-proxy-ca", "front-proxy-client"  # kubeadm's names
TOKEN_FILE = "token-auth-file"
# pkg/authentication/request/x509/x509.go
CERTIFICATE_AGE = "apiserver_client_certificate_expiration_seconds"


@dataclass(frozen=True, slots=True)
class Files:
    """The contents of the files that the options name.

    signing: the key that signs service account tokens; verifying: all keys that verify them
    users: of the token file, by token
    client_ca, front_proxy_ca: PEM bundles, b"" for none
    issuer: the issuer of ID tokens; webhook: the service that judges tokens
    """

    signing: SigningKey
    verifying: VerifyingKeys
    users: Mapping[str, UserInfo]
    client_ca: bytes = b""
    front_proxy_ca: bytes = b""
    issuer: Issuer | None = None
    webhook: Receiver | None = None

    @classmethod
    def read(
        cls, flags: AuthenticationFlags, key: SigningKey | None = None, files: OptionFiles = OptionFiles()
    ) -> Files:
        """Read all files.  Raises InputError.

        key: the key that signs if no option names one; None for a new one
        """
        of = files.of
        if path := flags.service_account_signing_key_file:
            key = of("service-account-signing-key-file", path).read(read_signing_key)
        signing = key or SigningKey.new()
        verifying = [
            key
            for path in flags.service_account_key_files
            for key in of("service-account-key-file", path).read(read_verifying_keys)
        ]
        users, webhook = flags.token_auth_file, flags.token_webhook_config_file
        return cls(
            signing,
            VerifyingKeys(verifying or [signing.public]),
            read_users(of(TOKEN_FILE, users)) if users else {},
            _bundle(of("client-ca-file", flags.client_ca_file)),
            _bundle(of("requestheader-client-ca-file", flags.requestheader_client_ca_file)),
            _issuer(flags, files) if flags.oidc_issuer_url else None,
            read_receiver(of("authentication-token-webhook-config-file", webhook)) if webhook else None,
        )


def signing_authorities(
    options: ControllerManagerOptions, names: Names, of_cluster: bytes, files: OptionFiles = OptionFiles()
) -> dict[str, str]:
    """The authorities of the signers of certificates, by the name of the signer ("" for all
    others): certificate and key, PEM.  Raises InputError.

    of_cluster: the authority of signers that no option names
    """
    entry = {"": ("", (options.cluster_signing_cert_file, options.cluster_signing_key_file))}
    pairs = options.signing_files()
    entry |= {name: (one.value, pairs[one.value]) for one, name in signer_names(names).items()}
    spelled = options_of(ControllerManagerOptions)
    result = {"": of_cluster.decode()}
    for name, (signer, (certificate, key)) in entry.items():
        if certificate:
            part = signer.replace("csrsigning-", "").replace("-", "_")
            both = (f"cluster_signing_{part}{'_' if part else ''}{what}_file" for what in ("cert", "key"))
            of_cert, of_key = (spelled[field].spelled(names) for field in both)
            secret = files.of(of_key, key).data()

            def checked(data: bytes, secret: bytes = secret) -> str:
                pem = data.rstrip() + b"\n" + secret
                read_authority(pem)
                return pem.decode()

            result[name] = files.of(of_cert, certificate).read(checked)
    return result


def key_of_controllers(path: str, files: OptionFiles) -> str:
    """The key of the file of service-account-private-key-file, PEM.  Raises InputError."""
    file = files.of("service-account-private-key-file", path)
    return file.read(lambda data: read_signing_key(data).pem).decode()


def read_users(file: OptionFile) -> dict[str, UserInfo]:
    """Read the users of a token file.  Raises InputError."""
    return file.text(lambda text: parse_users(text, file.path))


def _issuer(flags: AuthenticationFlags, files: OptionFiles) -> Issuer:
    path = flags.oidc_keys_file
    keys = files.of("oidc-keys-file", path).read(read_key_set) if path else ()
    ca = _bundle(files.of("oidc-ca-file", flags.oidc_ca_file))
    context = client_context(ca) if ca else None
    return Issuer(flags.oidc_issuer_url, IssuerKeys(keys, fixed=bool(path)), context)


def _bundle(file: OptionFile) -> bytes:
    def checked(data: bytes) -> bytes:
        load_bundle(data)
        return data

    return file.read(checked) if file.path else b""


def make_authenticator(
    cluster: Cluster,
    files: Files,
    users: Mapping[str, UserInfo],
    find: Find,
    wall_us: Callable[[], int],
    outside_us: Callable[[], int],
) -> tuple[Authenticator, Remote]:
    """The authenticators of a cluster, in upstream's order, and the services that they consult.

    users: further users by token, beside those of the token file
    find: finds an object by resource, namespace and name
    wall_us, outside_us: read the clock of the cluster and that of connections
    """
    names, flags, rules = cluster.names, cluster.options.authentication, cluster.options.tokens
    requests: list[AuthenticateRequest] = []
    if files.front_proxy_ca:
        headers = ProxyHeaders(
            flags.requestheader_allowed_names,
            flags.requestheader_username_headers,
            flags.requestheader_group_headers,
            flags.requestheader_extra_prefixes,
        )
        requests.append(FrontProxy(headers, outside_us).authenticate)
    kernel = cluster.kernel
    certificates = ClientCertificates(outside_us)
    certificates.counted = partial(observe, kernel, CERTIFICATE_AGE)
    requests.append(certificates.authenticate)
    static = StaticTokens({**files.users, **users})
    tokens: list[AuthenticateToken] = [AudienceAgnostic(rules.audiences, static.authenticate).authenticate]
    for legacy in (True, False):
        of_accounts = AccountTokens(names, rules, files.verifying, find, wall_us, legacy=legacy)
        of_accounts.counted = lambda kind: count(kernel, f"serviceaccount_{kind}_tokens_total")
        tokens.append(of_accounts.authenticate)
    if flags.bootstrap_token_auth:
        bootstrap = BootstrapTokens(names, find, wall_us)
        tokens.append(AudienceAgnostic(rules.audiences, bootstrap.authenticate).authenticate)
    if files.issuer is not None:
        id_tokens = IdTokens(claim_rules(flags), files.issuer.keys, outside_us)
        tokens.append(AudienceAgnostic(rules.audiences, id_tokens.authenticate).authenticate)
    webhook = None
    if files.webhook is not None:
        answers = WebhookTokens(rules.audiences, flags.token_webhook_cache_ttl_us, outside_us)
        tokens.append(answers.authenticate)
        version = names.api_version("authentication", flags.token_webhook_version)
        webhook = Webhook(files.webhook, answers, version)
    new = Authenticator(names, requests, tokens, rules.audiences, anonymous=flags.anonymous_auth)
    return new, Remote(files.issuer, webhook, outside_us)


def claim_rules(flags: AuthenticationFlags) -> ClaimRules:
    """The rules for the claims of ID tokens."""
    issuer = flags.oidc_issuer_url
    return ClaimRules(
        issuer,
        flags.oidc_client_id,
        flags.oidc_username_claim,
        prefix_of(flags.oidc_username_prefix, issuer, flags.oidc_username_claim),
        flags.oidc_groups_claim,
        flags.oidc_groups_prefix,
        flags.oidc_signing_algs,
        flags.oidc_required_claims,
    )


def published_authorities(
    files: Files, flags: AuthenticationFlags, authorities: Sequence[bytes], aggregator_ca: bytes = b""
) -> dict[str, str]:
    """How the server authenticates clients, as the data of the ConfigMap that publishes it.

    authorities: the server's own, as PEM
    aggregator_ca: the authority of a certificate that was made for this server, b"" for none
    """
    data = {CLIENT_CA: b"".join((*authorities, files.client_ca)).decode()}
    if files.front_proxy_ca:
        values = (
            flags.requestheader_username_headers,
            flags.requestheader_group_headers,
            flags.requestheader_extra_prefixes,
            flags.requestheader_allowed_names,
        )
        data |= _proxy_data(files.front_proxy_ca, values)
    elif aggregator_ca:
        data |= _proxy_data(aggregator_ca, ((USER_HEADER,), (GROUP_HEADER,), (EXTRA_HEADER,), (PROXY_USER,)))
    return data


def _proxy_data(authority: bytes, values: Sequence[Sequence[str]]) -> dict[str, str]:
    texts = [msgspec.json.encode(value).decode() for value in values]
    return {PROXY_CA: authority.decode(), **dict(zip(LISTS, texts, strict=True))}


def aggregator_pair(
    flags: AuthenticationFlags, files: OptionFiles = OptionFiles(), *, made: bool
) -> tuple[bytes, bytes]:
    """The certificate and key, PEM, by which aggregated servers know this one, and their authority.

    The pair is b"" if no option names it and none is to be made: aggregated servers then see no
    certificate.  The authority is b"" unless it is made.  Raises InputError.

    made: make an authority and a certificate, as kubeadm does for a cluster
    """
    certificate = files.of("proxy-client-cert-file", flags.proxy_client_cert_file)
    key = files.of("proxy-client-key-file", flags.proxy_client_key_file)
    if made and (flags.proxy_client_cert_file or flags.requestheader_client_ca_file):
        entry = "proxy-client-cert-file or requestheader-client-ca-file"
        raise InputError("a front proxy is made, and an option names one", entry, "give one of both")
    if certificate.path and key.path:
        return certificate.data() + b"\n" + key.data(), b""
    if not made:
        return b"", b""
    authority = Authority(PROXY_CA_NAME)
    pair = authority.client(PROXY_USER, ())
    return pair.certificate + pair.key, authority.pem


def make_certificate_reader(files: Files, authorities: Sequence[bytes]) -> CertificateReader:
    """The reader of client certificates.

    authorities: the server's own, as PEM
    """
    own = [each for each in (*authorities, files.client_ca) if each]
    return CertificateReader(own, files.front_proxy_ca)


def issuer_documents(cluster: Cluster, files: Files, address: str) -> dict[str, Published]:
    """The documents by which other programs verify service account tokens, by path.

    The result is empty for an issuer that OpenID Connect does not allow, as upstream's.
    address: of the server
    """
    names, flags = cluster.names, cluster.options.authentication
    issuer = cluster.options.tokens.issuer
    url = urlsplit(issuer)
    if url.scheme != "https" or url.query or url.fragment:
        return {}
    keys = files.verifying.keys
    configuration = {
        "issuer": issuer,
        "jwks_uri": flags.service_account_jwks_uri or f"https://{address}{names.openid_keys_path}",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": sorted({key.algorithm for key in keys}),
    }
    key_set = public_key_set(keys)
    return {
        names.openid_configuration_path: Published(names.media_json, msgspec.json.encode(configuration)),
        names.openid_keys_path: Published(MEDIA_KEYS, msgspec.json.encode(key_set)),
    }
