"""What exists on a machine, and which hostPath volumes can be mounted."""

import pytest

from actors.node.volumes.host_paths import checked, kind_of
from actors.node.volumes.specs import target_of
from sim.ident import NAMES
from sim.options.node.agent import parse_node_agent

OPTIONS = parse_node_agent({})


@pytest.mark.parametrize(
    ("path", "wanted", "problem"),
    [
        ("/no/such", "", ""),
        ("/var/log/", "Directory", ""),
        ("/var", "Directory", ""),
        ("/var/run/containerd/containerd.sock", "Socket", ""),
        ("/dev/null", "CharDevice", ""),
        ("/etc/hosts", "Directory", "hostPath type check failed: /etc/hosts is not a directory"),
        ("/data", "File", "hostPath type check failed: /data is not a file"),
        ("/x.sock", "Socket", "hostPath type check failed: /x.sock is not a socket file"),
        ("/dev/x", "CharDevice", "hostPath type check failed: /dev/x is not a character device"),
        ("/dev/x", "BlockDevice", "hostPath type check failed: /dev/x is not a block device"),
    ],
)
def test_type_of_a_host_path_decides_what_must_exist(path: str, wanted: str, problem: str) -> None:
    assert checked(path, wanted, {}, OPTIONS) == problem


def test_path_that_is_to_be_made_exists_afterwards() -> None:
    made: dict[str, str] = {}
    assert checked("/data/x/", "FileOrCreate", made, OPTIONS) == ""
    assert made == {"/data/x": "File"} and kind_of("/data", made) == "Directory"
    # A type with OrCreate accepts every kind that exists.
    assert checked("/data", "FileOrCreate", made, OPTIONS) == "" and len(made) == 1


def test_in_tree_disk_is_mounted_by_the_driver_that_replaced_it() -> None:
    pod = {"metadata": {"uid": "u"}, "spec": {"securityContext": {"fsGroup": 5}}}
    target = target_of(
        pod, {"name": "v", "gcePersistentDisk": {"pdName": "d", "fsType": "ext4"}}, None, NAMES["kubernetes"]
    )
    unique = "kubernetes.io/csi/pd.csi.storage.gke.io^projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"
    assert (target.driver, target.unique, target.fs_group) == ("pd.csi.storage.gke.io", unique, True)
