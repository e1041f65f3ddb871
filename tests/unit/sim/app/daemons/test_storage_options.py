"""Options of the storage of an API server that contradict each other, or are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.errors import InputError
from sim.ident import NAMES
from sim.options.apiserver.storage import StorageFlags
from sim.options.base import parse

ETCD = "http://127.0.0.1:2379"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"data-dir": "d", "etcd-servers": ETCD}, "--data-dir: data-dir: etcd-servers is given too"),
        ({"etcd-servers": "127.0.0.1:2379"}, "must be URLs such as"),
        ({"etcd-servers": ETCD, "etcd-certfile": "c"}, "etcd-certfile and etcd-keyfile are given together"),
        ({"etcd-cafile": "c"}, "etcd-servers: it is missing"),
        ({"encryption-provider-config": {"kind": "x"}}, "only values of etcd-servers are encrypted"),
        ({"storage-backend": "etcd2"}, "storage-backend"),
        ({"storage-media-type": "application/yaml"}, "storage-media-type"),
    ],
)
def test_wrong_options_of_the_storage_are_named(given: dict[str, object], text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(StorageFlags, given, names=NAMES["kubernetes"], places={name: f"--{name}" for name in given})
    assert text in str(caught.value)


def test_the_options_of_etcd_have_the_defaults_of_upstream() -> None:
    flags = parse(StorageFlags, {"etcd-servers": f"{ETCD},https://b:1"})
    assert flags.etcd_servers == (ETCD, "https://b:1")
    assert (flags.etcd_prefix, flags.storage_media_type) == (
        "/registry",
        "application/vnd.kubernetes.protobuf",
    )
    assert Path(flags.data_dir) == Path()
