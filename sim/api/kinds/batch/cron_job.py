"""CronJobs.

Mirrors  kubernetes v1.25 pkg/registry/batch/cronjob/strategy.go,
         pkg/apis/batch/validation/validation.go: ValidateCronJob and its update;
         pkg/apis/batch/v1/defaults.go.
"""

from __future__ import annotations

from functools import partial

from sim.api.cron import ScheduleError, parse_schedule, zone_of
from sim.api.go.printing import LABEL_SELECTOR, GoValue
from sim.api.kinds.batch.job.validation import work_errors
from sim.api.kinds.common.cells import AGE, NAME, WIDE, age, template_cells
from sim.api.kinds.common.fill import Fn, fill, present, within
from sim.api.kinds.common.pods.defaults import fill_template
from sim.api.kinds.common.pods.warnings import template_warnings
from sim.api.kinds.common.workloads import WORKLOAD, spec_of
from sim.api.objects import get_in, name_of
from sim.api.schema.kind import NOTHING, STATUS, Cells, GatedField, Kind, Row
from sim.api.selectors import format_selector
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, at_least_zero, invalid, one_of, required, unsupported
from sim.api.validation.metadata import object_meta, object_meta_update
from sim.ident import Names
from sim.options.features.gates import TIME_ZONE
from sim.units import human_duration, parse_time


def _defaults_with(templates: Fn) -> Fn:
    """The defaults of a CronJob.

    Quirk: in the template of its Jobs, only the pod template gets defaults.

    templates: fills in a pod template
    """

    def job_spec(value: Obj) -> Obj:
        return within(present(value, {"template": {}}), "template", templates)

    def job_template(value: Obj) -> Obj:
        value = present(value, {"metadata": {}, "spec": {}})
        value = within(value, "metadata", lambda meta: present(meta, {"creationTimestamp": None}))
        return within(value, "spec", job_spec)

    def spec(value: Obj) -> Obj:
        value = fill(
            value,
            {
                "concurrencyPolicy": "Allow",
                "suspend": False,
                "successfulJobsHistoryLimit": 3,
                "failedJobsHistoryLimit": 1,
            },
        )
        return within(present(value, {"schedule": "", "jobTemplate": {}}), "jobTemplate", job_template)

    return lambda obj: within(present(obj, {"spec": {}, "status": {}}), "spec", spec)


# --- validation -----------------------------------------------------------------------------------

CRON_JOB_NAME_MAX = 52  # the names of its Jobs are longer by 11 characters

_ZONES = "https://www.iana.org/time-zones"


def _spec_errors(spec: Obj, before: Obj = NOTHING) -> Errors:
    errors = _schedule_errors(spec)
    errors += at_least_zero("spec.startingDeadlineSeconds", spec.get("startingDeadlineSeconds"))
    zone = spec.get("timeZone")
    if zone is not None and zone != before.get("timeZone"):
        errors += _zone_errors(zone)
    policy = spec.get("concurrencyPolicy", "")
    errors += one_of("spec.concurrencyPolicy", policy, ("Allow", "Forbid", "Replace"))
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    errors += work_errors(job, "spec.jobTemplate.spec")
    if job.get("selector") is not None:
        shown = GoValue(LABEL_SELECTOR, job["selector"])
        errors.append(invalid("spec.jobTemplate.spec.selector", shown, "`selector` will be auto-generated"))
    if job.get("manualSelector"):
        errors.append(unsupported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false")))
    for name in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        errors += at_least_zero(f"spec.{name}", spec.get(name))
    return errors


def _schedule_errors(spec: Obj) -> Errors:
    schedule = spec.get("schedule", "")
    if not schedule:
        return [required("spec.schedule")]
    errors: Errors = []
    try:
        parse_schedule(schedule)
    except ScheduleError as error:
        errors.append(invalid("spec.schedule", schedule, str(error)))
    if "TZ" in schedule and spec.get("timeZone") is not None:
        detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        errors.append(invalid("spec.schedule", schedule, detail))
    return errors


def _zone_errors(name: str) -> Errors:
    if not name:
        return [invalid("spec.timeZone", name, "timeZone must be nil or non-empty string")]
    errors: Errors = []
    if name.lower() == "local":
        detail = f"timeZone must be an explicit time zone as defined in {_ZONES}"
        errors.append(invalid("spec.timeZone", name, detail))
    try:
        zone_of(name)
    except ScheduleError as error:
        errors.append(invalid("spec.timeZone", name, str(error)))
    return errors


def _validate_create(obj: Obj) -> Errors:
    errors = object_meta(obj["metadata"], True, text.subdomain) + _spec_errors(spec_of(obj))
    name = obj["metadata"].get("name", "")
    if len(name) > CRON_JOB_NAME_MAX:
        detail = f"must be no more than {CRON_JOB_NAME_MAX} characters"
        errors.append(invalid("metadata.name", name, detail))
    return errors


def _validate_update(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"])
    return errors if spec_of(new) is spec_of(old) else errors + _spec_errors(spec_of(new), spec_of(old))


# --- table ----------------------------------------------------------------------------------------


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    suspend = spec.get("suspend")
    shown = "<unset>" if suspend is None else str(bool(suspend))
    last = status.get("lastScheduleTime", "")
    since = human_duration(now_us - parse_time(last)) if last else "<unknown>" if last is None else "<none>"
    head = [name_of(obj), spec.get("schedule", ""), shown, len(status.get("active") or ()), since]
    made = get_in(spec, ("jobTemplate", "spec"), {})
    return [*head, age(obj, now_us), *template_cells(made), format_selector(made.get("selector"))]


def _warnings(obj: Obj, names: Names) -> tuple[str, ...]:
    if "TZ" not in (obj.get("spec") or NOTHING).get("schedule", ""):
        return ()
    page = f"https://{names.domain}/docs/concepts/workloads/controllers/cron-jobs/"
    # Quirk: the path has spec twice.
    return (
        f"CRON_TZ or TZ used in spec.spec.schedule is not officially supported, see {page} for more details",
    )


_TEMPLATE = ("spec", "jobTemplate", "spec", "template")

KIND = Kind(
    rows=(Row("batch", "v1", "cronjobs", "CronJob", short=("cj",), categories=("all",), subs=(STATUS,)),),
    strategy=WORKLOAD,
    defaults=_defaults_with(fill_template),
    validate_create=_validate_create,
    validate_update={"": _validate_update},
    pod_spec=(*_TEMPLATE, "spec"),
    gated_fields=(GatedField(TIME_ZONE, ("spec", "timeZone")),),
    columns=(
        NAME,
        "Schedule=spec.schedule",
        "Suspend:boolean=spec.suspend",
        "Active:integer=status.active",
        "Last Schedule=status.lastScheduleTime",
        AGE,
        *WIDE,
        "*Selector",
    ),
    cells=_cells,
    warnings=_warnings,
    client_warnings=partial(template_warnings, path=_TEMPLATE),
)
