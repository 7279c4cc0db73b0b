"""The orders of `nodeplane fleet`."""

import argparse
import asyncio
import signal
import time
from pathlib import Path

from actors.fleet.profiles.expand import expand
from actors.fleet.profiles.profile import read_profile
from actors.fleet.shell.fleet import Fleet, FleetOptions
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.kubeconfig import client_options
from protocols.process.layout import Layout
from protocols.process.tasks import awaited, cancel

USER_AGENT = "nodeplane-fleet"


async def run_fleet(args: argparse.Namespace, layout: Layout) -> int:
    profile = read_profile(Path(args.profile))
    options = FleetOptions(name=args.name, templates=tuple(expand(profile, args.nodes)), start_s=float(profile.start))
    with client_options(args.kubeconfig or layout.kubeconfig, USER_AGENT) as access:
        client = ApiClient(access)
        await client.start()
        try:
            return await _run(Fleet(client, options))
        finally:
            await client.close()


async def _run(fleet: Fleet) -> int:
    running, ready, ended = awaited(fleet.run()), awaited(fleet.registry.ready.wait()), awaited(_signalled())
    began = time.monotonic()
    try:
        await asyncio.wait((running, ready, ended), return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            print(f"{len(fleet.nodes)} nodes registered in {time.monotonic() - began:.1f} s", flush=True)
            await asyncio.wait((running, ended), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        await cancel(running, ready, ended)
    return 0


async def _signalled() -> None:
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await ended.wait()
