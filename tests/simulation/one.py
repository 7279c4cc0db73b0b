"""Run one seed of one profile in this process and print the outcome as one line of JSON.

    python -m tests.simulation.one PROFILE SEED SECONDS [--faults FILE.json] [--mutant NAME] [--trace]

The exit code is 1 if a promise is broken.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import msgspec

from tests.simulation.model import Broken, Fault, Outcome, Profile, RunOptions
from tests.simulation.mutants import apply

CONVERGE_S = 30.0
"""Virtual seconds after the last fault within which everything must have converged."""
_real = partial(time.perf_counter)
"""The machine's clock; wrapped, since the name of the function itself is bound to the simulated one."""
_cpu = partial(time.process_time)


def run(options: RunOptions) -> Outcome:
    """Run one seed. It patches global state: one run an operating system process, with PYTHONHASHSEED=0."""
    from tests.simulation.world.late import bind_late

    bind_late()
    from tests.simulation import profiles
    from tests.simulation.world.world import World

    make = profiles.profile(options.profile)
    root = Path(tempfile.mkdtemp(prefix=f"simulation-{os.getpid():07d}-", dir=_fast()))
    try:
        world = World(options.seed, root, show=options.trace)
        return _play(world, make(world), options)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _play(world: "World", profile: Profile, options: RunOptions) -> Outcome:  # type: ignore[name-defined]  # noqa: F821
    from tests.simulation.world import faults
    from tests.simulation.world.install import install

    install(world)
    plan = options.faults
    if plan is None:
        plan = faults.draw(options.seed, options.seconds, profile)
    world.mains, world.mortal = profile.processes, profile.targets
    faults.schedule(world, plan)
    began, cpu = _real(), _cpu()
    profile.begin()
    world.run(options.seconds)
    cpu = _cpu() - cpu
    profile.quiesce()
    world.run(CONVERGE_S)
    broken = profile.check()
    return Outcome(
        profile=options.profile,
        seed=options.seed,
        virtual_s=round(options.seconds + CONVERGE_S, 3),
        real_s=round(_real() - began, 3),
        load_cpu_s=round(cpu, 3),
        turns=world.trace.turns,
        messages=world.trace.messages,
        faults=list(plan),
        broken=broken,
        trace=world.trace.digest(),
        limits=world.limits,
        counts=profile.counts(),
        events=world.trace.events,
    )


def _fast() -> str:
    """Return a directory in memory, or one whose path is as long: lengths of paths are in the trace."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else "/var/tmp"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.simulation.one", description=__doc__)
    parser.add_argument("profile")
    parser.add_argument("seed", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--faults", type=Path, help="JSON file with the faults instead of drawn ones")
    parser.add_argument("--mutant", default="")
    parser.add_argument("--trace", action="store_true", help="print every message")
    given = parser.parse_args(argv)
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation.one", *(argv or sys.argv[1:])])
    if given.mutant:  # before anything of the product is imported
        apply(given.mutant)
    plan = msgspec.json.decode(given.faults.read_bytes(), type=tuple[Fault, ...]) if given.faults else None
    outcome = run(
        RunOptions(
            profile=given.profile,
            seed=given.seed,
            seconds=given.seconds,
            faults=plan,
            mutant=given.mutant,
            trace=given.trace,
        )
    )
    print(msgspec.json.encode(outcome).decode(), flush=True)
    os._exit(bool(outcome.broken))  # nothing of the dead processes has a say


__all__ = ["Broken", "main", "run"]

if __name__ == "__main__":
    main()
