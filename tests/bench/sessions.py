"""Random sessions of `orrery serve --journal`, each replayed.

python -m tests.bench.sessions [--sessions 300] [--seed 0] [--actions 30] [--folder DIR]

A session is drawn from its seed: a scenario, a pace, a number of replicas, the users, a list of
actions (every route and verb, pages, readers of metrics, watches that are left open, clients that
leave before their answer), and a way of ending (SIGINT, SIGTERM, SIGHUP, SIGKILL, a journal that is
full).  The server runs in a process of its own, and so does `orrery replay`.  The program fails if
a replay differs from what was served, if a server that got a signal does not end in order, or if a
server or a replay prints a traceback.  `--folder` keeps the files of the sessions that failed.

The actions and their order repeat with the seed; the instants at which they reach the server do
not, for the server runs on the real clock.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from time import monotonic, sleep

from sim.app.cli.main import main as orrery
from tests.bench.session_actions import Clients, Session

# Loaded once, for all processes.
LOADED = tuple(map(import_module, ("sim.app.run", "sim.app.serving.journal", "sim.app.serving.serve")))
SERVED_S, ENDED_S = 60.0, 60.0  # on a busy machine
SCENARIO = """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {{name: session}}
spec:
  duration: 1h
  cluster:
    naming: kubernetes
    established: {established}
    apiServer: {{replicas: {servers}}}
    nodes: [{{count: {nodes}}}]
  objects:
    - apiVersion: apps/v1
      kind: Deployment
      metadata: {{name: web, namespace: default}}
      spec:
        replicas: 3
        selector: {{matchLabels: {{app: web}}}}
        template:
          metadata: {{labels: {{app: web}}}}
          spec: {{containers: [{{name: c, image: nginx}}]}}
  timeline:
{steps}
"""
FAULTS = (
    "crash: {actor: apiserver-0, restartAfter: 5s}",
    "crash: {actor: controller-manager-leader}",
    "stall: {actor: scheduler-leader}, for: 20s",
    "fail: {nodes: {name: node-1}, how: power-loss}, for: 60s",
    "overload: {apiServer: apiserver-0, by: 100ms, inflight: 5}, for: 20s",
    "scale: {resource: deployments, name: web, replicas: 6}",
    "storage: {how: pause}, for: 3s",
    "load: {rate: 20/s, list: pods}, for: 30s",
)
USERS = 'viewer-token,viewer,1,"viewers"\nroot-token,root,2,"system:masters"\nnobody-token,nobody,3\n'
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
JOURNAL_MIN, JOURNAL_MAX = 9_000, 30_000  # bytes, of a journal that is to be full


def in_child(call: Callable[[], int], out: Path, file_size: int = 0) -> int:
    """Start `call` in a process of its own, with its outputs in a file; returns its id."""
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it, also for its children
        file = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, 1)
        os.dup2(file, 2)
        os.chdir(out.parent)
        if file_size:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
        code = call()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def ended(child: int, seconds: float) -> int | None:
    """The exit status of a process; None, and it is killed, if it does not end in time."""
    until = monotonic() + seconds
    while monotonic() < until:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def address(out: Path, child: int) -> int | None:
    """The port of a server; None if it does not begin to serve."""
    until = monotonic() + SERVED_S
    while monotonic() < until:
        text = out.read_text() if out.exists() else ""
        if "serving https://" in text and text.endswith("\n"):
            line = next(line for line in text.splitlines() if "serving https://" in line)
            return int(line.rpartition(":")[2])
        if os.waitpid(child, os.WNOHANG)[0]:
            return None
        sleep(0.01)
    return None


def drawn(rng: Random, folder: Path) -> list[str]:
    """Write the files of a session; returns the arguments of its server."""
    chosen = rng.sample(FAULTS, rng.choice((0, 0, 1, 2)))
    steps = "\n".join(f"    - {{at: {rng.randint(1, 40)}s, {fault}}}" for fault in chosen) or "    []"
    text = SCENARIO.format(
        established=rng.choice(("true", "false")),
        servers=rng.choice((1, 1, 2)),
        nodes=rng.choice((2, 3)),
        steps=steps,
    )
    (folder / "session.yaml").write_text(text)
    (folder / "users.csv").write_text(USERS)
    pace = rng.choice(("1", "5", "20", "60", "200", "max"))
    more = ["--adopt-nodes"] if rng.random() < 0.2 else []
    more += ["--seed", str(rng.randrange(100))] if rng.random() < 0.5 else []
    files = ["--client-config", "config", "--token-auth-file", "users.csv", "--journal", "journal"]
    return ["serve", "session.yaml", "--port", "0", "--pace", pace, *files, *more]


def session(seed: int, actions: int, folder: Path) -> tuple[str, Counter[str]]:
    """Serve and replay one session; returns what failed, "" for nothing, and what was answered."""
    rng = Random(seed)
    arguments = drawn(rng, folder)
    full = rng.random() < 0.15
    ending = signal.SIGINT if full else rng.choice(ENDINGS)
    size = rng.randint(JOURNAL_MIN, JOURNAL_MAX) if full else 0
    answered: Counter[str] = Counter({f"ended by {'a full journal' if full else ending.name}": 1})
    child = in_child(lambda: orrery(arguments), folder / "serve.out", size)
    port = address(folder / "serve.out", child)
    if port is None:
        return f"did not serve: {(folder / 'serve.out').read_text()[-300:]}", answered
    with Clients(port, folder / "config") as clients:
        Session(rng, clients, answered).act(actions)
        os.kill(child, ending)
        status = ended(child, ENDED_S)
    wanted = -signal.SIGKILL if ending == signal.SIGKILL else 0
    served = (folder / "serve.out").read_text()
    if status != wanted:
        return f"the server ended with {status} after {ending.name}: {served[-300:]}", answered
    if "Traceback" in served:
        return f"the server printed a traceback: {served[-600:]}", answered
    return replayed(folder, answered, killed=ending == signal.SIGKILL), answered


def replayed(folder: Path, answered: Counter[str], *, killed: bool) -> str:
    """Replay the journal of a session; returns what failed, "" for nothing."""
    out = folder / "replay.out"
    child = in_child(lambda: orrery(["replay", "journal", "--json", "--no-report"]), out)
    status, text = ended(child, ENDED_S), out.read_text()
    if status is None or status not in (0, 1) or "Traceback" in text:
        return f"the replay ended with {status}: {text[-600:]}"
    found = json.loads(text[text.index("{") :])
    if found.get("as_served") is None and not killed:
        return f"the replay had nothing to compare: {text[:300]}"
    answered["operations replayed"] += found["events"]
    return "" if found.get("as_served") is not False else f"NOT as it was served: {text[:600]}"


def main() -> int:
    """Serve and replay the sessions of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sessions", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--actions", type=int, default=30)
    parser.add_argument("--folder", type=Path, default=None)
    given = parser.parse_args()
    top = Path(mkdtemp(prefix="sessions-")) if given.folder is None else given.folder.absolute()
    failed, answered = 0, Counter[str]()
    for seed in range(given.seed, given.seed + given.sessions):
        folder = top / str(seed)
        folder.mkdir(parents=True)
        problem, counted = session(seed, given.actions, folder)
        answered += counted
        if problem:
            failed += 1
            print(f"session {seed}: {problem}", flush=True)
        if given.folder is None or not problem:
            shutil.rmtree(folder)
    for what, count in sorted(answered.items()):
        print(f"{count:8,} {what}")
    print(f"{given.sessions - failed} of {given.sessions} sessions are replayed as they were served")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
