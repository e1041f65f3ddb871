"""ServiceAccount: gives each pod an account of its namespace and mounts a token of the account.

Holds: a pod spec that was admitted before under the same account gives the same object, so that
pods of one owner share it.

Mirrors  kubernetes v1.25 plugin/pkg/admission/serviceaccount/admission.go.
Differs  - the suffix of the token volume is drawn once per template and account, not per pod:
           else no two pods would share their containers.
         - a missing account is refused at once: the view is never behind the store.
"""

from __future__ import annotations

from collections.abc import Callable

from sim.api.admission.base import (
    Attributes,
    Denial,
    Operation,
    View,
    bad_name,
    forbidden,
    is_mirror,
    is_pod,
    name_of,
)
from sim.api.memo import IdentityMemo
from sim.api.schema.json_text import go_quote
from sim.api.types import Obj
from sim.ident import Names

# serviceaccount/admission.go: DefaultAPITokenMountPath; TokenVolumeSource.
TOKEN_MOUNT_PATH = "/var/run/secrets/{product}.io/serviceaccount"
TOKEN_EXPIRATION_S = 60 * 60 + 7  # legacytoken.WarnOnlyBoundTokenExpirationSeconds
TOKEN_FILE_MODE = 420  # v1.ProjectedVolumeSourceDefaultMode, 0644


class ServiceAccount:
    """Gives each pod a service account of its namespace and mounts a token of the account."""

    def __init__(self, names: Names, suffix_of: Callable[[Obj, Obj], str]) -> None:
        self._names = names
        self._suffix_of = suffix_of
        self._mount_path = TOKEN_MOUNT_PATH.format(product=names.product)
        self._specs: IdentityMemo[Obj] = IdentityMemo()

    def concerns(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin mutates."""
        return operation == "create" and is_pod(plural, subresource)

    judges = concerns

    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial:
        """The object as the plugin changes it, or the refusal."""
        if is_mirror(self._names, obj):  # not changed, but refused before it is validated
            return self.validate(attributes, obj, view) or obj
        spec = obj.get("spec") or {}
        name = spec.get("serviceAccountName") or self._names.default_service_account
        account = view.get("serviceaccounts", attributes.namespace, name)
        if account is None:
            return self._not_found(attributes, obj, name)
        made = self._specs.get(spec, account)
        if made is None:
            made = self._specs.put(self._admitted(spec, name, account), spec, account)
        return obj if made is spec else {**obj, "spec": made}

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """The refusal of an object as it would be stored; None if it is allowed."""
        spec = obj.get("spec") or {}
        name = spec.get("serviceAccountName", "")
        if is_mirror(self._names, obj):
            text = _mirror_error(spec)
            return forbidden(attributes, text, name_of(attributes, obj)) if text else None
        account = view.get("serviceaccounts", attributes.namespace, name)
        if account is None:
            return self._not_found(attributes, obj, name)
        annotations = account["metadata"].get("annotations")
        if annotations and annotations.get(self._names.annotation_mountable_secrets) == "true":
            text = _secrets_error(spec, account)
            return forbidden(attributes, text, name_of(attributes, obj)) if text else None
        return None

    def _not_found(self, attributes: Attributes, obj: Obj, name: str) -> Denial:
        why = bad_name(name) or f"serviceaccount {go_quote(name)} not found"
        text = f"error looking up service account {attributes.namespace}/{name}: {why}"
        return forbidden(attributes, text, name_of(attributes, obj))

    def _admitted(self, spec: Obj, name: str, account: Obj) -> Obj:
        out = {**spec, "serviceAccountName": name, "serviceAccount": name}
        automount = spec.get("automountServiceAccountToken")
        if automount is None:
            automount = account.get("automountServiceAccountToken")
        if automount is not False:
            self._mount_token(out, self._suffix_of(spec, account))
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            out["imagePullSecrets"] = account["imagePullSecrets"]
        return out

    def _mount_token(self, spec: Obj, suffix: str) -> None:
        """Mounts the token in each container that mounts nothing at its path; `spec` is a fresh
        copy.
        """
        prefix = self._names.volume_api_access_prefix
        given = next(
            (v["name"] for v in spec.get("volumes") or () if v.get("name", "").startswith(prefix)), ""
        )
        volume = given or prefix + suffix
        mount = {"name": volume, "readOnly": True, "mountPath": self._mount_path}
        mounted = False
        for kind in ("initContainers", "containers"):
            containers = spec.get(kind)
            if not containers:
                continue
            made = [self._with_mount(c, mount) for c in containers]
            if any(a is not b for a, b in zip(made, containers, strict=True)):
                spec[kind] = made
                mounted = True
        if mounted and not given:
            spec["volumes"] = [
                *(spec.get("volumes") or ()),
                {"name": volume, "projected": self._token_sources()},
            ]

    def _with_mount(self, container: Obj, mount: Obj) -> Obj:
        mounts = container.get("volumeMounts") or ()
        if any(m.get("mountPath") == self._mount_path for m in mounts):
            return container
        return {**container, "volumeMounts": [*mounts, mount]}

    def _token_sources(self) -> Obj:
        field = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
        return {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": TOKEN_EXPIRATION_S, "path": "token"}},
                {
                    "configMap": {
                        "name": self._names.config_map_root_ca,
                        "items": [{"key": "ca.crt", "path": "ca.crt"}],
                    }
                },
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}},
            ],
            "defaultMode": TOKEN_FILE_MODE,
        }


def _mirror_error(spec: Obj) -> str:
    if spec.get("serviceAccountName"):
        return "a mirror pod may not reference service accounts"
    volumes = spec.get("volumes") or ()
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    if any("secret" in v for v in volumes) or any(_secret_names(c) for c in containers):
        return "a mirror pod may not reference secrets"
    sources = [s for v in volumes for s in (v.get("projected") or {}).get("sources") or ()]
    if any("serviceAccountToken" in s for s in sources):
        return "a mirror pod may not use ServiceAccountToken volume projections"
    return ""


def _secret_names(container: Obj) -> list[tuple[str, str]]:
    """The (environment variable, secret) pairs of a container."""
    pairs = []
    for env in container.get("env") or ():
        reference = (env.get("valueFrom") or {}).get("secretKeyRef")
        if reference:
            pairs.append((env.get("name", ""), reference.get("name", "")))
    return pairs


def _secrets_error(spec: Obj, account: Obj) -> str:
    """Why --enforce-mountable-secrets of an account refuses a pod; "" if it does not."""
    name = account["metadata"]["name"]
    mountable = [s.get("name") for s in account.get("secrets") or ()]
    tail = f"is not allowed because service account {name} does not reference that"
    for volume in spec.get("volumes") or ():
        secret = (volume.get("secret") or {}).get("secretName")
        if secret and secret not in mountable:
            return f'volume with secret.secretName="{secret}" {tail} secret'
    for kind, label in (("initContainers", "init container"), ("containers", "container")):
        for container in spec.get(kind) or ():
            for env, secret in _secret_names(container):
                if secret not in mountable:
                    where = f'{label} {container["name"]} with envVar {env} referencing secret.secretName="{secret}"'
                    return f"{where} {tail} secret"
    pullable = [s.get("name") for s in account.get("imagePullSecrets") or ()]
    for reference in spec.get("imagePullSecrets") or ():
        if reference.get("name") not in pullable:
            return f'imagePullSecret="{reference.get("name")}" {tail} imagePullSecret'
    return ""
