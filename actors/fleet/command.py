"""The orders of `nodeplane fleet`."""

import argparse
import asyncio
import math
import sys
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from actors.fleet.faults.control import socket_path
from actors.fleet.faults.live import LiveFleet
from actors.fleet.profiles.catalog import builtin_profiles, find_profile
from actors.fleet.profiles.expand import expand, pool_slices
from actors.fleet.profiles.record import profile_text, record
from actors.fleet.shell.fleet import Fleet, FleetOptions
from actors.fleet.workload.figures import ScenarioFigures, table
from actors.fleet.workload.runner import RunnerOptions, ScenarioRunner
from actors.fleet.workload.scenario import Scenario, builtin_scenarios, find_scenario
from protocols.kinds import views
from protocols.kinds.table import DEVICECLASSES, DEVICETAINTRULES, LEASES, NAMESPACES, NODES, RESOURCESLICES, Resource
from protocols.kube.errors import ApiAway, suppress_status
from protocols.kube.meta import Object, labels_of, name_of
from protocols.kube.objects import text
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.kubeconfig import client_options
from protocols.lifecycle.node.lease import NAMESPACE
from protocols.messages.fleet import FLEET
from protocols.process.layout import Layout
from protocols.process.sockets import answers
from protocols.process.tasks import awaited, cancel, signalled

USER_AGENT = "nodeplane-fleet"
PROGRESS_S = 10.0
LIST_S = 60.0
"""Deadline of a list of all nodes or slices."""
REFUSED_S = 2.0
"""Time for which the API may refuse the connections of an order that is done at once."""


@asynccontextmanager
async def api(args: argparse.Namespace, layout: Layout, refused_s: float = math.inf) -> AsyncIterator[ApiClient]:
    """Yield a client of the API that the flags name. Raises KubeconfigUnusable, ApiAway."""
    with client_options(args.kubeconfig or layout.kubeconfig, USER_AGENT) as access:
        client = ApiClient(msgspec.structs.replace(access, refused_s=refused_s))
        await client.start()
        try:
            yield client
        except ApiAway as error:
            raise ApiAway(f"the API at {access.server} does not answer: {error}; is its plane running?") from None
        finally:
            await client.close()


async def run_fleet(args: argparse.Namespace, layout: Layout) -> int:
    """Simulate until a signal, or until the scenario has been played."""
    script = None if args.what in builtin_profiles() else find_scenario(args.what)
    scenario = script.scenario if script is not None else None
    nodes = args.nodes if args.nodes is not None or scenario is None else scenario.nodes
    profile = find_profile(args.what if script is None else script.profile, nodes)
    options = FleetOptions(
        name=args.name,
        templates=tuple(expand(profile, nodes)),
        start_s=float(profile.start),
        attach_s=float(profile.attach),
        pools=tuple(pool_slices(profile)),
    )
    async with api(args, layout) as client:
        fleet = Fleet(client, options)
        async with LiveFleet(fleet, layout, args, _say) as live:
            await _run(live, lambda: _scenario(fleet, scenario, args, layout))
        if scenario is None:
            _say(f"stopped; its nodes stay until `nodeplane fleet delete --name {args.name}`")
    return 0


async def _run(fleet: LiveFleet, then: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    """Register the nodes, do what comes then, and go on until a signal if that returns True."""
    running, ended = awaited(fleet.run()), awaited(signalled())
    work = awaited(then())
    try:
        await asyncio.wait((running, work, ended), return_when=asyncio.FIRST_COMPLETED)
        if work.done() and work.result():
            await asyncio.wait((running, ended), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        await cancel(work)  # a scenario deletes its pods, which end only while the fleet runs
        await cancel(running, ended)


async def _scenario(fleet: Fleet, scenario: Scenario | None, args: argparse.Namespace, layout: Layout) -> bool:
    """Wait for the nodes, then play the scenario. Return True without one."""
    began = time.monotonic()
    while not await fleet.registry.wait_ready(PROGRESS_S):
        _say(fleet.registry.progress())
    took = time.monotonic() - began
    _say(f"{len(fleet.nodes)} nodes registered in {took:.1f} s")
    if scenario is None:
        if count := fleet.registry.left_over:
            mend = f"`nodeplane fleet delete --name {args.name}` removes all nodes, those of this run too"
            _say(f"{count} more nodes of an earlier run are not simulated, and pods on them wait; {mend}")
        return True
    await _delete(fleet.client, args.name, fleet.nodes)  # else pods go to nodes of an earlier run that nobody plays
    pid = 0 if args.kubeconfig else _supervisor(layout)
    options = RunnerOptions(name=args.name, supervisor=pid, processes=frozenset(args.cpu))
    runner = ScenarioRunner(fleet, scenario, options, _say)
    try:
        phases = await runner.run()
    finally:
        await runner.clean()
        await _delete(fleet.client, args.name)
    figures = ScenarioFigures(args.what, len(fleet.nodes), took, phases)
    print(msgspec.json.encode(figures).decode() if args.output == "json" else "\n".join(table(figures)), flush=True)
    return False


def _supervisor(layout: Layout) -> int:
    """Return the process id of the plane's supervisor, 0 if it does not run."""
    try:
        return int((layout.run / "supervisor.pid").read_text())
    except (OSError, ValueError):
        return 0


async def record_profile(args: argparse.Namespace, layout: Layout) -> int:
    """Print the profile of the nodes and slices that the API has."""
    async with api(args, layout, REFUSED_S) as client:
        selector = args.selector
        nodes = await client.list(NODES, label_selector=selector, timeout=LIST_S)
        slices = await client.list(RESOURCESLICES, timeout=LIST_S)
    profile = record(nodes.get("items") or [], _drained(slices.get("items") or []), args.anonymous)
    print(profile_text(profile), end="")
    return 0


def _drained(items: list[views.ResourceSlice]) -> Iterator[views.ResourceSlice]:
    """Yield the items in order and forget each: there may be tens of thousands, and their reader copies them."""
    items.reverse()
    while items:
        yield items.pop()


async def delete_fleet(args: argparse.Namespace, layout: Layout) -> int:
    """Delete the nodes of a fleet, their slices and leases."""
    async with api(args, layout, REFUSED_S) as client:
        count = await _delete(client, args.name)
    _say(f"deleted {count} nodes of fleet {args.name}, and their slices and leases")
    if answers(socket_path(layout, args.name)):
        _say(f"a run of fleet {args.name} goes on without its nodes; stop it, as it does not register them again")
    return 0


OF_SCENARIOS = (DEVICETAINTRULES, DEVICECLASSES, NAMESPACES)
"""Objects of scenarios; those of one that was killed stay."""
DELETERS = 32
"""Deletions at once: the deadline of each begins with it, and a fleet may have sixty thousand."""


async def _delete(client: ApiClient, name: str, kept: Collection[str] = ()) -> int:
    """Delete the objects of a fleet and its scenarios but the nodes `kept`; return the number of nodes deleted.

    Pods on them are the garbage collector's.
    """
    nodes = [obj for obj in await _listed(client, NODES, name) if name_of(obj) not in kept]
    slices = await _listed(client, RESOURCESLICES, name) if nodes or not kept else []
    others: list[tuple[Resource, list[Object]]] = []
    for resource in OF_SCENARIOS:
        with suppress_status(403, 404):  # this API, or its user, does not have them
            others.append((resource, await _listed(client, resource, name)))
    targets = [(resource, name_of(obj), "") for resource, objects in others for obj in objects]
    gone = [obj for obj in slices if not kept or text(obj, "spec", "nodeName") not in {"", *kept}]
    targets += [(RESOURCESLICES, name_of(obj), "") for obj in gone]
    targets += [(NODES, name_of(obj), "") for obj in nodes]
    targets += [(LEASES, name_of(obj), NAMESPACE) for obj in nodes]
    left = iter(targets)

    async def delete_some() -> None:
        for resource, name, namespace in left:
            with suppress_status(404, 409):  # a namespace may be ending
                await client.delete(resource, name, namespace)

    await asyncio.gather(*(delete_some() for _ in range(DELETERS)))
    return len(nodes)


async def _listed(client: ApiClient, resource: Resource, name: str) -> list[Object]:
    found = await client.list(resource, label_selector=f"{FLEET}={name}", timeout=LIST_S)
    return [obj for obj in found.get("items") or () if labels_of(obj).get(FLEET) == name]


def list_profiles() -> int:
    """Print the names that `run` knows."""
    print("profiles:  " + " ".join(builtin_profiles()))
    print("scenarios: " + " ".join(builtin_scenarios()))
    return 0


def _say(text: str) -> None:
    """Print progress to standard error: with -o json, standard output has the figures alone."""
    print(text, file=sys.stderr, flush=True)
