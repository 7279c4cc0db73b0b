"""`nodeplane devices --patched | --published | --explain DEVICE`: DRA devices and their patches, by an API or files."""

import argparse
import sys
from contextlib import suppress
from pathlib import Path

from protocols.dra.patching.types import Gates
from protocols.errors import SettingsInvalid
from protocols.kube.meta import Object
from protocols.process.settings import load_settings
from supervisor.base.errors import NotRunning, Usage
from supervisor.base.terminal import print_json, show
from supervisor.base.values import feature_gates
from supervisor.cli.flags import layout_from
from supervisor.dra.show import explained, fault_lines, patched_table, published_table
from supervisor.dra.snapshot import DeviceSnapshot, Placement, check_kind, placements, snapshot_of
from supervisor.dra.sources import read_api, read_objects

CLAIMS = ("ResourceClaim", "ResourceClaimTemplate")


def show_dra_devices(args: argparse.Namespace) -> int:
    objects = _objects(args)
    snapshot = snapshot_of(objects, _gates(args))
    claims = read_objects(args.claim or [])
    for claim in claims:
        if claim.get("kind") not in CLAIMS:
            raise Usage(f"--claim takes {' and '.join(CLAIMS)}, not {claim.get('kind')}")
    for line in [*snapshot.unreadable, *fault_lines(snapshot.faults())]:
        print(line, file=sys.stderr)
    if claims:
        return _show_claims(args, placements(snapshot.tracker, claims))
    return _show(args, snapshot)


def _objects(args: argparse.Namespace) -> list[Object]:
    if args.slices or args.patches:
        if args.kubeconfig:
            raise Usage("--slices and --patches are read from files, --kubeconfig asks an API: give one of them")
        found = read_objects([*(args.slices or ()), *(args.patches or ())])
        for obj in found:
            check_kind(obj)
        return found
    path = Path(args.kubeconfig) if args.kubeconfig else layout_from(args).kubeconfig
    if not args.kubeconfig and not path.exists():
        raise NotRunning(f"no plane has run below {path.parent}; start it with `nodeplane up`, or give --kubeconfig")
    return read_api(path)


def _gates(args: argparse.Namespace) -> Gates:
    """Return the feature gates: those of the flags, else those of the plane."""
    gates = feature_gates(args.feature_gates)
    if not gates and not (args.slices or args.patches or args.kubeconfig):
        with suppress(SettingsInvalid):
            gates = load_settings(layout_from(args).settings).feature_gates
    return Gates(gates.get("DRAAdminControlledDeviceAttributes", True), gates.get("DRADeviceTaints", True))


def _show(args: argparse.Namespace, snapshot: DeviceSnapshot) -> int:
    found = snapshot.as_published() if args.published else snapshot.explanations(args.explain or "")
    if args.explain and not found:
        raise Usage(f"no device is called {args.explain!r}; `nodeplane devices --published` lists them")
    if args.output == "json":
        print_json(found)
    elif args.explain:
        print("\n\n".join(map(explained, found)))
    elif found:
        show(published_table(found) if args.published else patched_table(found))
    else:
        print("no driver has published a device")
    return 0


def _show_claims(args: argparse.Namespace, found: list[Placement]) -> int:
    """Print where each claim fits; return 0 if every claim fits somewhere."""
    if args.output == "json":
        print_json(found)
    else:
        for each in found:
            print(f"{each.claim} on {each.node}: {_given(each.allocation) if each.allocation else each.why}")
    fit = {each.claim for each in found if each.allocation}
    return 0 if fit == {each.claim for each in found} else 1


def _given(allocation: Object) -> str:
    results = allocation["devices"]["results"]
    return ", ".join(f"{each['request']} = {each['driver']}/{each['pool']}/{each['device']}" for each in results)
