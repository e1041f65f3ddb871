"""The client configuration that names a service outside."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from sim.app.receivers import read_receiver
from sim.errors import InputError
from sim.scenario.read.option_file import OptionFile


def config(tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> OptionFile:
    value = {
        "clusters": [
            {"name": "other", "cluster": {"server": "http://no"}},
            {"name": "c", "cluster": cluster},
        ],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file = tmp_path / "webhook.yaml"
    file.write_text(yaml.safe_dump(value))
    return OptionFile("webhook-file", str(file))


def test_current_context_names_server_and_credentials(tmp_path: Path) -> None:
    found = read_receiver(config(tmp_path, {"server": "http://host/hook"}, {"token": "t"}))
    assert found == ("http://host/hook", {"Authorization": "Bearer t"}, None)
    basic = read_receiver(config(tmp_path, {"server": "http://h"}, {"username": "u", "password": "p"}))
    assert basic.headers == {"Authorization": f"Basic {base64.b64encode(b'u:p').decode()}"}
    (tmp_path / "token").write_text("of a file\n")
    named = read_receiver(config(tmp_path, {"server": "http://h"}, {"tokenFile": "token"}))
    assert named.headers == {"Authorization": "Bearer of a file"}
    secure = read_receiver(config(tmp_path, {"server": "https://h", "insecure-skip-tls-verify": True}, {}))
    assert secure.context is not None
    assert not secure.context.check_hostname


@pytest.mark.parametrize("text", ["a: 1", "- 1", "clusters: []\ncurrent-context: x\n"])
def test_wrong_configuration_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "webhook.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match="is no client configuration"):
        read_receiver(OptionFile("webhook-file", str(file)))


@pytest.mark.parametrize(
    ("cluster", "says"),
    [
        ({"server": "ftp://x"}, "server: must be an address with https://"),
        (
            {"server": "https://x", "insecure-skip-tls-verify": "no"},
            "insecure-skip-tls-verify: must be true or false",
        ),
        (
            {"server": "https://x", "certificate-authority": "no.pem"},
            r"^option webhook-file: .*no.pem: no such",
        ),
        ({"server": "https://x", "certificate-authority-data": "eA=="}, "its certificates cannot be used"),
    ],
)
def test_server_that_cannot_be_used_is_refused(tmp_path: Path, cluster: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_receiver(config(tmp_path, cluster, {}))
