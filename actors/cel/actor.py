"""cel: evaluate CEL expressions for one process: an API server, the scheduler or the controllers.

A process of its own, since expressions come from any user and reach a native library: whatever one does, the processes
that serve others go on. The actor itself evaluates nothing: it forks evaluators without rights, ends those that overrun
or grow, and blames the expression in work. It owns nothing durable. On kill -9 its evaluators end with it, and callers
ask its next incarnation again; the quarantine of expressions begins anew.
"""

import asyncio
import gc

from prometheus_client import Counter, Gauge, Histogram

from actors.cel.evaluators import Death, Evaluators
from protocols.actor import Context, run_actor
from protocols.bus import Call
from protocols.cel.worker.loading import load
from protocols.cel.worker.messages import EVALUATE, Answers, Work
from protocols.process.families import CounterFamily, GaugeFamily, HistogramFamily

TRIM_S = 10.0
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

KILLS = CounterFamily(
    "nodeplane_cel_worker_kills_total",
    "Evaluators that were replaced; reason is cpu, memory, crash, time, stopped or killed.",
    ("reason",),
)
SECONDS = HistogramFamily("nodeplane_cel_worker_seconds", "Seconds to answer one request, with its waiting.")
QUARANTINED = GaugeFamily("nodeplane_cel_quarantined", "Expressions that were blamed for the end of an evaluator.")


class Cel:
    """The actor around Evaluators: RPC, metrics, quarantine."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._begun = False
        registry = context.registry
        self._kills = Counter(*KILLS, registry=registry)
        self._seconds = Histogram(*SECONDS, buckets=BUCKETS, registry=registry)
        self._evaluators = Evaluators(context.log, self._died)
        quarantined = Gauge(*QUARANTINED, registry=registry)
        quarantined.set_function(lambda: len(self._evaluators.quarantine))

    async def start(self) -> None:
        self._context.bus.serve(EVALUATE, Work, self._evaluate)
        self._context.ready(self._note())

    async def stop(self) -> None:
        self._evaluators.close()

    async def _evaluate(self, work: Work, call: Call) -> Answers:
        with self._seconds.time():
            if not self._begun:
                self._begin()
            return await self._evaluators.run(work)

    def _begin(self) -> None:
        """Load the engine and fork evaluators, with the first expression: most planes have none."""
        load()
        gc.collect()
        gc.freeze()  # evaluators share what is loaded
        self._evaluators.start()
        self._context.spawn(self._trim(), "trim evaluators")
        self._begun = True

    async def _trim(self) -> None:
        while True:
            await asyncio.sleep(TRIM_S)
            self._evaluators.trim()

    def _died(self, death: Death) -> None:
        self._kills.labels(reason=death.kind).inc()
        self._context.note(self._note(death))

    def _note(self, death: Death | None = None) -> str:
        served = self._context.instance.removeprefix("cel-")
        if death is None:
            return f"evaluates for {served}"
        return f"evaluates for {served}; last evaluator replaced: {death.reason or death.kind}"


def main(argv: list[str] | None = None) -> None:
    run_actor("cel", Cel, argv)


if __name__ == "__main__":
    main()
