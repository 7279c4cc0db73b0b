"""GetPreferredAllocation chooses as many of the available devices as are needed, with those that must be included."""

from collections.abc import Iterator, Sequence

from supervisor.conform.peer import PluginPeer
from supervisor.conform.sources import API, MANAGER
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "calls"
RULE = "The choice has allocation_size different devices of available_deviceIDs, and all of must_include_deviceIDs."
SOURCE = f"{API}; {MANAGER}"
ADVICE = (
    "Begin with must_include_deviceIDs, which are among available_deviceIDs, too, and fill up from the others; offer"
    " the call in the options only if it does."
)
MOST = 8


async def check(plugin: PluginPeer) -> None:
    """Ask for each size, with and without devices that must be included, of all and of some devices."""
    if not plugin.options.get_preferred_allocation_available:
        raise NotApplicable("the options do not offer it")
    for available, included, size in questions(plugin.healthy()[:MOST]):
        answers = await plugin.preferred(available, included, size)
        if len(answers) != 1:
            raise Failed(f"one container was asked for, {len(answers)} were answered")
        if fault := fault_of(answers[0], available, included, size):
            raise Failed(f"{size} of {', '.join(available)} with {', '.join(included) or 'none'} included: {fault}")


def questions(ids: Sequence[str]) -> Iterator[tuple[Sequence[str], Sequence[str], int]]:
    """Yield available devices, those that must be included, and the number."""
    for size in range(1, len(ids) + 1):
        yield ids, (), size
        yield ids, ids[:1], size
        yield ids, ids[-1:], size
        yield ids, ids[-size:], size
    for some in (ids[1:], ids[::2], ids[1::2]):
        for size in range(1, len(some) + 1):
            yield some, (), size
            yield some, some[-1:], size


def fault_of(choice: Sequence[str], available: Sequence[str], included: Sequence[str], size: int) -> str:
    """Return what is wrong with a choice."""
    if foreign := set(choice) - set(available):
        return f"{min(foreign)} is not available"
    if missing := set(included) - set(choice):
        return f"{min(missing)} is missing"
    if repeated := {id for id in choice if choice.count(id) > 1}:
        return f"{min(repeated)} was chosen twice"
    return "" if len(choice) == size else f"{len(choice)} were chosen"
