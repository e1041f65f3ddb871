"""A new container has the files of its image, which count nothing."""

from __future__ import annotations

from actors.node.programs.files.inodes import BLOCK, OUTSIDE, Program
from actors.node.programs.files.layout import image_layer
from actors.node.programs.files.tree import Tree


def test_an_image_has_its_programs_users_and_files_and_counts_nothing() -> None:
    layer = image_layer(
        ("ls", "sh"), 5, busybox=True, places={"nginx": "/usr/sbin/nginx"}, users={"nginx": (101, 101)},
        files={"/etc/nginx/nginx.conf": b"x"},
    )  # fmt: skip
    tree = Tree(layer, (), lambda: 6)
    found = tree.lookup("/usr/sbin/nginx", OUTSIDE)
    assert isinstance(found, Program)
    assert found.name == "nginx"
    assert tree.listdir("/bin", OUTSIDE) == ["busybox", "ls", "sh"]
    assert b"nginx:x:101:101:" in tree.read("/etc/passwd")
    assert tree.read("/etc/nginx/nginx.conf") == b"x"
    assert (layer.filesystem.bytes_used, layer.filesystem.inodes_used) == (0, 0)
    tree.write("/new", b"x")
    assert (layer.filesystem.bytes_used, layer.filesystem.inodes_used) == (BLOCK, 1)
