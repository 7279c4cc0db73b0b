"""The User-Agent names the part of a process that makes a request."""

import asyncio

from protocols.kubeclient.part import acting_as, user_agent


def test_part_names_requests_of_its_task_and_of_those_it_starts() -> None:
    async def requests() -> dict[str, str]:
        seen: dict[str, str] = {}

        async def inner() -> None:
            seen["inner"] = user_agent("nodeplane")

        async def run() -> None:
            seen["part"] = user_agent("nodeplane")
            await asyncio.create_task(inner())

        await asyncio.create_task(acting_as("job-controller", run))
        return {**seen, "outside": user_agent("nodeplane")}

    named = "nodeplane/job-controller"
    assert asyncio.run(requests()) == {"part": named, "inner": named, "outside": "nodeplane"}
