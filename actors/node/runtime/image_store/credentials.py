"""Credentials for the registries of private images.  Pure.

Turns the pull secrets of a pod, and the configuration of credential providers, into whether a pull
of an image is authorized.

Mirrors  pkg/credentialprovider/keyring.go: Add, Lookup, URLsMatch, isDefaultRegistryMatch; secrets/
         secrets.go: MakeDockerKeyring; plugin/plugin.go: isImageAllowed (v1.25); containerd
         remotes/docker: the error of a pull without authorization (1.6).
Differs  a registry accepts every user that is named for it, and a provider has credentials for each
         image that it matches.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from sim.api.types import Obj
from sim.options.node.agent import NodeAgentOptions

DEFAULT_REGISTRY = "index.docker.io"
_KEYS = {"dockerconfigjson": ".dockerconfigjson", "dockercfg": ".dockercfg"}


def is_private(image: str, globs: Sequence[str]) -> bool:
    """True if a pull of the image needs credentials."""
    return any(fnmatchcase(image, glob) for glob in globs)


def unauthorized(image: str) -> str:
    """The error of a pull without credentials."""
    return (
        f'rpc error: code = Unknown desc = failed to pull and unpack image "{image}": failed to resolve '
        f'reference "{image}": pull access denied, repository does not exist or may require authorization: '
        "server message: insufficient_scope: authorization failed"
    )


def registries_of(secret: Obj) -> list[str]:
    """The registries, perhaps with paths, for which a pull secret has users."""
    key = _KEYS.get(secret.get("type", "").rpartition("/")[2], "")
    try:
        held = json.loads(b64decode((secret.get("data") or {}).get(key, "")))
        users = held.get("auths", {}) if key == ".dockerconfigjson" else held
        return [_registry(name) for name in users]
    except (ValueError, AttributeError, TypeError):
        return []


def _registry(name: str) -> str:
    """Host and path of a registry's address."""
    host, slash, path = name.partition("://")[2].partition("/") if "://" in name else name.partition("/")
    if path[:3] in ("v1/", "v2/"):
        path = path[3:]
    return f"{host}{slash}{path}" if path else host


def provided(options: NodeAgentOptions, image: str) -> bool:
    """True if a credential provider matches the image."""
    return any(matches(pattern, image) for pattern in options.provider_patterns(options.feature_gates))


def has_user(registries: Iterable[str], image: str) -> bool:
    """True if one of these registries is that of the image."""
    known = list(registries)
    if any(matches(one, image) for one in known):
        return True
    return DEFAULT_REGISTRY in known and _is_of_default(image)


def _is_of_default(image: str) -> bool:
    """True if the image comes from the default registry."""
    head, slash, _ = image.partition("/")
    return not slash or head in ("docker.io", DEFAULT_REGISTRY) or not ("." in head or ":" in head)


def matches(pattern: str, image: str) -> bool:
    """True if an image matches: its host by globs of its parts, its path by a prefix."""
    (glob, _, path), (host, _, rest) = pattern.partition("/"), image.partition("/")
    (glob, _, glob_port), (host, _, port) = glob.partition(":"), host.partition(":")
    globs, parts = glob.split("."), host.split(".")
    return (
        glob_port == port
        and len(globs) == len(parts)
        and rest.startswith(path)
        and all(fnmatchcase(part, one) for one, part in zip(globs, parts, strict=True))
    )


def pull_secrets(pod: Obj) -> list[str]:
    """The names of a pod's pull secrets."""
    references: Sequence[Mapping[str, str]] = pod["spec"].get("imagePullSecrets") or ()
    return [one["name"] for one in references if one.get("name")]
