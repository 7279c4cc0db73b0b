"""Devices have the same ids after restarts of kubelet and plugin."""

from supervisor.conform.sources import API, MANAGER
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import Failed

PHASE = "end"
RULE = "The kubelet knows by its id which device a pod holds, across restarts; another id is another device."
SOURCE = f"{API}; {MANAGER}"
ADVICE = "Derive ids from the hardware, not from a counter, a random number or the order of discovery."


async def run(stage: Stage) -> None:
    """Compare the first list with that of each later start."""
    await stage.plugins()
    if len(stage.history) == 1:
        await stage.restart_program()
        await stage.serve_started()
    first, *later = stage.history
    for listed in later:
        for resource, ids in listed.items():
            if gone := set(first[resource]) - set(ids):
                raise Failed(f"{min(gone)} of {resource} was listed at first, and {', '.join(ids[:3])} later")
