"""Compare simulated clusters with recordings of real control planes, quantity by quantity.

    python -m tests.bench.measured [--seeds N] [-j M] [--picture FILE]     default: 50, every core

Prints Markdown tables: the failover of a killed leader, 70 node deaths one after the other, and the
loss of one zone of three.  Each quantity gets a two-sample Kolmogorov-Smirnov test of all runs
together and of each run; the 70 deaths are also repeated under the recording's own conditions, and
compared death by death.  Exit status 1 if a test of all runs, or of more than one run in five,
distinguishes a simulated quantity from the recorded one at 1 %.

Holds: the share of single runs is more informative than the test on all runs, because all deaths of
a run share few phases of the monitor pass.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import trio

from sim.app.study.pool import cores
from sim.report.charts.distribution import Pair, pairs_chart
from sim.statistics import ks_test, quantile
from tests.bench.recorded import Death, Outage, deaths, failovers, outage, recording, same_deaths

LEVEL, OUTAGES, REPEATS = 0.01, 3, 4
QUANTILES = (0.10, 0.25, 0.50, 0.75, 0.90, 0.99)
HEAD = [
    "| what | n | min | p10 | p25 | p50 | p75 | p90 | p99 | max | mean | sd |",
    "|---|---|---|---|---|---|---|---|---|---|---|---|",
]
# a NoExecute taint later than this after Unknown waited for a token, not for the next pass
TOKEN_S = 7


@dataclass(frozen=True)
class Compared:
    """A quantity in all runs, and recorded."""

    name: str
    runs: Sequence[Sequence[float]]
    real: Sequence[float]

    @property
    def here(self) -> list[float]:
        return [value for run in self.runs for value in run]

    @cached_property
    def tested(self) -> tuple[float, float]:
        """The test of all runs together: the gap, and how likely one at least so large is."""
        return ks_test(self.here, self.real)

    @cached_property
    def alike(self) -> int:
        """Runs that the test does not distinguish from the recording."""
        return sum(ks_test(run, self.real)[1] >= LEVEL for run in self.runs)

    @property
    def ok(self) -> bool:
        return self.tested[1] >= LEVEL and self.alike >= 0.8 * len(self.runs)

    def rows(self) -> list[str]:
        gap, p = self.tested
        tested = (
            f"| … KS at 1 % | | D {gap:.3f}, p {p:.2f}; passed by {self.alike} of {len(self.runs)} runs, "
            f"largest quantile gap {self.gap():.2f} | | | | | | | | | |"
        )
        return [row(f"{self.name}: real", self.real), row(f"{self.name}: here", self.here), tested]

    def gap(self) -> float:
        """The largest distance of a quantile from p10 to p90 from the recorded one."""
        here, real = sorted(self.here), sorted(self.real)
        return max(abs(quantile(here, share) - quantile(real, share)) for share in QUANTILES[:-1])


def row(name: str, sample: Sequence[float]) -> str:
    ordered = sorted(sample)
    quantiles = (quantile(ordered, share) for share in QUANTILES)
    cells = [ordered[0], *quantiles, ordered[-1], fmean(sample), stdev(sample)]
    return f"| {name} | {len(sample)} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |"


def of_deaths(runs: Sequence[Sequence[Death]]) -> list[Compared]:
    """The quantities of a death, each with its recorded sample."""

    def of(pick: Callable[[Death], float | None]) -> list[list[float]]:
        return [[value for death in run if (value := pick(death)) is not None] for run in runs]

    real = partial(recording, "deaths.csv")
    renewed, unknown, tainted = real("last_renewal_s"), real("unknown_after_s"), real("no_execute_after_s")
    silent = [at - before for at, before in zip(unknown, renewed, strict=True)]
    queued = [later - at for at, later in zip(unknown, tainted, strict=True)]
    return [
        Compared("death → Unknown", of(lambda death: death.unknown), unknown),
        Compared("death → NoExecute", of(lambda death: death.no_execute), tainted),
        Compared("death → DELETE", of(lambda death: death.deleted), real("pod_delete_after_s")),
        Compared("last renewal → Unknown", of(lambda death: death.unknown - death.renewed), silent),
        Compared("Unknown → NoExecute", of(lambda death: death.no_execute - death.unknown), queued),
    ]


def death_lines(runs: Sequence[Sequence[Death]], compared: Sequence[Compared]) -> list[str]:
    queued = next(one for one in compared if one.name == "Unknown → NoExecute")
    late, real = [sum(took > TOKEN_S for took in sample) for sample in (queued.here, queued.real)]
    after = [death.no_schedule - death.unknown for run in runs for death in run]
    return [
        *HEAD,
        *(line for one in compared for line in one.rows()),
        row("Unknown → NoSchedule: here", after),
        "",
        f"NoExecute waited for a token in {late} of {len(queued.here)} deaths "
        f"({100 * late / len(queued.here):.0f} %; real: {real} of {len(queued.real)}).",
    ]


def paired_lines(runs: Sequence[Sequence[Death]]) -> list[str]:
    """Death by death: how far each time is from the recorded one of the same death."""
    lines = [
        "| run | what | within 0.3 s | a pass away | median | largest of the others |",
        "|---|---|---|---|---|---|",
    ]
    for number, run in enumerate(runs):
        for name, column, pick in (
            ("Unknown", "unknown_after_s", lambda death: death.unknown),
            ("NoExecute", "no_execute_after_s", lambda death: death.no_execute),
        ):
            gaps = [pick(death) - at for death, at in zip(run, recording("deaths.csv", column), strict=False)]
            near = [gap for gap in gaps if abs(gap) <= 2.5]
            within = sum(abs(gap) <= 0.3 for gap in gaps)
            lines.append(
                f"| {number} | {name} | {within} of {len(gaps)} | {len(gaps) - len(near)} "
                f"| {median(near):+.2f} | {max(near, key=abs):+.2f} |"
            )
    return lines


def outage_lines(found: Outage) -> list[str]:
    def shown(times: Sequence[float]) -> str:
        return ", ".join(f"{at:.1f}" for at in times)

    return [
        f"- Ready=Unknown at {shown(found.unknown)}",
        f"- NoExecute at {shown(found.no_execute)}",
        f"- DELETE at {shown(found.deleted)}, a node's five within {found.spread:.2f}; {found.others} in zones b and c",
    ]


RECORDED = {"failovers": failovers, "deaths": deaths, "same": same_deaths, "outage": outage}


def repeat(job: tuple[str, int]) -> Any:
    """What worker processes do."""
    what, seed = job
    return trio.run(RECORDED[what], seed)


def main(arguments: argparse.Namespace) -> int:
    jobs = [("same", seed) for seed in range(min(arguments.seeds, REPEATS))]
    jobs += [(what, seed) for what in ("deaths", "failovers") for seed in range(arguments.seeds)]
    jobs += [("outage", seed) for seed in range(min(arguments.seeds, OUTAGES))]
    with get_context("spawn").Pool(arguments.jobs) as pool:
        done = dict(zip(jobs, pool.map(repeat, jobs, chunksize=1), strict=True))

    def runs(what: str) -> list[Any]:
        return [found for (name, _), found in done.items() if name == what]

    failover = Compared("failover", runs("failovers"), recording("failover.csv", "takeover_s"))
    single, same = of_deaths(runs("deaths")), of_deaths(runs("same"))
    print("\n".join(["### Leader killed\n", *HEAD, *failover.rows()]))
    print("\n".join(["\n### Single nodes\n", *death_lines(runs("deaths"), single)]))
    print("\n".join(["\n### The recorded deaths again\n", *death_lines(runs("same"), same), ""]))
    print("\n".join(paired_lines(runs("same"))))
    print("\n### One zone of three")
    for seed, found in enumerate(runs("outage")):
        print("\n".join([f"\nHere, seed {seed}:\n", *outage_lines(found)]))
    compared = [failover, *single, *same]
    if arguments.picture is not None:
        pairs = [
            Pair(
                one.name,
                one.real,
                one.here,
                f"p {one.tested[1]:.2f}, {one.alike} of {len(one.runs)} runs pass",
            )
            for one in (failover, *single)
        ]
        pairs_chart(pairs).save(arguments.picture, width=900)
    differing = [one.name for one in compared if not one.ok]
    print(f"\nTold apart at 1 %: {', '.join(differing) or 'nothing'}.")
    return 1 if differing else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.measured", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("-j", "--jobs", type=int, default=cores())
    parser.add_argument("--picture", type=Path, help="write both distributions of each quantity as SVG")
    raise SystemExit(main(parser.parse_args()))
