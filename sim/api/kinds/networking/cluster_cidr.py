"""ClusterCIDRs: ranges from which nodes get their pods' addresses.

Mirrors  kubernetes v1.25 pkg/registry/networking/clustercidr/strategy.go,
         pkg/apis/networking/validation/validation.go: ValidateClusterCIDR and its update,
         pkg/printers/internalversion/printers.go: printClusterCIDR.
Quirk    the field of a bad range is named after its family, "spec.IPv4", not "spec.ipv4".
Differs  no controller assigns from these ranges: the gate MultiCIDRRangeAllocator is off.
"""

from __future__ import annotations

from sim.api.go.printing import GoValue
from sim.api.kinds.common.cells import AGE, NAME, age
from sim.api.kinds.common.fill import present, within
from sim.api.kinds.common.pods.affinity import node_selector
from sim.api.objects import name_of
from sim.api.schema.kind import Cells, Kind, Row, Strategy
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, immutable, invalid, required
from sim.api.validation.metadata import object_meta, object_meta_update
from sim.ident import Names

HOST_BITS_MIN = 4  # validation.go: minPerNodeHostBits
_FAMILIES = (("IPv4", "ipv4", 4, 32), ("IPv6", "ipv6", 6, 128))


def _fill_defaults(obj: Obj) -> Obj:
    return within(present(obj, {"spec": {}}), "spec", lambda spec: present(spec, {"ipv4": "", "ipv6": ""}))


# --- validation -----------------------------------------------------------------------------------


def _validate_create(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], False, text.label) + _spec_errors(obj.get("spec") or {})


def _spec_errors(spec: Obj) -> Errors:
    errors: Errors = []
    if spec.get("nodeSelector") is not None:
        errors += node_selector(spec["nodeSelector"], "spec.nodeSelector")
    given = [(family, spec[family[1]]) for family in _FAMILIES if spec.get(family[1])]
    if not given:
        return [*errors, required("spec", "one or both of `ipv4` and `ipv6` must be specified")]
    for (name, _, version, size), cidr in given:
        errors += _range_errors(cidr, spec.get("perNodeHostBits", 0), name, version, size)
    return errors


def _range_errors(cidr: str, host_bits: int, name: str, version: int, size: int) -> Errors:
    at = f"spec.{name}"
    address, _, length = cidr.partition("/")
    parsed = text.parse_ip(address)
    if parsed is None or not text.is_cidr(cidr):
        return [invalid(at, cidr, f"must be a valid CIDR: {cidr}")]
    errors: Errors = []
    if parsed.version != version:
        errors.append(invalid(at, cidr, f"must be a valid {name} CIDR"))
    most, bits = size - int(length), "spec.perNodeHostBits"
    if host_bits < HOST_BITS_MIN:
        errors.append(invalid(bits, host_bits, f"must be greater than or equal to {HOST_BITS_MIN}"))
    if host_bits > most:
        errors.append(invalid(bits, host_bits, f"must be less than or equal to {most}"))
    return errors


def _validate_update(new: Obj, old: Obj) -> Errors:
    errors = _validate_create(new) + object_meta_update(new["metadata"], old["metadata"])
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    for field in ("nodeSelector", "perNodeHostBits", "ipv4", "ipv6"):
        shown = GoValue("*core.NodeSelector", spec.get(field)) if field == "nodeSelector" else None
        errors += immutable(f"spec.{field}", spec.get(field), before.get(field), shown)
    return errors


# --- table ----------------------------------------------------------------------------------------


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    spec = obj.get("spec") or {}
    ranges = [spec.get(field) or "<none>" for field in ("ipv4", "ipv6")]
    return [
        name_of(obj),
        str(spec.get("perNodeHostBits", 0)),
        *ranges,
        age(obj, now_us),
        _shown_selector(spec.get("nodeSelector")),
    ]


def _shown_selector(selector: Obj | None) -> str:
    if selector is None:
        return "<none>"
    terms = []
    for term in selector.get("nodeSelectorTerms") or ():
        for field, title in (("matchExpressions", "MatchExpressions"), ("matchFields", "MatchFields")):
            if term.get(field):
                terms.append(f"{title}: [{' '.join(map(_shown_requirement, term[field]))}]")
    return ",".join(terms)


def _shown_requirement(requirement: Obj) -> str:
    values = " ".join(requirement.get("values") or ())
    return f"{{{requirement.get('key', '')} {requirement.get('operator', '')} [{values}]}}"


KIND = Kind(
    rows=(Row("networking", "v1alpha1", "clustercidrs", "ClusterCIDR", namespaced=False, short=("cc",)),),
    strategy=Strategy(unconditional=True),
    defaults=_fill_defaults,
    validate_create=_validate_create,
    validate_update={"": _validate_update},
    columns=(
        NAME,
        "PerNodeHostBits=spec.perNodeHostBits",
        "IPv4=spec.ipv4",
        "IPv6=spec.ipv6",
        AGE,
        "*NodeSelector=spec.nodeSelector",
    ),
    cells=_cells,
)
