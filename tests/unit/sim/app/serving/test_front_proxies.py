"""The certificate by which aggregated servers know a served cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sim.app.serving.identities import aggregator_pair
from sim.errors import InputError
from sim.options.apiserver.authentication import AuthenticationFlags

FLAGS = AuthenticationFlags()


def test_pair_is_absent_unless_an_option_names_it_or_it_is_made(tmp_path: Path) -> None:
    assert aggregator_pair(FLAGS, made=False) == (b"", b"")
    pair, authority = aggregator_pair(FLAGS, made=True)
    assert (pair.count(b"BEGIN"), authority.count(b"BEGIN CERTIFICATE")) == (2, 1)
    for name in ("cert", "key"):
        (tmp_path / name).write_text(name)
    named = replace(
        FLAGS, proxy_client_cert_file=str(tmp_path / "cert"), proxy_client_key_file=str(tmp_path / "key")
    )
    assert aggregator_pair(named, made=False) == (b"cert\nkey", b"")


def test_front_proxy_of_options_excludes_a_made_one() -> None:
    by_pair = replace(FLAGS, proxy_client_cert_file="cert", proxy_client_key_file="key")
    for named in (by_pair, replace(FLAGS, requestheader_client_ca_file="file")):
        with pytest.raises(InputError, match="a front proxy is made, and an option names one"):
            aggregator_pair(named, made=True)
