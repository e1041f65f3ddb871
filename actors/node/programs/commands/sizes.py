"""Commands that show how much is taken: du, df.

Mirrors  du(1), df(1) of GNU and busybox.
"""

from __future__ import annotations

from actors.node.programs.commands.listing import DEPTH_MAX
from actors.node.programs.commands.names import size_text
from actors.node.programs.commands.tool import Tool
from actors.node.programs.files.errors import FileError
from actors.node.programs.files.inodes import Directory, Filesystem, Inode
from actors.node.programs.waits import Main


def du(tool: Tool) -> Main:
    """Show how much directories take: -s of the operands only, -h -k -m -b units, -a of files too."""
    options = tool.options("shkmbacd:xL", {"summarize": "s", "human-readable": "h", "all": "a", "bytes": "b",
                                           "max-depth": "d", "total": "c"})  # fmt: skip
    most = 0 if "s" in options else int(options.last("d")[:6]) if options.last("d").isdigit() else DEPTH_MAX
    total = 0

    def shown(size: int) -> str:
        unit = options.latest("hkmb") or "k"
        return size_text(size) if unit == "h" else str(-(-size // {"k": 1024, "m": 1 << 20, "b": 1}[unit]))

    for path in options.rest or ["."]:
        try:
            top = tool.files.lookup(path, tool.process, follow=False)
        except FileError as error:
            yield from tool.complain(
                f"{path}: {error.text}" if tool.busybox else f"cannot access '{path}': {error.text}"
            )
            continue
        seen: set[int] = set()
        rows: list[tuple[str, int]] = []
        total += _summed(path, top, 0, most, "a" in options, "b" in options, seen, rows)
        for name, size in rows:
            yield from tool.write(f"{shown(size)}\t{name}\n")
    if "c" in options:
        yield from tool.write(f"{shown(total)}\ttotal\n")
    return tool.code


def _summed(
    path: str,
    inode: Inode,
    depth: int,
    most: int,
    files: bool,
    apparent: bool,
    seen: set[int],
    rows: list[tuple[str, int]],
) -> int:
    """The size of a file, or of a directory with all below it; adds the rows that `du` shows."""
    if id(inode) in seen:
        return 0
    seen.add(id(inode))
    size = inode.size if apparent else inode.taken
    if isinstance(inode, Directory) and depth < 200:
        for name, below in sorted(inode.entries.items()):
            size += _summed(f"{path.rstrip('/')}/{name}", below, depth + 1, most, files, apparent, seen, rows)
    if depth <= most and (not depth or files or inode.kind == "d"):
        rows.append((path, size))
    return size


def df(tool: Tool) -> Main:
    """Show the room of filesystems: -h -k -m units, -i inodes, -P one line each, -T type."""
    options = tool.options(
        "hkmiPTa", {"human-readable": "h", "inodes": "i", "portability": "P", "print-type": "T"}
    )
    held: list[tuple[str, Filesystem]] = []
    for path in options.rest or list(tool.files.mounts):
        try:
            place = tool.files.walk(path, tool.process)
        except FileError as error:
            yield from tool.complain(f"{path}: {error.text}")
            continue
        inode = place.inode or place.parent
        if options.rest or all(inode.filesystem is not other for _, other in held):
            held.append((place.mount.path, inode.filesystem))
    unit = options.latest("hkm") or "k"
    sizes = {
        "h": "Size",
        "k": "1K-blocks" if not tool.busybox or "P" not in options else "1024-blocks",
        "m": "1M-blocks",
    }
    first = ["Filesystem", *(["Type"] if "T" in options else [])]
    if "i" in options:
        table = [[*first, "Inodes", "IUsed", "IFree", "IUse%", "Mounted on"]]
    else:
        available = "Avail" if unit == "h" and not tool.busybox else "Available"
        table = [[*first, sizes[unit], "Used", available, "Use%", "Mounted on"]]
    for path, filesystem in held:
        largest, used = filesystem.bytes_max, filesystem.bytes_used
        if "i" in options:
            largest, used = filesystem.inodes_max, filesystem.inodes_used
        amounts = [str(amount) for amount in (largest, used, largest - used)]
        if "i" not in options:
            amounts = [
                size_text(amount) if unit == "h" else str(amount // (1024 if unit == "k" else 1 << 20))
                for amount in (largest, used, largest - used)
            ]
        percent = f"{-(-100 * used // largest)}%" if largest else "-"
        kind = [filesystem.kind] if "T" in options else []
        table.append([filesystem.source, *kind, *amounts, percent, path])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    widths[0] = max(widths[0], 20 if tool.busybox else 14)
    for row in table:
        cells = [
            cell.ljust(width) if not at else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield from tool.write(" ".join([*cells[:-1], row[-1]]) + "\n")
    return tool.code


COMMANDS = {"df": df, "du": du}
