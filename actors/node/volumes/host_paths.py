"""Which paths exist on a machine, and the checks of hostPath volumes.  Pure.

A machine has the directories, devices and sockets of a usual Linux node, and what volumes of type
DirectoryOrCreate and FileOrCreate have made on it.

Mirrors  pkg/volume/hostpath/host_path.go: checkTypeInternal (v1.25).
Differs  a machine has no files besides those of `PRESENT`; directories that a path of it names
         exist too.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

from sim.options.node.agent import NodeAgentOptions

SYSTEMD = "systemd"
DIRECTORY, FILE, SOCKET, CHARACTER, BLOCK = "Directory", "File", "Socket", "CharDevice", "BlockDevice"
PRESENT: Mapping[str, str] = {
    **dict.fromkeys(
        ("/", "/bin", "/boot", "/dev/shm", "/etc/cni/net.d", "/etc/ssl/certs", "/home", "/lib/modules", "/media",
         "/mnt", "/opt/cni/bin", "/proc", "/root", "/run/containerd", "/sbin", "/srv", "/sys/fs/bpf",
         "/sys/fs/cgroup", "/tmp", "/usr/bin", "/usr/lib", "/usr/local", "/usr/share", "/var/lib/containerd",
         "/var/lib/docker/containers", "/var/log/containers", "/var/log/pods", "/var/run", "/var/tmp"),
        DIRECTORY,
    ),
    **dict.fromkeys(
        ("/etc/hostname", "/etc/hosts", "/etc/localtime", "/etc/machine-id", "/etc/os-release", "/etc/passwd",
         "/etc/resolv.conf", "/run/xtables.lock", "/var/log/messages", "/var/log/syslog"),
        FILE,
    ),
    "/run/dbus/system_bus_socket": SOCKET,
    **dict.fromkeys(("/dev/fuse", "/dev/kmsg", "/dev/kvm", "/dev/net/tun", "/dev/null", "/dev/random",
                     "/dev/urandom", "/dev/zero"), CHARACTER),
    **dict.fromkeys(("/dev/sda", "/dev/vda"), BLOCK),
}  # fmt: skip
_ALIASES = (("/var/run/", "/run/"),)
_WORDS = {
    DIRECTORY: "directory",
    FILE: "file",
    SOCKET: "socket file",
    CHARACTER: "character device",
    BLOCK: "block device",
}


def agent_paths(options: NodeAgentOptions) -> Mapping[str, str]:
    """What the agent, its runtime and the control groups of pods add to a machine."""
    root, driver = options.root_dir.rstrip("/"), options.cgroup_driver
    folders = [f"{root}/{name}" for name in ("device-plugins", "plugins", "plugins_registry", "pods")]
    folders += [one.rstrip("/") for one in (options.volume_plugin_dir, options.cert_dir) if one]
    if options.cgroups_per_qos:
        above = "".join(
            f"/{part}.slice" if driver == SYSTEMD else f"/{part}"
            for part in options.cgroup_root.split("/")
            if part
        )
        folders.append(f"/sys/fs/cgroup{above}/kubepods{'.slice' if driver == SYSTEMD else ''}")
    files = {options.lock_file: FILE} if options.lock_file else {}
    endpoints = options.container_runtime_endpoint, options.image_service_endpoint
    sockets = [one.removeprefix("unix://") for one in endpoints if one]
    return {**dict.fromkeys(folders, DIRECTORY), **files, **dict.fromkeys(sockets, SOCKET)}


def kind_of(path: str, made: Mapping[str, str]) -> str:
    """What is at a path: the type that a volume may require, "" for nothing."""
    path = path.rstrip("/") or "/"
    for alias, real in _ALIASES:
        if path.startswith(alias):
            path = real + path.removeprefix(alias)
    found = PRESENT.get(path) or made.get(path)
    if found:
        return found
    inside = f"{path}/"
    return DIRECTORY if any(name.startswith(inside) for name in (*PRESENT, *made)) else ""


def checked(path: str, wanted: str, made: MutableMapping[str, str], options: NodeAgentOptions) -> str:
    """Why a path cannot be mounted, "" if it can; what has to be made is made.

    options: of the agent, which has made some paths too

    Quirk: a type with `OrCreate` accepts every kind that exists.
    """
    kind = kind_of(path, {**agent_paths(options), **made})
    if wanted.endswith("OrCreate"):
        if not kind:
            made[path.rstrip("/") or "/"] = wanted.removesuffix("OrCreate")
        return ""
    if not wanted or kind == wanted:
        return ""
    return f"hostPath type check failed: {path} is not a {_WORDS[wanted]}"
