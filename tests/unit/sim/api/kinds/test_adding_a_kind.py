"""The worked example of `sim.api.kinds`: a kind is served once it is in the registry.

The kind has the field schema of networking.k8s.io/v1alpha1 ClusterCIDR, in place of the kind of
that name.  Its rules are made up.
"""

from __future__ import annotations

import pytest

from sim.api.kinds.common.cells import AGE, NAME, age
from sim.api.kinds.common.fill import fill_zero, present, within
from sim.api.kinds.networking import cluster_cidr
from sim.api.kinds.registry import KINDS
from sim.api.kinds.tables import columns, row
from sim.api.schema.kind import Cells, Kind, Row, Strategy
from sim.api.scheme.discovery import api_group, api_resource_list
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, at_least_zero, immutable, required
from sim.api.validation.metadata import object_meta, object_meta_update
from sim.ident import NAMES, Names
from tests.unit.sim.api.golden_api import Api

# --- the module of the kind ----------


def _fill_defaults(obj: Obj) -> Obj:
    return within(present(obj, {"spec": {}}), "spec", lambda spec: fill_zero(spec, {"perNodeHostBits": 8}))


def _validate_create(obj: Obj) -> Errors:
    errors = object_meta(obj["metadata"], False, text.subdomain)
    spec = obj["spec"]
    errors += at_least_zero("spec.perNodeHostBits", spec["perNodeHostBits"])
    return errors if spec.get("ipv4") else [*errors, required("spec.ipv4")]


def _validate_update(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"])
    return errors + immutable("spec.ipv4", new["spec"].get("ipv4"), old["spec"].get("ipv4"))


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    return [obj["metadata"]["name"], obj["spec"]["perNodeHostBits"], age(obj, now_us)]


KIND = Kind(
    rows=(
        Row(
            "networking",
            "v1alpha1",
            "clustercidrs",
            "ClusterCIDR",
            namespaced=False,
            short=("cc",),
            json_only=True,
        ),
    ),
    strategy=Strategy(generation="spec"),
    defaults=_fill_defaults,
    validate_create=_validate_create,
    validate_update={"": _validate_update},
    columns=(NAME, "PerNodeHostBits:integer=spec.perNodeHostBits", AGE),
    cells=_cells,
)

# --- the line in the registry ----------

BEFORE = tuple(kind for kind in KINDS if kind is not cluster_cidr.KIND)
EXTENDED = (*BEFORE, KIND)

# --- what these two places give ----------

KUBERNETES = NAMES["kubernetes"]
GROUP = "networking.k8s.io"
PATH = f"/apis/{GROUP}/v1alpha1/clustercidrs"
MERGE = "application/merge-patch+json"


@pytest.fixture
def api() -> Api:
    return Api(kinds=EXTENDED, alpha=True)


def cidr(**spec: object) -> Obj:
    return {"metadata": {"name": "c"}, "spec": spec}


def test_kind_outside_of_the_registry_is_not_served() -> None:
    assert Scheme(KUBERNETES, frozenset(), BEFORE).find(GROUP, "v1alpha1", "clustercidrs") is None


def test_discovery_lists_the_added_kind_and_its_version() -> None:
    scheme = Scheme(KUBERNETES, frozenset(), EXTENDED)
    group = api_group(scheme, GROUP)
    assert group is not None
    assert [version["version"] for version in group["versions"]] == ["v1", "v1alpha1"]
    listed = api_resource_list(scheme, GROUP, "v1alpha1")
    assert listed is not None
    (found,) = listed["resources"]
    assert (found["name"], found["kind"], found["shortNames"]) == ("clustercidrs", "ClusterCIDR", ["cc"])


def test_other_kinds_keep_their_order_in_an_extended_registry() -> None:
    before = [repr(resource) for resource in Scheme(KUBERNETES, frozenset(), BEFORE).resources]
    after = [repr(resource) for resource in Scheme(KUBERNETES, frozenset(), EXTENDED).resources]
    assert [text for text in after if "clustercidrs" not in text] == before


def test_create_of_the_added_kind_fills_defaults_and_counts_generations(api: Api) -> None:
    made = api.ask("POST", PATH, cidr(ipv4="10.0.0.0/8")).obj
    assert made["spec"] == {"ipv4": "10.0.0.0/8", "perNodeHostBits": 8}
    assert made["metadata"]["generation"] == 1
    patched = api.ask("PATCH", f"{PATH}/c", {"spec": {"perNodeHostBits": 4}}, MERGE).obj
    assert patched["metadata"]["generation"] == 2


def test_validation_of_the_added_kind_refuses_create_and_update(api: Api) -> None:
    refused = api.ask("POST", PATH, cidr(perNodeHostBits=-1))
    assert refused.code == 422
    assert refused.message == (
        'ClusterCIDR.networking.k8s.io "c" is invalid: [spec.perNodeHostBits: Invalid value: -1: '
        "must be greater than or equal to 0, spec.ipv4: Required value]"
    )
    assert api.ask("POST", PATH, cidr(ipv4="10.0.0.0/8")).code == 201
    changed = api.ask("PATCH", f"{PATH}/c", {"spec": {"ipv4": "10.0.0.0/9"}}, MERGE)
    assert "spec.ipv4: Invalid value" in changed.message and "field is immutable" in changed.message


def test_unknown_field_of_the_added_kind_is_checked_by_its_schema(api: Api) -> None:
    refused = api.ask("POST", f"{PATH}?fieldValidation=Strict", cidr(ipv4="10.0.0.0/8", ipv5="x"))
    assert refused.code == 400 and 'unknown field "spec.ipv5"' in refused.message


def test_table_of_the_added_kind_has_its_columns_and_cells(api: Api) -> None:
    resource = api.scheme.resource("clustercidrs")
    made = api.ask("POST", PATH, cidr(ipv4="10.0.0.0/8")).obj
    titles = [column["name"] for column in columns(resource)]
    assert titles == ["Name", "PerNodeHostBits", "Age"]
    assert columns(resource)[1]["description"]
    assert row(resource, made, 1_700_000_060_000_000, KUBERNETES)["cells"] == ["c", 8, "60s"]
