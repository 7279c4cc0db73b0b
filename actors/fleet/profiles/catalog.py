"""Find a profile: one that nodeplane brings along, or a file, and check that the API accepts what it expands to."""

from collections.abc import Iterator
from pathlib import Path

from actors.fleet.profiles.expand import GroupNodes, NodeTemplate, node_counts, pool_slices
from actors.fleet.profiles.profile import Profile, read_profile
from protocols.kinds.check.causes import Cause
from protocols.kinds.check.metadata import annotations
from protocols.kinds.check.values import labels
from protocols.kinds.core.node_rules import NodeStrategy
from protocols.kinds.dra.slices import slice_causes
from protocols.kube.meta import Object
from protocols.process.scripts import ScriptInvalid


def builtin_files(module: str) -> dict[str, Path]:
    """Return the YAML files in the folder `builtin` beside a module, by their names without the suffix."""
    return {path.stem: path for path in sorted(Path(module).with_name("builtin").glob("*.yaml"))}


def builtin_profiles() -> dict[str, Path]:
    """Return the profiles that come along, by name."""
    return builtin_files(__file__)


def find_profile(text: str, nodes: int | None = None) -> Profile:
    """Read the profile of this name or path, and check it for a number of nodes. Raises ScriptInvalid."""
    profiles = builtin_profiles()
    path = profiles.get(text, Path(text))
    if not path.is_file():
        raise ScriptInvalid(f"{text!r} is neither a file nor a profile; there are {', '.join(profiles)}")
    profile = read_profile(path)
    check_profile(profile, nodes)
    return profile


def check_profile(profile: Profile, nodes: int | None = None) -> None:
    """Check the first and the last node of each group, and the pools. Raises ScriptInvalid."""
    for spec in pool_slices(profile):
        _reject(profile, f"pool {spec['pool']['name']}", slice_causes(spec))
    for group, count in zip(profile.groups, node_counts(profile, nodes), strict=True):
        group_nodes = GroupNodes(group)
        for index in sorted({0, max(count - 1, 0)}):
            _check_node(profile, group_nodes.node(index))


def _check_node(profile: Profile, node: NodeTemplate) -> None:
    _reject(profile, f"node {node.name}", list(_node_causes(node)))
    for driver in node.drivers:
        for spec in driver.slices:
            _reject(profile, f"node {node.name}, driver {driver.driver}", slice_causes(spec))


def _node_causes(node: NodeTemplate) -> Iterator[Cause]:
    causes: list[Cause] = []
    labels("labels", dict(node.labels), causes)
    annotations("annotations", dict(node.annotations), causes)
    yield from causes
    status = {"capacity": node.capacity, "allocatable": node.allocatable}
    body: Object = {"metadata": {"name": node.name}, "spec": {"taints": list(node.taints)}, "status": status}
    yield from NodeStrategy().validate_create(body)


def _reject(profile: Profile, place: str, causes: list[Cause]) -> None:
    if causes:
        raise ScriptInvalid(f"profile {profile.name}, {place}: {causes[0].field}: {causes[0].message}")
