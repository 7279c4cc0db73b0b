"""Consequences of answers in words, as call records show them. Pure."""

from collections.abc import Collection, Sequence

from protocols.lifecycle.devices.types import PluginOptions
from protocols.process.texts import listed

POD_REJECTED = "pod rejected"
NAMED = 5
"""Ids named in one outcome."""


def allocated(answered: int) -> str:
    """Return the outcome of an Allocate call for one container."""
    if answered == 1:
        return "answered 1 container for a request of 1: granted"
    consequence = "the first is granted, the others are ignored" if answered else POD_REJECTED
    return f"answered {answered} containers for a request of 1: {consequence}"


def options_outcome(options: PluginOptions) -> str:
    """Return which optional calls the plugin is sent."""
    wanted = (("PreStartContainer", options.pre_start), ("GetPreferredAllocation", options.preferred))
    calls = [name for name, flag in wanted if flag]
    return f"it is sent {' and '.join(calls)}" if calls else "it is sent no optional calls"


def claims_outcome(method: str, done: int, asked: int) -> str:
    """Return the outcome of a call for several claims."""
    verb = "unprepared" if "Unprepare" in method else "prepared"
    return f"{done} of {asked} claim{'s' * (asked != 1)} {verb}"


def preference_outcome(answer: Sequence[str], available: Collection[str], size: int) -> str:
    """Return what of a preference can be followed: ids that were offered, up to `size`."""
    offered = set(available)
    ignored = [id for id in dict.fromkeys(answer) if id not in offered]
    usable = len(set(answer) & offered)
    words = f"answered {usable} of the offered devices for a size of {size}"
    if usable < size:
        words += ": the node adds the rest"
    elif usable > size:
        words += ": the first ones are used"
    return f"{words}; ignored, since they were not offered: {_named(ignored)}" if ignored else words


def _named(ids: Sequence[str]) -> str:
    return listed([id[:64] for id in ids], NAMED)
