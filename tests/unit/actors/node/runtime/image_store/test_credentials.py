"""Which images pull secrets and providers are for."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from actors.node.runtime.image_store.credentials import has_user, is_private, matches, registries_of
from sim.api.types import Obj
from sim.errors import InputError
from sim.options.node.agent import parse_node_agent


def secret(kind: str, key: str, content: Any) -> Obj:
    return {"type": kind, "data": {key: b64encode(json.dumps(content).encode()).decode()}}


@pytest.mark.parametrize(
    ("pattern", "image", "found"),
    [
        ("r.io", "r.io/a/b:1", True),
        ("*.r.io", "x.r.io/a", True),
        ("*.r.io", "x.y.r.io/a", False),
        ("*.*.r.io", "x.y.r.io/a", True),
        ("r.io:5000", "r.io:5000/a", True),
        ("r.io", "r.io:5000/a", False),
        ("r.io/team", "r.io/team/app", True),
        ("r.io/team", "r.io/other/app", False),
        ("r.io/team", "r.io/teams/app", True),  # Quirk: the path is a prefix of bytes
    ],
)
def test_pattern_matches_parts_of_the_host_and_a_prefix_of_the_path(
    pattern: str, image: str, found: bool
) -> None:
    assert matches(pattern, image) is found


def test_secrets_name_registries_with_and_without_schemes() -> None:
    auths: dict[str, Any] = {"https://index.docker.io/v1/": {}, "r.io/team": {}, "http://x.io/v2/a": {}}
    known = ["index.docker.io/", "r.io/team", "x.io/a"]
    found = registries_of(secret("kubernetes.io/dockerconfigjson", ".dockerconfigjson", {"auths": auths}))
    assert [one.rstrip("/") for one in found] == [one.rstrip("/") for one in known]
    assert registries_of(secret("kubernetes.io/dockercfg", ".dockercfg", {"r.io": {}})) == ["r.io"]
    assert registries_of(secret("Opaque", ".dockercfg", {"r.io": {}})) == []
    assert registries_of({"type": "kubernetes.io/dockercfg", "data": {".dockercfg": "!"}}) == []


@pytest.mark.parametrize(
    ("image", "found"), [("nginx", True), ("docker.io/a/b", True), ("team/app", True), ("r.io/a", False)]
)
def test_users_of_the_default_registry_are_for_images_without_a_host(image: str, found: bool) -> None:
    assert has_user(["index.docker.io"], image) is found


def test_globs_say_which_images_are_private() -> None:
    assert is_private("r.io/a", ("r.io/*",))
    assert not is_private("x.io/a", ("r.io/*",))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"kind": "X"}, "wrong Kind"),
        ({"kind": "CredentialProviderConfig"}, "at least 1 item in plugins"),
        ({"kind": "CredentialProviderConfig", "providers": [{"name": "a/b"}]}, "providers.name"),
        ({"kind": "CredentialProviderConfig", "providers": [{"name": "a"}]}, "apiVersion is required"),
        (
            {
                "kind": "CredentialProviderConfig",
                "providers": [{"name": "a", "apiVersion": "credentialprovider.x/v1"}],
            },
            "at least 1 item in matchImages",
        ),
    ],
)
def test_wrong_configuration_of_providers_is_refused(content: Obj, text: str) -> None:
    with pytest.raises(InputError) as error:
        parse_node_agent({"image-credential-provider-config": content})
    assert text in error.value.message
