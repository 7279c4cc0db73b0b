"""The store dies again and again under writes through the API: what was acknowledged is there, a counter counts each
acknowledged step once, and an open watch tells exactly that, in order, without being sent back to list."""

import asyncio
import itertools
import json
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from tests.support.apiserver_plane import Plane, running_plane
from tests.support.waiting import until_async

ROUNDS = int(os.environ.get("NODEPLANE_CRASH_ROUNDS", "1"))
KILLS, WRITERS = 3, 4
PATH = "/api/v1/namespaces/default/configmaps"
COUNTER = "counter"
UNSURE = (500, 503, 504)
NUMBERS = itertools.count()


@dataclass
class Notes:
    created: set[str] = field(default_factory=set)
    steps: dict[int, int] = field(default_factory=dict)
    """Of each acknowledged step of the counter: its resourceVersion, and what it then stood at."""
    unsure: int = 0

    @property
    def writes(self) -> int:
        return len(self.steps) + len(self.created)


def body(name: str, count: int = 0, version: str = "") -> dict[str, Any]:
    metadata = {"name": name, **({"resourceVersion": version} if version else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"count": str(count)}}


async def write_on(http: aiohttp.ClientSession, notes: Notes, over: asyncio.Event) -> None:
    while not over.is_set():
        try:
            await (create(http, notes, f"one-{next(NUMBERS)}") if random.random() < 0.5 else step(http, notes))
        except (aiohttp.ClientError, TimeoutError):
            notes.unsure += 1


async def create(http: aiohttp.ClientSession, notes: Notes, name: str) -> None:
    async with http.post(PATH, json=body(name)) as answer:
        assert answer.status in (201, *UNSURE), await answer.text()
        if answer.status == 201:
            notes.created.add(name)


async def step(http: aiohttp.ClientSession, notes: Notes) -> None:
    """Read, add one, write if nobody was faster."""
    async with http.get(f"{PATH}/{COUNTER}") as answer:
        found = await answer.json()
    if answer.status != 200:
        return
    count = int(found["data"]["count"]) + 1
    async with http.put(f"{PATH}/{COUNTER}", json=body(COUNTER, count, found["metadata"]["resourceVersion"])) as answer:
        assert answer.status in (200, 409, *UNSURE), await answer.text()
        if answer.status == 200:
            notes.steps[int((await answer.json())["metadata"]["resourceVersion"])] = count


@asynccontextmanager
async def watching(http: aiohttp.ClientSession, version: str) -> AsyncIterator[list[dict[str, Any]]]:
    """All events of one watch that never ends."""
    events: list[dict[str, Any]] = []

    async def follow() -> None:
        async with http.get(PATH, params={"watch": "1", "resourceVersion": version}, timeout=None) as answer:
            async for line in answer.content:
                events.append(json.loads(line))
        raise AssertionError("the watch ended")

    task = asyncio.create_task(follow())
    yield events
    assert not task.done(), task.exception()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def storm(plane: Plane, notes: Notes) -> None:
    for _ in range(KILLS * ROUNDS):
        await more(notes)
        plane.kill("store")
        plane.spawn("store")
    await more(notes)


async def more(notes: Notes) -> None:
    enough = notes.writes + random.randint(40, 160)
    await until_async(f"{enough} writes", lambda: notes.writes, 90, good=lambda writes: writes >= enough)


async def story(plane: Plane) -> None:
    notes, over = Notes(), asyncio.Event()
    async with plane.client() as http:
        async with http.post(PATH, json=body(COUNTER)) as answer:
            begun = (await answer.json())["metadata"]["resourceVersion"]
        async with watching(http, begun) as events:
            writers = [asyncio.create_task(write_on(http, notes, over)) for _ in range(WRITERS)]
            await storm(plane, notes)
            over.set()
            await asyncio.gather(*writers)
            async with http.get(PATH) as answer:
                listed = await answer.json()
            await reached(events, int(listed["metadata"]["resourceVersion"]))
    judge(notes, events, {item["metadata"]["name"]: item for item in listed["items"]})


async def reached(events: list[dict[str, Any]], version: int) -> None:
    at = f"the watch at {version}"
    await until_async(at, lambda: version_of(events[-1]["object"]), good=lambda seen: seen >= version)


def version_of(obj: dict[str, Any]) -> int:
    return int(obj["metadata"]["resourceVersion"])


def judge(notes: Notes, events: list[dict[str, Any]], listed: dict[str, dict[str, Any]]) -> None:
    versions = [version_of(event["object"]) for event in events]
    assert versions == sorted(set(versions)), "an event came twice or out of order"
    counts = {
        version_of(event["object"]): int(event["object"]["data"]["count"])
        for event in events
        if event["object"]["metadata"]["name"] == COUNTER
    }
    assert list(counts.values()) == list(range(1, len(counts) + 1)), "a step was lost or done twice"
    assert notes.steps.items() <= counts.items(), "an acknowledged step is not in the history"
    assert int(listed[COUNTER]["data"]["count"]) == len(counts)
    added = {event["object"]["metadata"]["name"] for event in events if event["type"] == "ADDED"}
    assert notes.created <= listed.keys(), "an acknowledged object is lost"
    assert added == listed.keys() - {COUNTER}, "the watch and the list differ"


@pytest.mark.timeout(240 + 30 * ROUNDS)
async def test_api_writes_store_dies_lose_nothing() -> None:
    with running_plane() as plane:
        await story(plane)
