"""Keys of a store to keys of etcd, and back.

Turns "/apps/deployments/default/web" into "/registry/deployments/default/web", as upstream names
it, and what is below the prefix into keys of the store; other keys are of other programs.

Mirrors  kubernetes v1.25 pkg/kubeapiserver/default_storage_factory_builder.go
         (SpecialDefaultResourcePrefixes), test/integration/etcd/data.go (the paths of all kinds),
         apiextensions-apiserver pkg/apiserver/customresource_handler.go (GetRESTOptions: the group
         and the plural of custom resources).
"""

from __future__ import annotations

from sim.api.scheme.scheme import Scheme

# By plural: the path below the prefix where it is not the plural.
PATHS = {
    "replicationcontrollers": "controllers",
    "endpoints": "services/endpoints",
    "nodes": "minions",
    "services": "services/specs",
    "ingresses": "ingress",
}
# Kinds of servers of their own, which have their group in the path.
WITH_GROUP = ("apiservices", "customresourcedefinitions")
MASTER_LEASES = "masterleases"


class Keys:
    """The keys of one cluster.  root: `--etcd-prefix`, with slashes at both ends"""

    def __init__(self, scheme: Scheme, prefix: str) -> None:
        self.root = f"/{prefix.strip('/')}/" if prefix.strip("/") else "/"
        self._paths: dict[str, str] = {}  # by prefix in the store
        for each in scheme.resources:
            if each.storage_version_hash and each.prefix not in self._paths:
                path = PATHS.get(each.plural, each.plural)
                path = f"{each.upstream_group}/{path}" if each.plural in WITH_GROUP else path
                self._paths[each.prefix] = f"{self.root}{path}/"
        self._prefixes = {path: prefix for prefix, path in self._paths.items()}

    @property
    def masters(self) -> str:
        """The prefix of the addresses of API servers."""
        return f"{self.root}{MASTER_LEASES}/"

    def of_etcd(self, key: str) -> str:
        """The key in etcd of a key of the store."""
        _, group, plural, rest = key.split("/", 3)
        prefix = self._paths.get(f"/{group}/{plural}/") or f"{self.root}{group}/{plural}/"
        return prefix + rest.removeprefix("/")

    def of_store(self, key: str) -> str | None:
        """The key in the store of a key in etcd; None if it is no object's."""
        if not key.startswith(self.root):
            return None
        parts = key[len(self.root) :].split("/")
        for count in (2, 1):
            prefix = self._prefixes.get(f"{self.root}{'/'.join(parts[:count])}/")
            if prefix is not None:
                return self._named(prefix, parts[count:])
        if len(parts) > 2 and "." in parts[0]:
            return self._named(f"/{parts[0]}/{parts[1]}/", parts[2:])
        return None

    @staticmethod
    def _named(prefix: str, rest: list[str]) -> str | None:
        match rest:
            case [name] if name:
                return f"{prefix}/{name}"
            case [namespace, name] if namespace and name:
                return f"{prefix}{namespace}/{name}"
            case _:
                return None
