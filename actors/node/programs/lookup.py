"""From the first word of a command to the program that runs.

Mirrors  execvp(3): a name without a slash is searched in PATH; a script runs the interpreter of its
         first line (Linux fs/binfmt_script.c), or a shell if it names none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from actors.node.programs.files.errors import TEXTS, FileError
from actors.node.programs.files.inodes import File
from actors.node.programs.files.tree import Tree, program_name
from actors.node.programs.process import Process
from actors.node.programs.waits import Main

if TYPE_CHECKING:
    Program = Callable[[Process], Main]

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SHELL = "/bin/sh"
INTERPRETERS_MAX = 4  # if interpreters are scripts, BINPRM_MAX_RECURSION
NOT_EXECUTABLE, NOT_FOUND = 126, 127


class NotRunnable(Exception):
    """A program cannot be started.

    code: 126 if there is a file that cannot be executed, 127 if there is none
    text: the reason as a shell prints it, "not found" or that of the error
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text


def program(process: Process, words: tuple[str, ...]) -> Program:
    """What a command runs.  Raises NotRunnable."""
    try:
        path = find(process, words[0])
    except NotRunnable as reason:
        if reason.code == NOT_FOUND:
            process.container.missing(f"the program {words[0]} is not found")
        raise
    return _program(process, path, INTERPRETERS_MAX)


def find(process: Process, name: str) -> str:
    """The path of a command's file.  Raises NotRunnable if there is none."""
    files: Tree = process.container.files
    if "/" in name:
        try:
            files.lookup(name, process)
        except FileError as error:
            code = NOT_FOUND if error.code == "ENOENT" else NOT_EXECUTABLE
            raise NotRunnable(code, "not found" if code == NOT_FOUND else error.text) from None
        return name
    refused = False
    for folder in process.env.get("PATH", PATH).split(":") if name else ():
        path = f"{folder or '.'}/{name}"
        try:
            inode = files.lookup(path, process)
        except FileError:
            continue
        if inode.kind == "-" and inode.allows(process.identity, 1):
            return path
        refused |= inode.kind == "-"
    raise NotRunnable(NOT_EXECUTABLE, TEXTS["EACCES"]) if refused else NotRunnable(NOT_FOUND, "not found")


def _program(process: Process, path: str, depth: int) -> Program:
    files: Tree = process.container.files
    try:
        inode = files.lookup(path, process)
    except FileError:
        raise NotRunnable(NOT_FOUND, "not found") from None
    if inode.kind != "-" or not inode.allows(process.identity, 1):
        raise NotRunnable(NOT_EXECUTABLE, TEXTS["EACCES"])
    if name := program_name(inode, process):
        if name in files.programs:
            return files.programs[name]  # type: ignore[no-any-return]
        process.container.unknown(f"the program {name} is not known")
        raise NotRunnable(NOT_FOUND, "not found")
    if not isinstance(inode, File):
        raise NotRunnable(NOT_EXECUTABLE, TEXTS["ENOEXEC"])
    head = inode.read(0, 256)
    if b"\0" in head.partition(b"\n")[0]:
        process.container.unknown(f"the file {path} is no program that is known")
        raise NotRunnable(NOT_EXECUTABLE, TEXTS["ENOEXEC"])
    line = head.partition(b"\n")[0].decode("utf-8", "surrogateescape") if head.startswith(b"#!") else ""
    interpreter = tuple(line[2:].split(maxsplit=1)) or (SHELL,)
    if not depth:
        raise NotRunnable(NOT_EXECUTABLE, TEXTS["ELOOP"])
    runs = _program(process, interpreter[0], depth - 1)

    def script(started: Process) -> Main:
        started.words = (*(word.strip() for word in interpreter), path, *started.words[1:])
        return (yield from runs(started))

    return script
