"""Volumes that are made of objects: their files, their updates, their group."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from actors.node.programs.files.inodes import OUTSIDE, Filesystem, Symlink
from actors.node.programs.files.payloads import PayloadError, Projected, Reader, payload
from actors.node.programs.files.tree import Mount, Tree, Volume
from actors.node.programs.files.volumes import path_problem, project, set_group
from sim.units import SECOND

WALL_US = 1_661_212_800 * SECOND
POD = {
    "metadata": {"name": "p", "namespace": "n", "labels": {"b": "2", "a": 'x"y'}},
    "spec": {"containers": [{"name": "c", "securityContext": {"runAsUser": 7}}]},
}
OBJECTS = {
    ("configmaps", "cm"): {
        "data": {"one": "1", "two": "2"},
        "binaryData": {"raw": b64encode(b"\0\1").decode()},
    },
    ("secrets", "s"): {"data": {"key": b64encode(b"secret").decode()}},
}
READER = Reader(
    lambda resource, name: OBJECTS.get((resource, name)), lambda path: f"<{path}>", lambda _: "250",
    lambda one: f"token for {one['path']}",
)  # fmt: skip


def files(volume: dict[str, Any]) -> dict[str, tuple[bytes, int]]:
    """The payload of a volume: data and mode of each file."""
    made = payload(volume, POD, READER)
    assert made is not None
    return {path: (one.data, one.mode) for path, one in made.items()}


def mounted(volume: Volume, path: str = "/v", sub_path: str = "") -> Tree:
    """A container that mounts a volume."""
    inode = volume.part(sub_path) if sub_path else volume.root
    return Tree(Volume(Filesystem()), [Mount(path, inode)], lambda: WALL_US)


def test_a_config_map_has_a_file_for_each_key() -> None:
    found = files({"configMap": {"name": "cm", "defaultMode": 0o600}})
    assert found == {"one": (b"1", 0o600), "raw": (b"\0\1", 0o600), "two": (b"2", 0o600)}


def test_items_choose_keys_with_paths_and_modes() -> None:
    items = [{"key": "two", "path": "a/b"}, {"key": "one", "path": "c", "mode": 0o400}]
    assert files({"configMap": {"name": "cm", "items": items}}) == {"a/b": (b"2", 0o644), "c": (b"1", 0o400)}


@pytest.mark.parametrize(("volume", "text"), [
    ({"configMap": {"name": "cm", "items": [{"key": "no", "path": "x"}]}}, "configmap references non-existent config key: no"),
    ({"secret": {"secretName": "s", "items": [{"key": "no", "path": "x"}]}}, "references non-existent secret key: no"),
    ({"secret": {"secretName": "gone"}}, 'secret "gone" not found'),
])  # fmt: skip
def test_what_is_missing_is_an_error_unless_it_is_optional(volume: dict[str, Any], text: str) -> None:
    with pytest.raises(PayloadError) as caught:
        payload(volume, POD, READER)
    assert caught.value.text == text
    (kind,) = volume
    assert files({kind: {**volume[kind], "optional": True}}) == {}


def test_downward_files_have_labels_in_order_and_resources() -> None:
    items = [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
        {"path": "cpu", "resourceFieldRef": {"resource": "limits.cpu"}, "mode": 0o400},
    ]
    assert files({"downwardAPI": {"items": items}}) == {
        "labels": (b'a="x\\"y"\nb="2"', 0o644), "name": (b"<metadata.name>", 0o644), "cpu": (b"250", 0o400),
    }  # fmt: skip


def test_projected_sources_share_a_directory_and_report_all_problems() -> None:
    sources: list[dict[str, Any]] = [
        {"secret": {"name": "s"}}, {"configMap": {"name": "cm", "items": [{"key": "one", "path": "one"}]}},
        {"serviceAccountToken": {"path": "token"}},
    ]  # fmt: skip
    found = files({"projected": {"sources": sources, "defaultMode": 0o440}})
    assert found == {"key": (b"secret", 0o440), "one": (b"1", 0o440), "token": (b"token for token", 0o600)}
    bad = [{"secret": {"name": "x"}}, {"configMap": {"name": "y"}}]
    with pytest.raises(PayloadError) as caught:
        payload({"projected": {"sources": bad}}, POD, READER)
    assert caught.value.text == '[secret "x" not found, configmap "y" not found]'


def test_a_volume_of_objects_has_upstreams_form() -> None:
    volume = Volume(Filesystem("tmpfs"))
    assert project(volume, {"a": Projected(b"1", 0o644), "d/e": Projected(b"2", 0o400)}, WALL_US)
    tree = mounted(volume)
    folder, *names = tree.listdir("/v", OUTSIDE)
    assert folder.startswith("..2022_08_23_00_00_00.")
    assert names == ["..data", "a", "d"]
    assert (tree.readlink("/v/a", OUTSIDE), tree.readlink("/v/..data", OUTSIDE)) == ("..data/a", folder)
    assert (tree.read("/v/d/e"), tree.lookup("/v/d/e", OUTSIDE).mode) == (b"2", 0o400)


def test_an_update_swaps_all_files_at_once_and_a_sub_path_keeps_the_old_ones() -> None:
    volume = Volume(Filesystem("tmpfs"))
    project(volume, {"a": Projected(b"1", 0o644), "b": Projected(b"1", 0o644)}, WALL_US)
    whole, part = mounted(volume), mounted(volume, "/etc/a", "a")
    open_before = whole.open("/v/a", OUTSIDE)
    assert not project(volume, {"a": Projected(b"1", 0o644), "b": Projected(b"1", 0o644)}, WALL_US + SECOND)
    assert project(volume, {"a": Projected(b"2", 0o644), "c": Projected(b"3", 0o644)}, WALL_US + SECOND)
    assert (whole.read("/v/a"), whole.read("/v/c"), whole.exists("/v/b", OUTSIDE)) == (b"2", b"3", False)
    assert part.read("/etc/a") == b"1"
    assert open_before.read(9) == b"1"
    assert len([name for name in whole.listdir("/v", OUTSIDE) if name.startswith("..2022")]) == 1


@pytest.mark.parametrize("path", ["", "/abs", "a/../b", "..x", "n" * 256, "a/" * 2100])
def test_a_payload_with_a_bad_path_changes_nothing(path: str) -> None:
    volume = Volume(Filesystem("tmpfs"))
    assert path_problem(path)
    with pytest.raises(PayloadError):
        project(volume, {"ok": Projected(b"", 0o644), path: Projected(b"", 0o644)}, WALL_US)
    assert volume.filesystem.inodes_used == 1


def test_a_group_may_read_files_and_write_those_that_are_not_read_only() -> None:
    volume, other = Volume(Filesystem("tmpfs")), Volume(Filesystem())
    project(volume, {"a": Projected(b"1", 0o400)}, WALL_US)
    set_group(volume, 2000, read_only=True)
    set_group(other, 2000, read_only=False)
    file = mounted(volume).lookup("/v/a", OUTSIDE)
    assert (file.mode, file.gid, volume.root.mode, other.root.mode) == (0o440, 2000, 0o2755, 0o2775)
    link = mounted(volume).lookup("/v/a", OUTSIDE, follow=False)
    assert isinstance(link, Symlink)
