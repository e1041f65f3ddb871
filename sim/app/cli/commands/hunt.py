"""`orrery hunt`: a search for runs of a scenario in which what must hold does not."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from sim.app.cli.commands.arguments import (
    EXIT_FAILED,
    EXIT_OK,
    OUT,
    add_programs,
    add_scenario,
    add_seed,
    check_outputs,
    output_file,
    pool_of,
    positive,
    programs_of,
    stopped_early,
)
from sim.app.process.interrupts import SIGNALLED
from sim.app.process.printed import tell

if TYPE_CHECKING:
    from sim.app.cli.commands.arguments import Commands


def add(commands: Commands) -> None:
    """Add the command."""
    hunt = commands.add_parser("hunt")
    add_scenario(hunt)
    add_programs(hunt)
    hunt.add_argument("--budget", metavar="BUDGET", default="5m")
    hunt.add_argument("--failures", type=positive, metavar="N")
    add_seed(hunt)
    hunt.add_argument("--jobs", "-j", type=positive, metavar="M")
    hunt.add_argument("--dask", metavar="ADDRESS")
    hunt.add_argument("--resume", type=output_file, metavar="FILE")
    hunt.add_argument("--out", type=Path, metavar="FOLDER", default=OUT)
    hunt.add_argument("--no-shrink", action="store_true")
    hunt.add_argument("--blind", action="store_true")
    hunt.add_argument("--json", action="store_true")
    hunt.add_argument("--quiet", "-q", action="store_true")
    hunt.set_defaults(call=_hunt)


def _hunt(arguments: argparse.Namespace) -> int:
    from sim.app.hunt.ground import ground_of
    from sim.app.hunt.hunting import Budget, hunted
    from sim.app.hunt.shown import print_hunt, watched
    from sim.app.study.pool import cores

    check_outputs(arguments.resume, inputs=(arguments.scenario,))
    budget = Budget.of(arguments.budget)
    ground = ground_of(arguments.scenario, arguments.set, programs_of(arguments))
    with watched(ground.name, budget, not (arguments.json or arguments.quiet)) as watching:
        result = hunted(
            ground,
            budget,
            pool_of(arguments),
            batch=arguments.jobs or cores(),
            seed=arguments.seed or 0,
            failures=arguments.failures,
            resume=arguments.resume,
            folder=arguments.out,
            blind=arguments.blind,
            shrink=not arguments.no_shrink,
            watching=watching,
        )
    if arguments.json:
        print(json.dumps(result.to_json()))
    else:
        print_hunt(result)
    if result.stopped:
        tell(stopped_early(arguments.resume))
        return SIGNALLED + result.stopped
    return EXIT_OK if result.ok else EXIT_FAILED
