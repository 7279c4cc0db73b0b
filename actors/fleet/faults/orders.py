"""The orders to a fleet that runs: `nodeplane fleet fault` and `nodeplane fleet status`."""

import argparse
from collections.abc import Iterator

import msgspec

from actors.fleet.faults.control import ask, socket_path
from actors.fleet.faults.flags import FAULT, fault_of
from protocols.messages.fleet import FleetStatus, Hit
from protocols.process.layout import Layout
from protocols.process.texts import printable


async def give_order(args: argparse.Namespace, layout: Layout) -> int:
    """Send an order to the fleet and print its answer. Raises FleetAway, ScriptInvalid, SettingsInvalid."""
    order = {"fault": fault_of(args)} if args.order == FAULT else {"status": True}
    answer = await ask(socket_path(layout, args.name), order)
    outcome: Hit | FleetStatus | None = answer.hit or answer.status
    if args.output == "json":
        print(msgspec.json.encode(outcome).decode())
    elif isinstance(outcome, Hit):
        print(printable(outcome.text))
    elif outcome is not None:
        print("\n".join(map(printable, status_lines(outcome))))
    return 0


def status_lines(status: FleetStatus) -> Iterator[str]:
    """Yield the lines of `nodeplane fleet status`."""
    yield f"fleet    {status.name}"
    yield f"nodes    {status.nodes}, {status.registered} registered, {status.silent} silent"
    yield f"pods     {_counts(status.pods)}"
    for devices in status.devices:
        yield f"devices  {devices.name}: {_counts(devices.health)}"
    yield f"writes   {status.writes} statuses of pods, {status.events_dropped} events dropped"
    yield f"faults   {status.fault_count}, seed {status.seed}"
    for played in status.faults:
        yield f"  at {played.at:.1f}s: {played.hit.text}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "none"
