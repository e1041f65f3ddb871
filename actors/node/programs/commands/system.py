"""Commands that say something about the container: date, id, hostname, uname, ps, free, mount, ...

Mirrors  the tools of GNU coreutils, procps and busybox.
Differs  the time zone is always UTC; what needs the network's interfaces or a terminal is refused.
"""

from __future__ import annotations

from actors.node.programs.commands.attributes import parse_date
from actors.node.programs.commands.names import People, moment, now, size_text
from actors.node.programs.commands.tool import Failed, Tool, Usage
from actors.node.programs.files.special import mount_rows, sysctls
from actors.node.programs.process import Process, Signal
from actors.node.programs.waits import Main
from actors.node.resources.topology import cpu_text
from sim.units import SECOND

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_FULL_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_FULL_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
OLD = "%a %b %e %H:%M:%S %Z %Y"


def date_text(form: str, wall_us: int) -> str:
    """A time in the format of `date`."""
    at, out, position = moment(wall_us), [], 0
    seconds = wall_us // SECOND
    short = {
        "Y": f"{at.year:04d}", "y": f"{at.year % 100:02d}", "C": f"{at.year // 100:02d}", "m": f"{at.month:02d}",
        "d": f"{at.day:02d}", "e": f"{at.day:2d}", "H": f"{at.hour:02d}", "k": f"{at.hour:2d}",
        "I": f"{(at.hour + 11) % 12 + 1:02d}", "l": f"{(at.hour + 11) % 12 + 1:2d}", "M": f"{at.minute:02d}",
        "S": f"{at.second:02d}", "N": f"{wall_us % SECOND * 1000:09d}", "s": str(seconds),
        "j": f"{at.timetuple().tm_yday:03d}", "a": _DAYS[at.weekday()], "A": _FULL_DAYS[at.weekday()],
        "b": _FULL_MONTHS[at.month - 1][:3], "h": _FULL_MONTHS[at.month - 1][:3], "B": _FULL_MONTHS[at.month - 1],
        "p": "AM" if at.hour < 12 else "PM", "P": "am" if at.hour < 12 else "pm", "u": str(at.isoweekday()),
        "w": str(at.isoweekday() % 7), "Z": "UTC", "z": "+0000", "n": "\n", "t": "\t", "%": "%",
        "U": f"{(at.timetuple().tm_yday + 6 - at.isoweekday() % 7) // 7:02d}", "V": f"{at.isocalendar()[1]:02d}",
        "G": f"{at.isocalendar()[0]:04d}",
    }  # fmt: skip
    longer = {
        "F": "%Y-%m-%d", "T": "%H:%M:%S", "R": "%H:%M", "D": "%m/%d/%y", "x": "%m/%d/%y", "X": "%H:%M:%S",
        "c": "%a %b %e %H:%M:%S %Y", "r": "%I:%M:%S %p",
    }  # fmt: skip
    while position < len(form):
        letter = form[position]
        if letter != "%" or position + 1 == len(form):
            out.append(letter)
            position += 1
            continue
        position += 1
        digits = ""
        plain = form[position] == "-"
        while position < len(form) - 1 and (form[position] in "-_0^#:" or form[position].isdigit()):
            digits += form[position] if form[position].isdigit() else ""
            position += 1
        code = form[position]
        position += 1
        text = short.get(code) or (date_text(longer[code], wall_us) if code in longer else f"%{code}")
        if code == "N" and digits:
            text = text[: int(digits[:2])]
        out.append((text.lstrip("0 ") or "0") if plain else text)
    return "".join(out)


def date(tool: Tool) -> Main:
    """Print the time: +FORMAT, -u, -d TIME, -r FILE, -I, -R."""
    args = [f"-I{word[10:].lstrip('=')}" if word.startswith("--iso-8601") else word for word in tool.args]
    form, iso = "", ""
    kept = []
    for word in args:
        if word.startswith("-I"):
            iso = word[2:] or "date"
        else:
            kept.append(word)
    tool.args = tuple(kept)
    options = tool.options("ud:r:Rs:D:", {"utc": "u", "universal": "u", "date": "d", "reference": "r", "rfc-email": "R",
                                          "rfc-2822": "R", "set": "s"})  # fmt: skip
    at_us = now(tool)
    if "s" in options:
        raise Failed(
            "can't set date: Operation not permitted"
            if tool.busybox
            else "cannot set date: Operation not permitted"
        )
    if "r" in options:
        at_us = tool.files.lookup(options.last("r"), tool.process).mtime_us
    elif "d" in options:
        at_us = _relative(options.last("d"), at_us, tool)
    for word in options.rest:
        if word.startswith("+"):
            form = word[1:]
        else:
            raise Failed(f"invalid date '{word}'")
    if not form and "+" not in options.rest:
        forms = {
            "date": "%F",
            "hours": "%FT%H+00:00",
            "minutes": "%FT%H:%M+00:00",
            "seconds": "%FT%T+00:00",
            "ns": "%FT%T,%N+00:00",
        }
        form = forms.get(iso, "%F") if iso else "%a, %d %b %Y %T %z" if "R" in options else OLD
    yield from tool.write(date_text(form, at_us) + "\n")
    return 0


_UNITS_S = {"sec": 1, "second": 1, "min": 60, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}


def _relative(text: str, now_us: int, tool: Tool) -> int:
    """A time such as "2 days ago", or an absolute one."""
    words = text.split()
    shift = 0
    named = {"yesterday": -86400, "tomorrow": 86400, "now": 0, "today": 0}
    if words and all(word in named for word in words):
        return now_us + sum(named[word] for word in words) * SECOND
    kept, at = [], 0
    while at < len(words):
        count = words[at].lstrip("+-")
        unit = words[at + 1].rstrip("s") if at + 1 < len(words) else ""
        if count.isdigit() and len(count) < 12 and unit in _UNITS_S:
            amount = int(words[at]) * _UNITS_S[unit]
            ago = words[at + 2 : at + 3] == ["ago"]
            shift += -amount if ago else amount
            at += 3 if ago else 2
        else:
            kept.append(words[at])
            at += 1
    base = parse_date(" ".join(kept), now_us) if kept else now_us
    return base + shift * SECOND


def id_(tool: Tool) -> Main:
    """Print users and groups: -u -g -G only one of them, -n names."""
    options = tool.options("ugGnr", {"user": "u", "group": "g", "groups": "G", "name": "n", "real": "r"})
    people, who = People(tool), tool.process.identity
    uid, gid = who.uid, who.gid
    groups = [gid, *(one for one in who.groups if one != gid)]
    if options.rest:
        name = options.rest[0]
        if name not in people.users:
            raise Failed(f"unknown user {name}" if tool.busybox else f"'{name}': no such user")
        uid, gid = people.users[name], people.primary.get(name, 0)
        groups = [gid]
    names = "n" in options

    def user(number: int) -> str:
        return people.user(number) if names else str(number)

    def group(number: int) -> str:
        return people.group(number) if names else str(number)

    if "u" in options:
        text = user(uid)
    elif "g" in options:
        text = group(gid)
    elif "G" in options:
        text = " ".join(group(one) for one in groups)
    else:

        def both(number: int, name: str) -> str:
            return f"{number}({name})" if name != str(number) else str(number)

        text = f"uid={both(uid, people.user(uid))} gid={both(gid, people.group(gid))}"
        shown = who.groups if tool.busybox else groups
        if shown:
            text += " groups=" + ",".join(both(one, people.group(one)) for one in shown)
    yield from tool.write(text + "\n")
    return 0


def whoami(tool: Tool) -> Main:
    """Print the user's name."""
    uid = tool.process.identity.uid
    name = People(tool).user(uid)
    if name == str(uid):
        raise Failed(
            f"unknown uid {uid}"
            if tool.busybox
            else f"cannot find name for user ID {uid}: No such file or directory"
        )
    yield from tool.write(name + "\n")
    return 0


def groups(tool: Tool) -> Main:
    """Print the names of the groups."""
    people, who = People(tool), tool.process.identity
    held = [who.gid, *(one for one in who.groups if one != who.gid)]
    yield from tool.write(" ".join(people.group(one) for one in held) + "\n")
    return 0


def hostname(tool: Tool) -> Main:
    """Print the name of the pod's host: -s without a domain, -f with it, -i its addresses."""
    options = tool.options(
        "sfidIy", {"short": "s", "fqdn": "f", "long": "f", "ip-address": "i", "all-ip-addresses": "I"}
    )
    container = tool.process.container
    name = container.hostname
    if options.rest:
        raise Failed(
            "sethostname: Operation not permitted"
            if tool.busybox
            else "you must be root to change the host name"
        )
    if any(letter in options for letter in "ifI"):
        for row in tool.files.read("/etc/hosts").decode("utf-8", "replace").splitlines():
            address, *names = row.partition("#")[0].split() or [""]
            if name in names:
                name = address if "f" not in options else names[0]
                break
    yield from tool.write((name.partition(".")[0] if "s" in options else name) + "\n")
    return 0


def uname(tool: Tool) -> Main:
    """Print what is known of the system: -a all, -s -n -r -v -m -o parts."""
    options = tool.options("asnrvmpio", {"all": "a", "kernel-name": "s", "nodename": "n", "kernel-release": "r",
                                         "machine": "m", "operating-system": "o"})  # fmt: skip
    container = tool.process.container
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(container.node.arch, container.node.arch)
    parts = {"s": "Linux", "n": container.hostname, "r": container.node.kernel_version, "v": "#1 SMP", "m": machine,
             "p": "unknown", "i": "unknown", "o": "GNU/Linux"}  # fmt: skip
    chosen = (
        "snrvmo" if "a" in options else "".join(letter for letter in "snrvmpio" if letter in options) or "s"
    )
    yield from tool.write(" ".join(parts[letter] for letter in chosen) + "\n")
    return 0


def nproc(tool: Tool) -> Main:
    """Print how many processors the container may use, or with --all, how many there are."""
    options = tool.options("", {"all": "a", "ignore": "i"})
    container = tool.process.container
    yield from tool.write(f"{container.node.cpus if 'a' in options else container.cpus.bit_count()}\n")
    return 0


def taskset(tool: Tool) -> Main:
    """Print the processors that a process may use: -p PID, with -c as a list."""
    options = tool.options("cp", {"cpu-list": "c", "pid": "p"})
    if "p" not in options or len(options.rest) != 1:
        raise Failed("only -p PID is known", 1)
    cpus = tool.process.container.cpus
    kind, text = ("list", cpu_text(cpus)) if "c" in options else ("mask", f"{cpus:x}")
    yield from tool.write(f"pid {options.rest[0]}'s current affinity {kind}: {text}\n")
    return 0


def arch(tool: Tool) -> Main:
    """Print the machine's architecture."""
    machine = tool.process.container.node.arch
    yield from tool.write({"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine) + "\n")
    return 0


def free(tool: Tool) -> Main:
    """Show memory: -b -k -m -g units, -h readable."""
    options = tool.options("bkmgh", {"bytes": "b", "kibi": "k", "mebi": "m", "gibi": "g", "human": "h"})
    unit = options.latest("bkmgh") or "k"
    total = tool.process.container.node.memory_bytes
    used = total // 4

    def shown(size: int) -> str:
        return size_text(size) if unit == "h" else str(size >> {"b": 0, "k": 10, "m": 20, "g": 30}[unit])

    lead = 7 if tool.busybox else 15
    heads = ("total", "used", "free", "shared", "buff/cache", "available")
    yield from tool.write(" " * lead + " ".join(f"{head:>11}" for head in heads) + "\n")
    cells = (total, used, total - used, 0, 0, total - used)
    yield from tool.write(f"{'Mem:':<{lead}}" + " ".join(f"{shown(cell):>11}" for cell in cells) + "\n")
    swap = tool.process.container.node.swap_bytes
    yield from tool.write(f"{'Swap:':<{lead}}" + " ".join(f"{shown(n):>11}" for n in (swap, 0, swap)) + "\n")
    return 0


def uptime(tool: Tool) -> Main:
    """Show how long the machine has been up."""
    seconds = tool.process.now_us // SECOND
    days, rest = divmod(seconds, 86400)
    hours, minutes = rest // 3600, rest % 3600 // 60
    up = (f"{days} day{'s' if days != 1 else ''}, " if days else "") + (
        f"{hours:2d}:{minutes:02d}" if hours else f"{minutes} min"
    )
    yield from tool.write(f" {date_text('%T', now(tool))} up {up},  load average: 0.00, 0.00, 0.00\n")
    return 0


TITLES = {"args": "COMMAND", "comm": "COMMAND", "tty": "TT"}


def ps(tool: Tool) -> Main:
    """List processes: -o columns, -e -f -A a x u are taken."""
    tool.args = tuple(
        word if word.startswith("-") or not word.isalpha() else f"-{word}" for word in tool.args
    )
    options = tool.options("eAfaxuwTlo:p:C:", {"pid": "p", "format": "o", "no-headers": "w"})
    people, rows = People(tool), []
    columns = options.last("o")
    for one in tool.process.table.seen_by(tool.process):
        words = " ".join(one.words)
        known = {
            "pid": str(one.pid), "ppid": str(one.parent_pid), "user": people.user(one.identity.uid),
            "uid": str(one.identity.uid), "args": words, "cmd": words, "command": words,
            "comm": one.words[0].rpartition("/")[2][:15], "time": "0:00", "stat": "S", "tty": "?", "rss": "1024",
        }  # fmt: skip
        rows.append(known)
    if columns:
        names = [name.strip("= ") for name in columns.split(",")]
        unknown = [name for name in names if rows and name not in rows[0]]
        if unknown:
            raise Failed(
                f"bad -o argument '{unknown[0]}'"
                if tool.busybox
                else f'error: unknown user-defined format specifier "{unknown[0]}"'
            )
        if not columns.endswith("="):
            yield from tool.write(
                " ".join(f"{TITLES.get(name, name.upper()):<8}" for name in names).rstrip() + "\n"
            )
        for row in rows:
            yield from tool.write(" ".join(f"{row[name]:<8}" for name in names).rstrip() + "\n")
    elif tool.busybox:
        yield from tool.write("PID   USER     TIME  COMMAND\n")
        for row in rows:
            yield from tool.write(f"{row['pid']:>5} {row['user'][:8]:<8} {row['time']:>5} {row['args']}\n")
    elif "f" in options or "u" in options:
        yield from tool.write("UID          PID    PPID  C STIME TTY          TIME CMD\n")
        for row in rows:
            yield from tool.write(
                f"{row['user'][:8]:<8} {row['pid']:>7} {row['ppid']:>7}  0 00:00 ?        00:00:00 {row['args']}\n"
            )
    else:
        yield from tool.write("    PID TTY          TIME CMD\n")
        for row in rows:
            yield from tool.write(f"{row['pid']:>7} ?        00:00:00 {row['comm']}\n")
    return 0


def kill(tool: Tool) -> Main:
    """Send a signal to processes: -s NAME, -NAME, -NUMBER, -l lists."""
    args, number = list(tool.args), int(Signal.TERM)
    if args and args[0] == "-l":
        yield from tool.write("\n".join(one.name for one in Signal) + "\n")
        return 0
    if args and args[0] == "-s" and len(args) > 1:
        number, args = signal_number(args[1]), args[2:]
    elif args and args[0][:1] == "-" and args[0] != "--":
        number, args = signal_number(args[0][1:]), args[1:]
    if args[:1] == ["--"]:
        args = args[1:]
    if not args:
        raise Failed("you need to specify whom to kill" if tool.busybox else "not enough arguments")
    for word in args:
        if not word.lstrip("-").isdigit():
            yield from tool.complain(
                f"invalid number '{word}'" if tool.busybox else f"failed to parse argument: '{word}'"
            )
            continue
        found = processes(tool, int(word[:10]))
        if not found:
            what = f"can't kill pid {word}" if tool.busybox else f"({word})"
            yield from tool.complain(f"{what}: No such process")
        for one in found:
            if not tool.process.identity.may_signal(one.identity):
                yield from tool.complain(f"can't kill pid {word}: Operation not permitted")
            else:
                tool.process.table.signal(one, number)
    return tool.code


def processes(tool: Tool, pid: int) -> list[Process]:
    """The process with a number; all but the first one and this one for -1."""
    held = tool.process.table.seen_by(tool.process)
    if pid == -1:
        return [one for one in held if one.pid != 1 and one is not tool.process]
    return [one for one in held if one.pid == abs(pid)]


def signal_number(text: str) -> int:
    """The number of a signal.  Raises Failed."""
    name = text.upper().removeprefix("SIG")
    if name in Signal.__members__:
        return int(Signal[name])
    if text.isdigit() and int(text[:4]) <= 64:
        return int(text)
    raise Failed(f"bad signal name '{text}'")


def killall(tool: Tool) -> Main:
    """Send a signal to all processes with a name, as killall and pkill do."""
    args, number = list(tool.args), int(Signal.TERM)
    exact = "-x" in args
    while args and args[0][:1] == "-":
        word = args.pop(0)
        if word not in ("-x", "-f", "-q", "-e", "-w"):
            number = signal_number(word[1:])
    if not args:
        raise Usage("no process name specified")
    found = False
    for one in tool.process.table.seen_by(tool.process):
        name = one.words[0].rpartition("/")[2]
        same = name == args[0] if exact or tool.name == "killall" else args[0] in " ".join(one.words)
        if one is not tool.process and same:
            if not tool.process.identity.may_signal(one.identity):
                yield from tool.complain(f"can't kill pid {one.pid}: Operation not permitted")
                continue
            found = True
            tool.process.table.signal(one, number)
    if not found and tool.name == "killall":
        yield from tool.complain(
            f"{args[0]}: no process killed" if tool.busybox else f"{args[0]}: no process found"
        )
    return 0 if found else 1


def pidof(tool: Tool) -> Main:
    """Print the numbers of processes with a name, as pidof and pgrep do."""
    names = [word for word in tool.args if word[:1] != "-"]
    pids = [
        str(one.pid)
        for one in tool.process.table.seen_by(tool.process)
        if one is not tool.process
        and any(
            name == one.words[0].rpartition("/")[2] or (tool.name == "pgrep" and name in " ".join(one.words))
            for name in names
        )
    ]
    if pids:
        yield from tool.write(("\n" if tool.name == "pgrep" else " ").join(pids) + "\n")
    return 0 if pids else 1


def mount(tool: Tool) -> Main:
    """List what is mounted; mounting is not permitted."""
    words = [word for word in tool.args if word[:1] != "-"]
    if words:
        if tool.busybox:
            raise Failed("permission denied (are you root?)")
        yield from tool.warn(f"{tool.name}: {words[-1]}: permission denied.\n")
        return 32
    for source, path, kind, options in mount_rows(tool.process):
        yield from tool.write(f"{source} on {path} type {kind} ({options})\n")
    return 0


def sysctl(tool: Tool) -> Main:
    """Print kernel parameters: -n values only, -a all; they cannot be written."""
    options = tool.options("naewqpN", {"values": "n", "all": "a", "write": "w"})
    held = sysctls(tool.process)
    for word in list(held) if "a" in options else options.rest:
        name, equals, _ = word.replace("/", ".").partition("=")
        if equals and name in held:
            what = f"error setting key '{name}'" if tool.busybox else f'setting key "{name}"'
            yield from tool.complain(f"{what}: Read-only file system", 1 if tool.busybox else 255)
        elif name not in held:
            path = f"/proc/sys/{name.replace('.', '/')}"
            if tool.busybox:
                yield from tool.complain(f"error: '{name}' is an unknown key")
            else:
                yield from tool.complain(f"cannot stat {path}: No such file or directory", 255)
        else:
            yield from tool.write(held[name] + "\n" if "n" in options else f"{name} = {held[name]}\n")
    return tool.code


def ip(tool: Tool) -> Main:
    """What changes the network is not permitted; the rest is not known."""
    words = [word for word in tool.args if word[:1] != "-"]
    if any(word in ("add", "del", "delete", "set", "replace", "change", "flush") for word in words):
        text = "RTNETLINK answers: Operation not permitted\n"
        yield from tool.warn(f"ip: {text}" if tool.busybox else text)
        return 2
    tool.process.container.unknown(f"the command ip {' '.join(words)} is not known")
    yield from tool.complain("not known to the simulation", 1)
    return 1


def tty(tool: Tool) -> Main:
    """Print the name of the terminal."""
    terminal = tool.has_terminal(0)
    if "-s" not in tool.args and "--quiet" not in tool.args:
        yield from tool.write("/dev/pts/0\n" if terminal else "not a tty\n")
    return 0 if terminal else 1


def stty(tool: Tool) -> Main:
    """Accept settings of a terminal."""
    terminal = tool.has_terminal(0)
    if not terminal:
        text = "standard input" if tool.busybox else "'standard input'"
        yield from tool.complain(f"{text}: Inappropriate ioctl for device")
        return 1
    if "size" in tool.args:
        yield from tool.write("24 80\n")
    return 0


def pwd(tool: Tool) -> Main:
    """Print the working directory."""
    tool.options("LP", {"logical": "L", "physical": "P"})
    yield from tool.write(tool.files.walk(tool.process.cwd, tool.process).path + "\n")
    return 0


def getconf(tool: Tool) -> Main:
    """Print limits of the system."""
    known = {"PAGESIZE": "4096", "PAGE_SIZE": "4096", "_NPROCESSORS_ONLN": str(tool.process.container.node.cpus),
             "_NPROCESSORS_CONF": str(tool.process.container.node.cpus), "NAME_MAX": "255", "PATH_MAX": "4096",
             "ARG_MAX": "2097152", "LONG_BIT": "64"}  # fmt: skip
    name = tool.args[0] if tool.args else ""
    if name not in known:
        raise Failed(f"Unrecognized variable '{name}'", 2)
    yield from tool.write(known[name] + "\n")
    return 0


COMMANDS = {
    "arch": arch, "date": date, "free": free, "getconf": getconf, "groups": groups, "hostname": hostname, "id": id_,
    "ip": ip, "kill": kill, "killall": killall, "mount": mount, "nproc": nproc, "pgrep": pidof, "pidof": pidof,
    "pkill": killall, "ps": ps, "pwd": pwd, "stty": stty, "sysctl": sysctl, "taskset": taskset, "tty": tty, "umount": mount,
    "uname": uname, "uptime": uptime, "whoami": whoami,
}  # fmt: skip
