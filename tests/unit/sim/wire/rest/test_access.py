"""Client configurations: every form of credentials, and files that change."""

from __future__ import annotations

import stat
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from sim.wire.rest.access import Access, AccessError, Credentials, Given, access_of, pod_access
from sim.wire.rest.exec_plugins import run_plugin


def configuration(user: dict[str, Any], **cluster: Any) -> dict[str, Any]:
    return {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1/", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def credentials(user: dict[str, Any], folder: Path, clock: Clock | None = None) -> Credentials:
    clock = clock or Clock()
    return Credentials(access_of(configuration(user), folder), clock, run_plugin, clock)


@pytest.mark.parametrize(
    ("user", "headers"),
    [
        ({}, []),
        ({"token": "t"}, [("Authorization", "Bearer t")]),
        ({"username": "a", "password": "b"}, [("Authorization", f"Basic {b64encode(b'a:b').decode()}")]),
        (
            {"token": "t", "as": "jane", "as-groups": ["dev"], "as-user-extra": {"why": ["x"]}},
            [
                ("Impersonate-User", "jane"),
                ("Impersonate-Group", "dev"),
                ("Impersonate-Extra-why", "x"),
                ("Authorization", "Bearer t"),
            ],
        ),
    ],
)
def test_each_form_of_credentials_has_its_headers(
    user: dict[str, Any], headers: list[tuple[str, str]], tmp_path: Path
) -> None:
    assert credentials(user, tmp_path).headers() == headers


def test_a_token_file_is_read_again_within_a_minute(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old\n")
    clock = Clock()
    known = credentials({"tokenFile": "token", "token": "never"}, tmp_path, clock)
    assert known.headers() == [("Authorization", "Bearer old")]
    (tmp_path / "token").write_text("new\n")
    clock.now_s += 49
    assert known.headers() == [("Authorization", "Bearer old")]
    clock.now_s += 1
    assert known.headers() == [("Authorization", "Bearer new")]
    (tmp_path / "token").unlink()
    clock.now_s += 60
    assert known.headers() == [("Authorization", "Bearer new")]


def plugin(folder: Path, answer: str) -> dict[str, Any]:
    command = folder / "plugin"
    command.write_text(f"#!/bin/sh\nprintf x >> {folder}/runs\n{answer}\n")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": str(command), "interactiveMode": "Never"}}


ANSWER = (
    'echo \'{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1",'
    '"status":{"token":"t","expirationTimestamp":"1970-01-01T00:20:00Z"}}\''
)


def test_a_command_runs_again_when_its_credentials_expire_or_are_refused(tmp_path: Path) -> None:
    clock = Clock()
    known = credentials(plugin(tmp_path, ANSWER), tmp_path, clock)
    assert known.asks
    known.refresh()
    assert known.headers() == [("Authorization", "Bearer t")]
    assert not known.asks
    clock.now_s = 1200.0
    assert known.asks
    clock.now_s = 1199.0
    known.refuse()
    assert known.asks
    assert (tmp_path / "runs").read_text() == "x"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("exit 3", "failed with exit code 3"),
        ("echo hello", "is no ExecCredential"),
        ("""echo '{"apiVersion":"client.authentication.k8s.io/v1","status":{}}'""", "didn't return a token"),
    ],
)
def test_a_command_that_fails_is_named(answer: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(AccessError, match=text):
        credentials(plugin(tmp_path, answer), tmp_path).refresh()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"current-context": "there"}, "contexts has no entry 'there'"),
        ({"current-context": ""}, "current-context is missing"),
        ({"users": []}, "users has no entry 'u'"),
        ({"clusters": [{"name": "c", "cluster": {"server": "nowhere"}}]}, "must be an address with https://"),
        ({"users": [{"name": "u", "user": {"client-key-data": "!"}}]}, "client-key-data: is not base64"),
        ({"users": [{"name": "u", "user": {"client-key": "k"}}]}, "belong together"),
        (
            {"users": [{"name": "u", "user": {"auth-provider": {"name": "gcp"}}}]},
            "auth-provider: is not supported",
        ),
        ({"users": [{"name": "u", "user": {"as-groups": ["g"]}}]}, "need as"),
        (configuration({}, **{"proxy-url": "socks5://a"}), "proxy-url: must be an address with http://"),
        (
            configuration({}, **{"proxy-url": "http://a", "tls-server-name": "b"}),
            "proxy-url: .* without tls-server-name",
        ),
    ],
)
def test_a_wrong_configuration_is_refused_with_its_place(change: dict[str, Any], text: str) -> None:
    with pytest.raises(AccessError, match=text):
        access_of({**configuration({}), **change}, Path())


def test_another_context_than_the_current_one_can_be_chosen() -> None:
    document = configuration({"token": "t"})
    document["contexts"].append({"name": "there", "context": {"cluster": "d", "user": "v"}})
    document["clusters"].append(
        {"name": "d", "cluster": {"server": "https://d:6443", "proxy-url": "http://p:1"}}
    )
    document["users"].append({"name": "v", "user": {"token": "w"}})
    there = access_of(document, Path(), "there")
    assert (there.server, there.token.read(), there.proxy) == ("https://d:6443", b"w", "http://p:1")
    assert access_of(document, Path()).server == "http://127.0.0.1:1"


def test_a_pod_has_the_token_and_authority_of_its_folder(tmp_path: Path) -> None:
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    assert pod_access(environment, tmp_path) is None
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_text("c")
    access = pod_access(environment, tmp_path)
    assert isinstance(access, Access)
    assert (access.server, access.token.read(), access.authorities.read()) == (
        "https://[fd00::1]:443",
        b"t",
        b"c",
    )
    assert pod_access({}, tmp_path) is None


def test_credentials_of_a_command_win_over_a_token(tmp_path: Path) -> None:
    access = access_of(configuration({"token": "t", "exec": {}}), tmp_path)
    known = Credentials(access, Clock(), lambda _: Given("given", b"", 2000.0), Clock())
    known.refresh()
    assert known.headers() == [("Authorization", "Bearer given")]


def test_an_anonymous_client_shows_nothing_and_believes_the_same_server(tmp_path: Path) -> None:
    named = credentials({"token": "t", "as": "someone", "exec": plugin(tmp_path, "{}")}, tmp_path)
    anonymous = named.anonymous()
    assert named.headers() == [("Impersonate-User", "someone"), ("Authorization", "Bearer t")]
    assert anonymous.headers() == []
    assert not anonymous.asks
    assert not anonymous.access.certificate
    assert (anonymous.access.server, anonymous.access.authorities) == (
        named.access.server,
        named.access.authorities,
    )
