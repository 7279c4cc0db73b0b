"""Print where the CPU time of a run without faults goes, and what of it a write or a pod costs.

    PYTHONHASHSEED=0 python -m tests.simulation.parts PROFILE SEED SECONDS

A signal each few milliseconds of CPU time finds the innermost frame of a part; libraries that are no part count for
their caller. A seed with real limits gives figures that compare: those of `nodeplane bench simulation`.
"""

import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

from tests.simulation import one
from tests.simulation.model import Outcome, RunOptions
from tests.simulation.world.late import bind_late
from tests.simulation.world.patching import patch

ROOT = f"{Path(__file__).parents[2]}/"
PARTS = {
    "tests/": "simulation",
    "actors/store/": "store",
    "actors/watchcache/": "watch cache",
    "actors/apiserver/": "API servers",
    "actors/controllers/": "controllers, scheduler",
    "actors/scheduler/": "controllers, scheduler",
    "actors/": "node's actors",
    "protocols/http1/": "API client",
    "protocols/kubeclient/": "API client",
    "protocols/etcd/": "store client",
    "protocols/bus/": "bus",
    "protocols/": "other protocols",
}
"""By the beginning of a path below ROOT; the first that fits counts."""
HTTP = ("/aiohttp/", "/yarl/", "/multidict/")
SAMPLE_S = 0.001
UNITS = ("acknowledged", "pods")


def part_of(frame: FrameType | None) -> str:
    while frame is not None:
        path = frame.f_code.co_filename
        if "/site-packages/" in path or not path.startswith(ROOT):
            if any(each in path for each in HTTP):
                return "aiohttp"
            if "/asyncio/" in path:
                return "asyncio"
        else:
            below = path.removeprefix(ROOT)
            return next((part for beginning, part in PARTS.items() if below.startswith(beginning)), "others")
        frame = frame.f_back
    return "others"


def measure(profile: str, seed: int, seconds: float) -> tuple[Outcome, Counter[str]]:
    """Run a seed, and sample it while its load runs."""
    bind_late()
    from tests.simulation.world.world import World

    found: Counter[str] = Counter()
    run, intervals = World.run, iter((SAMPLE_S,))

    def sampled(world: World, seconds: float) -> None:
        interval = next(intervals, 0.0)  # the second call runs without load
        signal.setitimer(signal.ITIMER_PROF, interval, interval)
        run(world, seconds)
        signal.setitimer(signal.ITIMER_PROF, 0.0)

    patch(World, "run", sampled)
    signal.signal(signal.SIGPROF, lambda number, frame: found.update((part_of(frame),)))
    return one.run(RunOptions(profile=profile, seed=seed, seconds=seconds, faults=())), found


def main(argv: list[str]) -> None:
    profile, seed, seconds = argv
    outcome, found = measure(profile, int(seed), float(seconds))
    units = next(outcome.counts[name] for name in UNITS if outcome.counts.get(name))
    print(f"{float(seconds) / outcome.load_cpu_s:.1f} times real, {units} units of load, microseconds of each:")
    for part, count in found.most_common():
        share = count / found.total()
        print(f"{share:6.1%} {share * outcome.load_cpu_s / units * 1e6:8.0f} {part}")


if __name__ == "__main__":
    main(sys.argv[1:])
