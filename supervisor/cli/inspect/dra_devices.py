"""`nodeplane devices --patched | --published | --shares | --explain DEVICE`: DRA devices of an API or of files."""

import argparse
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from protocols.cel.worker.forked import forked_selections
from protocols.dra.decode import qualified
from protocols.dra.gates import Gates, gates_of
from protocols.errors import SettingsInvalid
from protocols.kube.meta import Object
from protocols.process.settings import load_settings
from protocols.process.texts import printable
from supervisor.base.errors import NotRunning, UsageError
from supervisor.base.terminal import print_json, show
from supervisor.base.values import feature_gates
from supervisor.cli.flags import layout_from
from supervisor.client.connection import check_access
from supervisor.dra.shares import SharedDevice, shared_devices, shares_table
from supervisor.dra.show import explained, fault_lines, patched_table, published_table
from supervisor.dra.snapshot import DeviceSnapshot, Placement, check_kind, placements, snapshot_of
from supervisor.dra.sources import check_admitted, check_claim, read_api, read_objects, read_pod
from supervisor.dra.why import pod_answer
from supervisor.dra.why_text import answer_parts


def show_dra_devices(args: argparse.Namespace) -> int:
    """Run the command; CEL is evaluated in a process of its own."""
    with forked_selections():
        return _show_dra_devices(args)


def _show_dra_devices(args: argparse.Namespace) -> int:
    if args.why:
        return _show_why(args)
    objects = _objects(args)
    snapshot = snapshot_of(objects, _gates(args))
    claims = read_objects(args.claim or [])
    for claim in claims:
        check_claim(claim)
    for line in [*snapshot.unreadable, *fault_lines(snapshot.faults())]:
        print(printable(line), file=sys.stderr)
    if args.shares:
        return _show_shares(args, shared_devices(snapshot.tracker.slices(), objects))
    if claims:
        return _show_claims(args, placements(snapshot, claims))
    return _show(args, snapshot)


def _objects(args: argparse.Namespace) -> list[Object]:
    if args.slices or args.patches:
        if args.kubeconfig:
            raise UsageError("--slices and --patches are read from files, --kubeconfig asks an API: give one of them")
        if not args.slices:
            raise UsageError("--patches changes slices of files; name them with --slices")
        objects = read_objects([*(args.slices or ()), *(args.patches or ())])
        for obj in objects:
            check_kind(obj, ("ResourceClaim",) if args.shares else ())
            check_admitted(obj)
        return objects
    return read_api(_kubeconfig(args), claims=bool(args.claim or args.shares))


def _kubeconfig(args: argparse.Namespace) -> Path:
    if args.kubeconfig:
        return Path(args.kubeconfig)
    path = layout_from(args).kubeconfig
    if not path.exists():
        raise NotRunning(f"no plane has run below {path.parent}; start it with `nodeplane up`, or give --kubeconfig")
    if not os.access(path, os.R_OK, effective_ids=True):
        check_access(layout_from(args))
    return path


def _gates(args: argparse.Namespace) -> Gates:
    """Return the feature gates: those of the flags, else those of the plane."""
    gates = feature_gates(args.feature_gates)
    if not gates and not (args.slices or args.patches or args.kubeconfig):
        with suppress(SettingsInvalid):
            gates = load_settings(layout_from(args).settings).feature_gates
    return gates_of(lambda name: gates.get(name, True))


def _show(args: argparse.Namespace, snapshot: DeviceSnapshot) -> int:
    explanations = snapshot.as_published() if args.published else snapshot.explanations(args.explain or "")
    if args.explain and not explanations:
        raise UsageError(f"no device is called {args.explain!r}; `nodeplane devices --published` lists them")
    if args.output == "json":
        print_json(explanations)
    elif args.explain:
        show(*map(explained, explanations))
    elif explanations:
        show(published_table(explanations) if args.published else patched_table(explanations))
    else:
        print("no driver has published a device")
    return 0


def _show_shares(args: argparse.Namespace, found: list[SharedDevice]) -> int:
    if args.output == "json":
        print_json(found)
    elif found:
        show(shares_table(found))
    else:
        print("no driver has published a device that allows multiple allocations")
    return 0


def _show_why(args: argparse.Namespace) -> int:
    if args.slices or args.patches or args.claim:
        raise UsageError("--why asks an API about a pod; --claim with --slices shows what a claim would get")
    answer = pod_answer(*read_pod(_kubeconfig(args), args.why), _gates(args))
    if args.output == "json":
        print_json(answer)
    else:
        show(*answer_parts(answer))
    return 0


def _show_claims(args: argparse.Namespace, found: list[Placement]) -> int:
    """Print where each claim fits; return 0 if every claim fits somewhere."""
    if args.output == "json":
        print_json(found)
    else:
        for placement in found:
            given = _given(placement) if placement.allocation else placement.why
            print(printable(f"{placement.claim} on {placement.node}: {given}"))
    fit = {placement.claim for placement in found if placement.allocation}
    return 0 if fit == {placement.claim for placement in found} else 1


def _given(placement: Placement) -> str:
    results = (placement.allocation or {})["devices"]["results"]
    return ", ".join(
        f"{result['request']} = {result['driver']}/{result['pool']}/{result['device']}{_share(placement, result)}"
        for result in results
    )


def _share(placement: Placement, result: Mapping[str, Any]) -> str:
    """Return what a share consumes, and how much claims consume then of how much there is."""
    device = f"{result['driver']}/{result['pool']}/{result['device']}"
    consumed = {
        qualified(result["driver"], name): value for name, value in (result.get("consumedCapacity") or {}).items()
    }
    uses = {use.name: use for use in placement.uses.get(device, ())}
    parts = [
        f"{value} of {name}, {uses[name].used} of {uses[name].total} used" for name, value in sorted(consumed.items())
    ]
    return f" ({'; '.join(parts)})" if parts else ""
