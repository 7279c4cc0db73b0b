"""`nodeplane devices --patched | --published | --explain DEVICE`: DRA devices with their patches, from an API or from
files."""

import argparse
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from protocols.dra.patching.types import Gates
from protocols.errors import SettingsInvalid
from protocols.process.settings import load_settings
from supervisor.base.errors import NotRunning, Usage
from supervisor.base.values import feature_gates
from supervisor.cli.flags import layout_from
from supervisor.client.tables import print_json
from supervisor.dra.show import explained, fault_lines, patched_table, published_table
from supervisor.dra.sources import read_api, read_objects
from supervisor.dra.world import Placement, World, known_kinds, placements, world_of

CLAIMS = ("ResourceClaim", "ResourceClaimTemplate")
Obj = dict[str, Any]


def show_dra_devices(args: argparse.Namespace) -> int:
    objects = _objects(args)
    world = world_of(objects, _gates(args))
    claims = read_objects(args.claim or [])
    for claim in claims:
        if claim.get("kind") not in CLAIMS:
            raise Usage(f"--claim takes {' and '.join(CLAIMS)}, not {claim.get('kind')}")
    for line in [*world.unreadable, *fault_lines(world.faults())]:
        print(line, file=sys.stderr)
    if claims:
        return _show_claims(args, placements(world.tracker, claims))
    return _show(args, world)


def _objects(args: argparse.Namespace) -> list[Obj]:
    if args.slices or args.patches:
        if args.kubeconfig:
            raise Usage("--slices and --patches are read from files, --kubeconfig asks an API: give one of them")
        found = read_objects([*(args.slices or ()), *(args.patches or ())])
        for obj in found:
            known_kinds(obj)
        return found
    path = Path(args.kubeconfig) if args.kubeconfig else layout_from(args).kubeconfig
    if not args.kubeconfig and not path.exists():
        raise NotRunning(f"no plane has run below {path.parent}; start it with `nodeplane up`, or give --kubeconfig")
    return read_api(path)


def _gates(args: argparse.Namespace) -> Gates:
    """Those of the plane that is asked, unless the flags say otherwise."""
    gates = feature_gates(args.feature_gates)
    if not gates and not (args.slices or args.patches or args.kubeconfig):
        with suppress(SettingsInvalid):
            gates = load_settings(layout_from(args).settings).feature_gates
    return Gates(gates.get("DRAAdminControlledDeviceAttributes", True), gates.get("DRADeviceTaints", True))


def _show(args: argparse.Namespace, world: World) -> int:
    found = world.as_published() if args.published else world.explanations(args.explain or "")
    if args.explain and not found:
        raise Usage(f"no device is called {args.explain!r}; `nodeplane devices --published` lists them")
    if args.output == "json":
        _json(found)
    elif args.explain:
        print("\n\n".join(map(explained, found)))
    elif found:
        print(published_table(found) if args.published else patched_table(found))
    else:
        print("no driver has published a device")
    return 0


def _show_claims(args: argparse.Namespace, found: list[Placement]) -> int:
    """0 if every claim fits somewhere."""
    if args.output == "json":
        _json(found)
    else:
        for each in found:
            print(f"{each.claim} on {each.node}: {_given(each.allocation) if each.allocation else each.why}")
    fit = {each.claim for each in found if each.allocation}
    return 0 if fit == {each.claim for each in found} else 1


def _given(allocation: Obj) -> str:
    results = allocation["devices"]["results"]
    return ", ".join(f"{each['request']} = {each['driver']}/{each['pool']}/{each['device']}" for each in results)


def _json(found: Any) -> None:
    print_json(found)
