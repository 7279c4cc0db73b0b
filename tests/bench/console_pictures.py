"""Draw docs/pictures/*.svg: screens of `nodeplane console` over a plane of its own that does something.

`make pictures` runs it; it takes two minutes.
"""

import asyncio
import itertools
import json
import re
import subprocess
import sys
import threading
from typing import NamedTuple

from textual.pilot import Pilot

from protocols.process.layout import layout
from supervisor.console.app import Console
from tests.support.plane import REPO, Plane
from tests.support.svg import self_contained

PICTURES = REPO / "docs" / "pictures"
SIZE = (100, 26)
DEVICE, DRIVER = "example.com/gpu", "gpu.example.com"
WARM_S = 75.0
"""Time in which plots get something to show."""
COMMENT = re.compile(r"<!--.*?-->\s*", re.DOTALL)
WHERE = re.compile(r"/tmp/np\w+")
SHOWN_ROOT = "/var/lib/nodeplane"
"""Stands where the plane's own root stood."""


class Shot(NamedTuple):
    """One picture: its name, its title, and the keys that lead to it from any screen."""

    name: str
    title: str
    keys: tuple[str, ...]
    wait_s: float = 2.0


LATEST = "worker-9"
"""A pod of which all processes retain the steps."""
SHOTS = (
    Shot("trace", "A pod's life as a trace", ("3", "slash", *LATEST, "enter", "enter", "t"), 5.0),
    Shot("devices", "Devices by resource and NUMA node, one of them broken", ("escape", "escape", "escape", "2")),
    Shot("pods", "Pods with their devices", ("3",)),
    Shot("watch", "Watches resume at the other API process", ("4",), 12.0),
    Shot("pleg", "Lifecycle events and the time until they are in the status", ("5",)),
    Shot("timeline", "Fifteen minutes of rates and latencies", ("6",)),
)


async def draw(plane: Plane) -> None:
    """Play a scene and take the pictures."""
    app = Console(layout(str(plane.root)))
    ended = threading.Event()
    async with app.run_test(size=SIZE) as pilot:
        load = asyncio.create_task(asyncio.to_thread(play, plane, ended))
        await asyncio.sleep(WARM_S)
        await app.feed.supervisors.order("pleg", "kill")
        await pilot.press("down", "down", "right")
        await asyncio.sleep(1.2)
        save(app, "house", "The house: every process a box, every stream an arrow; pleg was killed a second ago")
        await asyncio.to_thread(plane.apply, pod(LATEST, 1, "sleep 1000"))
        await asyncio.to_thread(plane.pod_ready, LATEST)
        for shot in SHOTS:
            if shot.name == "watch":
                await app.feed.supervisors.order("apiserver-1", "kill")
            await _take(app, pilot, shot)
        ended.set()
        await load


async def _take(app: Console, pilot: Pilot[None], shot: Shot) -> None:
    for key in shot.keys:
        await pilot.press(key)
        await asyncio.sleep(0.3)
    await asyncio.sleep(shot.wait_s)
    save(app, shot.name, shot.title)


def save(app: Console, name: str, title: str) -> None:
    """Write a picture that loads nothing from elsewhere."""
    picture = COMMENT.sub("", self_contained(app.export_screenshot(title="nodeplane console")))
    picture = WHERE.sub(SHOWN_ROOT, picture)
    head, _, rest = picture.partition(">")
    lines = (line.rstrip() for line in f"{head}><title>{title}</title>{rest}".splitlines())
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / f"{name}.svg").write_text("\n".join(lines) + "\n")


def play(plane: Plane, ended: threading.Event) -> None:
    """Run pods with devices, break one, and let others come and go until it ends."""
    for number in range(4):
        plane.apply(pod(f"worker-{number}", 2, "sleep 1000"))
    plane.apply(REPO / "examples" / "gpu-claim.yaml")
    plane.apply(pod("crasher", 0, "sleep 2; exit 3"))
    plane.pod_ready("worker-2")
    plane.nodeplane("chaos", "device", DEVICE, "gpu-5", "unhealthy")
    for number in itertools.count():
        if ended.is_set():
            return
        name = f"job-{number}"
        plane.apply(pod(name, 1, "sleep 3"))
        plane.pod_ready(name)
        plane.kubectl("delete", "pod", name, "--wait=false")


def pod(name: str, devices: int, command: str) -> dict[str, object]:
    limits = {"limits": {DEVICE: devices}} if devices else {}
    main = {"name": "main", "image": "busybox", "command": ["sh", "-c", command], "resources": limits}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [main]},
    }


def main() -> int:
    with Plane("--watchers", "2") as plane:
        plane.plugin(DEVICE, devices=16, numa=2)
        driver = ["dra-driver", "--driver", DRIVER, "--devices", "8", "--root", str(plane.root)]
        process = subprocess.Popen([sys.executable, "-m", "supervisor.cli.main", *driver], stdout=subprocess.DEVNULL)
        try:
            plane.settled()
            asyncio.run(draw(plane))
        finally:
            process.terminate()
            process.wait(20)
    print(json.dumps(sorted(path.name for path in PICTURES.glob("*.svg"))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
