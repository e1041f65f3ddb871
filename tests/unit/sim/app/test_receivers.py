"""The client configuration that names a service outside."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from sim.app.receivers import read_receiver
from sim.errors import InputError


def config(tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> Path:
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
    return file


def test_current_context_names_server_and_credentials(tmp_path: Path) -> None:
    found = read_receiver(config(tmp_path, {"server": "http://host/hook"}, {"token": "t"}))
    assert found == ("http://host/hook", {"Authorization": "Bearer t"}, None)
    basic = read_receiver(config(tmp_path, {"server": "http://h"}, {"username": "u", "password": "p"}))
    assert basic.headers == {"Authorization": f"Basic {base64.b64encode(b'u:p').decode()}"}
    secure = read_receiver(config(tmp_path, {"server": "https://h", "insecure-skip-tls-verify": True}, {}))
    assert secure.context is not None
    assert not secure.context.check_hostname


@pytest.mark.parametrize("text", ["a: 1", "- 1", "clusters: []\ncurrent-context: x\n"])
def test_wrong_configuration_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "webhook.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match="is no client configuration"):
        read_receiver(file)


@pytest.mark.parametrize(
    ("cluster", "says"),
    [
        ({"server": "ftp://x"}, "names no server that is reached by http or https"),
        (
            {"server": "https://x", "insecure-skip-tls-verify": "no"},
            "insecure-skip-tls-verify is true or false",
        ),
        ({"server": "https://x", "certificate-authority": "none.pem"}, "its certificates cannot be used"),
        ({"server": "https://x", "certificate-authority-data": "eA=="}, "its certificates cannot be used"),
    ],
)
def test_server_that_cannot_be_used_is_refused(tmp_path: Path, cluster: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_receiver(config(tmp_path, cluster, {}))
