"""agnhost's subcommand mounttest: what a program sees of mounted files.

Mirrors  kubernetes test/images/agnhost/mounttest/{mt,mt_utils}.go: flags, their order, lines.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from actors.node.programs.ends import send
from actors.node.programs.files.errors import FileError
from actors.node.programs.images.flags import flags_of
from actors.node.programs.process import Process
from actors.node.programs.waits import Main, Wait
from sim.units import SECOND

CONTENT = b"mount-tester new file\n"
PERIOD_US = 2 * SECOND
_RIGHTS = "rwxrwxrwx"


def mounttest(process: Process) -> Main:
    """Make, read and describe files, as the flags say."""
    flags, _ = flags_of(process.words[2:])
    process.umask = 0
    errors = 0
    errors += yield from _type(process, flags.get("fs_type", ""))
    for mode in (0o644, 0o666, 0o660, 0o777):
        errors += yield from _new(process, flags.get(f"new_file_0{mode:o}", ""), mode)
    for flag, show in (("file_mode", _mode), ("file_perm", _rights), ("file_owner", _owner)):
        errors += yield from show(process, flags.get(flag, ""))
    errors += yield from _content(process, flags.get("file_content", ""))
    errors += yield from _loop(
        process, flags.get("file_content_in_loop", ""), int(flags.get("retry_time", "180")),
        flags.get("break_on_expected_content", "true") == "true",
    )  # fmt: skip
    return 1 if errors else 0


Shown = Generator[Wait, None, int]


def _print(process: Process, text: bytes) -> Generator[Wait, None, None]:
    yield from send(process.ends[1], text)


def _found(process: Process, path: str, call: str) -> Generator[Wait, None, Any]:
    """The inode of a path; None after a line about the error.  call: as the line names it"""
    try:
        return process.container.files.lookup(path, process)
    except FileError as error:
        shown = f"stat {path}: {error.text.lower()}" if call == "Stat" else error.text.lower()
        yield from _print(process, f'error from {call}("{path}"): {shown}\n'.encode())
        return None


def _type(process: Process, path: str) -> Shown:
    if not path:
        return 0
    node = yield from _found(process, path, "statfs")
    if node is None:
        return 1
    source = getattr(node.filesystem, "kind", "")
    shown = "tmpfs" if source == "tmpfs" else {"ext4": "61267", "overlay": "2035054128"}.get(source, source)
    yield from _print(process, f'mount type of "{path}": {shown}\n'.encode())
    return 0


def _new(process: Process, path: str, mode: int) -> Shown:
    if not path:
        return 0
    try:
        process.container.files.write(path, CONTENT, process, mode=mode)
    except FileError as error:
        text = f'error writing new file "{path}": open {path}: {error.text.lower()}\n'
        yield from _print(process, text.encode())
        return 1
    return (yield from _content(process, path))


def mode_text(mode: int, kind: str) -> str:
    """A mode as golang's os.FileMode shows it."""
    front = {"d": "d", "l": "L", "p": "p", "s": "S", "c": "Dc", "b": "D"}.get(kind, "")
    front += "u" if mode & 0o4000 else ""
    front += "g" if mode & 0o2000 else ""
    front += "t" if mode & 0o1000 else ""
    rights = "".join(right if mode >> (8 - at) & 1 else "-" for at, right in enumerate(_RIGHTS))
    return (front or "-") + rights


def _mode(process: Process, path: str) -> Shown:
    if not path:
        return 0
    node = yield from _found(process, path, "Stat")
    if node is None:
        return 1
    yield from _print(process, f'mode of file "{path}": {mode_text(node.mode, node.kind)}\n'.encode())
    return 0


def _rights(process: Process, path: str) -> Shown:
    if not path:
        return 0
    node = yield from _found(process, path, "Stat")
    if node is None:
        return 1
    yield from _print(process, f'perms of file "{path}": {mode_text(node.mode & 0o777, "-")}\n'.encode())
    return 0


def _owner(process: Process, path: str) -> Shown:
    if not path:
        return 0
    node = yield from _found(process, path, "stat")
    if node is None:
        return 1
    text = f'owner UID of "{path}": {node.uid}\nowner GID of "{path}": {node.gid}\n'
    yield from _print(process, text.encode())
    return 0


def _content(process: Process, path: str) -> Shown:
    if not path:
        return 0
    try:
        data = process.container.files.read(path, process)
    except FileError as error:
        text = f'error reading file content for "{path}": open {path}: {error.text.lower()}\n'
        yield from _print(process, text.encode())
        return 1
    yield from _print(process, f'content of file "{path}": '.encode() + data + b"\n")
    return 0


def _loop(process: Process, path: str, retry_s: int, breaks: bool) -> Shown:
    if not path:
        return 0
    until_us, failed = process.now_us + retry_s * SECOND, 0
    while process.now_us < until_us:
        try:
            data = process.container.files.read(path, process)
        except FileError as error:
            failed = 1
            text = f"Error reading file {path}: open {path}: {error.text.lower()}, retrying\n"
            yield from _print(process, text.encode())
        else:
            failed = 0
            yield from _print(process, f'content of file "{path}": '.encode() + data + b"\n")
            if breaks and data == CONTENT:
                return 0
            if breaks:
                text = f"Unexpected content. Expected: {CONTENT.decode()}. Retrying"
                yield from _print(process, text.encode())
        next_us = process.now_us + PERIOD_US
        while process.now_us < next_us:
            yield Wait(until_us=next_us)
    return failed
