"""Options of the storage of an API server that runs alone.

Holds: a folder and a real etcd exclude each other; options of one without it are refused.

Mirrors  kubernetes v1.25 apiserver pkg/server/options/etcd.go; `data-dir` is Orrery's own.
Differs  etcd-servers may be empty: then the objects are in memory, or in the folder of data-dir.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.dataclass import dataclass
from sim.options.base import document, file_name, long_integer, more_than, one_of, option, string, strings

PROTOBUF, JSON = "application/vnd.kubernetes.protobuf", "application/json"


def _urls(value: tuple[str, ...]) -> str | None:
    wrong = next((each for each in value if not each.startswith(("http://", "https://"))), None)
    return None if wrong is None else f"must be URLs such as http://127.0.0.1:2379, {wrong} is none"


@dataclass(frozen=True, slots=True)
class StorageFlags:
    """Where the objects are kept."""

    data_dir: str = option("data-dir", file_name, "")
    etcd_servers: tuple[str, ...] = option("etcd-servers", strings, "", check=_urls)
    etcd_prefix: str = option("etcd-prefix", string, "/registry")
    etcd_cafile: str = option("etcd-cafile", file_name, "")
    etcd_certfile: str = option("etcd-certfile", file_name, "")
    etcd_keyfile: str = option("etcd-keyfile", file_name, "")
    storage_backend: str = option("storage-backend", string, "etcd3", check=one_of("", "etcd3"))
    storage_media_type: str = option("storage-media-type", string, PROTOBUF, check=one_of(PROTOBUF, JSON))
    lease_reuse_s: int = option("lease-reuse-duration-seconds", long_integer, 60, check=more_than(0))
    encryption: Mapping[str, Any] = option("encryption-provider-config", document, {})

    def __post_init__(self) -> None:
        """Raises ValueError if the options contradict each other."""
        if self.data_dir and self.etcd_servers:
            raise ValueError("data-dir: etcd-servers is given too; the objects are in one of both")
        if bool(self.etcd_certfile) is not bool(self.etcd_keyfile):
            raise ValueError("etcd-certfile: etcd-certfile and etcd-keyfile are given together, or none")
        if self.encryption and not self.etcd_servers:
            raise ValueError("encryption-provider-config: only values of etcd-servers are encrypted")
        if not self.etcd_servers and (self.etcd_cafile or self.etcd_certfile):
            raise ValueError("etcd-servers: it is missing, but options of its TLS are given")
