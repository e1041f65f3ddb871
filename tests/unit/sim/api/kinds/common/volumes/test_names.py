"""The names of volumes and attachments that several processes compute."""

from __future__ import annotations

from sim.api.kinds.common.volumes.names import attachment_name, csi_volume_name, csi_volume_of
from sim.ident import NAMES

NAMING = NAMES["kubernetes"]


def test_unique_name_of_a_csi_volume_can_be_read_again() -> None:
    name = csi_volume_name(NAMING, "disk.csi.example.com", "vol^1")
    assert name == "kubernetes.io/csi/disk.csi.example.com^vol^1"
    assert csi_volume_of(NAMING, name) == ("disk.csi.example.com", "vol^1")
    assert csi_volume_of(NAMING, "kubernetes.io/host-path/x") is None


def test_attachment_name_is_that_of_upstream() -> None:
    digest = "fdef298eb16db6fa42906ef1ff09a93a7f3028f8290cc9d71628ff91c237bfa7"
    assert attachment_name("driver", "handle", "node") == f"csi-{digest}"
