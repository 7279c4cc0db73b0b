"""`python -m fake_actors.plane ROOT [--detach] NAME[:MODULE][!]...`: a supervisor over fakes, `!` = critical."""

import sys

import msgspec

from protocols.errors import NodeplaneError
from supervisor.options import PlaneOptions
from supervisor.prepare import Prepared
from supervisor.spec import ChildSpec, Limits
from supervisor.start import start

LIMITS = Limits(beat_s=2.5, abort_s=0.3, backoff_s=0.02, start_failures=3)


def spec(word: str) -> ChildSpec:
    name, _, module = word.rstrip("!").partition(":")
    critical = word.endswith("!")
    actor = name.split("-")[0]
    return ChildSpec(
        instance=name, actor=actor, group="node", module=f"fake_actors.{module or 'good'}", critical=critical
    )


def main() -> int:
    root, *words = sys.argv[1:]
    detach = "--detach" in words
    specs = tuple(spec(word) for word in words if word != "--detach")

    def adapt(prepared: Prepared) -> Prepared:
        return msgspec.structs.replace(prepared, specs=specs)

    options = PlaneOptions(root=root, port=0, metrics_port=0, node_name="n1")
    try:
        return start(options, detach=detach, limits=LIMITS, adapt=adapt)
    except NodeplaneError as error:
        print(f"nodeplane: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
