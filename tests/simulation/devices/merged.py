"""What devices are like by slices, patches and rules: upstream's rules once more, in few lines and from stored objects.

It knows only the filters that the flow's users write.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from protocols.kube.meta import Object, name_of

Objects = Mapping[str, Object]
"""By name."""
COLOUR = "colour"


class Seen(NamedTuple):
    """A device as schedulers and controllers should see it."""

    colour: str
    """Empty without the attribute."""
    taints: tuple[Object, ...]


def is_red(driver: str) -> str:
    """Return the expression that filters and claims use."""
    return f'device.attributes["{driver}"].?{COLOUR}.orValue("") == "red"'


def merged(slices: Objects, patches: Objects, rules: Objects) -> dict[tuple[str, str], Seen]:
    """Return the devices of complete pools, by pool and name."""
    found = {}
    ranked = sorted(patches.values(), key=_rank)
    for spec in _complete([each["spec"] for each in slices.values()]):
        for device in spec.get("devices") or ():
            place = spec["pool"]["name"], device["name"]
            ours = [each["spec"]["devices"] for each in ranked if _applies(each, spec, device)]
            taints = [
                *_taints(device, ours),
                *(each["spec"]["taint"] for each in rules.values() if _names(each, place)),
            ]
            found[place] = Seen(_colour(device, ours, spec["driver"]), tuple(taints))
    return found


def pool_of(obj: Object) -> str | None:
    """Return the pool of a slice, or the one that a patch or a rule names; None: it concerns all."""
    spec = obj["spec"]
    if "pool" in spec:
        return str(spec["pool"]["name"])
    wanted: Object = spec["deviceSelector"] if "deviceSelector" in spec else spec["devices"]["filter"]
    return wanted.get("pool")


def _rank(patch: Object) -> tuple[int, str, str]:
    return -patch["spec"]["devices"].get("priority", 0), patch["metadata"]["creationTimestamp"], name_of(patch)


def _complete(specs: Iterable[Object]) -> Iterator[Object]:
    """Yield those of a pool's newest generation, if all of them are there."""
    pools: dict[str, list[Object]] = {}
    for spec in specs:
        pools.setdefault(spec["pool"]["name"], []).append(spec)
    for ours in pools.values():
        newest = max(each["pool"]["generation"] for each in ours)
        current = [each for each in ours if each["pool"]["generation"] == newest]
        if all(each["pool"]["resourceSliceCount"] == len(current) for each in current):
            yield from current


def _applies(patch: Object, spec: Object, device: Object) -> bool:
    wanted = patch["spec"]["devices"]["filter"]
    have = {"driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"]}
    if any(wanted.get(name, value) != value for name, value in have.items()):
        return False
    return not wanted.get("selectors") or _published(device) == "red"


def _published(device: Object) -> str:
    return str(device["attributes"][COLOUR]["string"])


def _colour(device: Object, patches: list[Object], driver: str) -> str:
    """The first patch that names it wins."""
    for patch in patches:
        if value := (patch.get("attributes") or {}).get(f"{driver}/{COLOUR}"):
            return str(value.get("string", ""))
    return _published(device)


def _taints(device: Object, patches: list[Object]) -> list[Object]:
    """Of each key and effect one: that of the first patch, or else the driver's."""
    found: dict[tuple[str, str], Object] = {}
    for taint in (taint for each in (*patches, device) for taint in each.get("taints") or ()):
        found.setdefault((taint["key"], taint["effect"]), taint)
    return list(found.values())


def _names(rule: Object, place: tuple[str, str]) -> bool:
    wanted = rule["spec"]["deviceSelector"]
    return (wanted.get("pool", place[0]), wanted.get("device", place[1])) == place
