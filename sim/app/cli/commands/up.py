"""`orrery up` and `orrery down`: a served cluster in the background, in the folder `.orrery`.

`up` starts `orrery serve` with a data directory, a client configuration of its own and the live
page, and returns when the cluster serves; `down` ends it.  The cluster is there again with the next
`up`.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from sim.app.cli.commands.arguments import EXIT_OK, count
from sim.app.cli.commands.serve import NODES
from sim.app.reference.shipped import DISTRIBUTIONS

if TYPE_CHECKING:
    from sim.app.cli.commands.arguments import Commands

FOLDER = Path(".orrery")
START_S, END_S, LOOK_S = 120.0, 60.0, 0.05  # real seconds
PAGE = "live page"


def add(commands: Commands) -> None:
    """Add both commands."""
    up = commands.add_parser("up")
    up.add_argument("--nodes", type=count, metavar="N")
    up.add_argument("--like", choices=DISTRIBUTIONS)
    up.add_argument("--port", type=int, default=6443)
    up.add_argument("--merge-config", action="store_true")
    up.add_argument("--pace", default="1", metavar="1|60|max|0")
    _add_folder(up)
    up.set_defaults(call=_up)
    down = commands.add_parser("down")
    down.add_argument("--delete", action="store_true")
    _add_folder(down)
    down.set_defaults(call=_down)


def _add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", type=Path, default=FOLDER, metavar="DIR")


def _up(arguments: argparse.Namespace) -> int:
    """Start the cluster of a folder, and say how it is reached.  Raises InputError."""
    from sim.app.serving.configs.merged import check_mergeable, kubectl_config, merge_client_config
    from sim.errors import InputError

    folder: Path = arguments.folder
    if _running(folder):
        raise InputError("its cluster is up already", str(folder), "orrery down ends it")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    config, log, data = folder / "config", folder / "log", folder / "data"
    _check_config(config, data)
    if arguments.merge_config:
        check_mergeable(kubectl_config(), folder)
    config.unlink(missing_ok=True)
    command = [sys.executable, "-m", "sim.app.cli.main", "serve", "--data-dir", str(data)]
    command += ["--client-config", str(config), "--port", str(arguments.port), "--pace", arguments.pace]
    if arguments.nodes is not None or not (data / "journal").exists():
        command += ["--nodes", str(NODES if arguments.nodes is None else arguments.nodes)]
    if arguments.like:
        command += ["--like", arguments.like]
    with log.open("w") as written:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=written, stderr=written, start_new_session=True
        )
    (folder / "pid").write_text(f"{server.pid}\n")
    end_s = time.monotonic() + START_S
    while PAGE not in log.read_text():
        if server.poll() is not None or time.monotonic() > end_s:
            server.kill()
            (folder / "pid").unlink()
            said = log.read_text().strip().splitlines() or ["it did not start in time"]
            raise InputError(said[-1].removeprefix("orrery: "), "")
        time.sleep(LOOK_S)  # until another process has written that it serves
    print(log.read_text(), end="")
    print(f"orrery: export KUBECONFIG={shlex.quote(str(config.absolute()))}")
    if arguments.merge_config:
        print(f"orrery: {merge_client_config(config, kubectl_config(), folder)}")
    return EXIT_OK


def _check_config(config: Path, data: Path) -> None:
    """Refuse a client configuration that is not of the cluster in the folder.  Raises InputError."""
    from sim.app.serving.configs.clients import ClientConfig, check_client_configs
    from sim.app.serving.configs.merged import authorities_of
    from sim.app.serving.data_dir import kept_authority
    from sim.errors import InputError

    if not config.exists():
        return
    check_client_configs([ClientConfig(config)])
    authority = kept_authority(data)
    if authority is None or authority not in authorities_of(config):
        raise InputError(
            "is the client configuration of another cluster", str(config), "move it away, or name --folder"
        )


def _down(arguments: argparse.Namespace) -> int:
    """End the cluster of a folder.  Raises InputError."""
    from sim.errors import InputError

    folder: Path = arguments.folder
    pid = _running(folder)
    if not pid and not arguments.delete:
        raise InputError("no cluster of it is up", str(folder), "orrery up starts one")
    if pid:
        os.kill(pid, signal.SIGINT)
        end_s = time.monotonic() + END_S
        while _running(folder):
            if time.monotonic() > end_s:
                raise InputError(f"process {pid} does not end", str(folder), f"kill -9 {pid} loses nothing")
            time.sleep(LOOK_S)  # until another process has ended
        (folder / "pid").unlink()
    if arguments.delete:
        for name in ("data", "config", "log"):
            path = folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    kept = "is deleted" if arguments.delete else "is kept: orrery up continues it"
    print(f"orrery: the cluster of {folder} {kept}")
    return EXIT_OK


def _running(folder: Path) -> int:
    """The process of the cluster of a folder; 0 if none runs.

    It is the one that has the data directory: the number alone may be that of another by now.
    """
    from sim.app.serving.data_dir import is_used

    try:
        pid = int((folder / "pid").read_text())
        os.waitpid(pid, os.WNOHANG)  # of `up` in this process: a test
    except ChildProcessError:
        pass
    except (OSError, ValueError):
        return 0
    return pid if is_used(folder / "data") else 0
