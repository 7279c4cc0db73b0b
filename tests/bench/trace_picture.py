"""Draw docs/explanation/trace.svg: the trace of a pod with a device on a plane of its own, as a terminal shows it.

`make pictures` runs it; it takes ten seconds.
"""

import asyncio
import io
from pathlib import Path

from rich.console import Console

from protocols.process.layout import Layout
from supervisor.trace.collect import pod_trace
from supervisor.trace.draw import draw, parts, title
from tests.support.plane import REPO, Plane, until
from tests.support.svg import self_contained

PICTURE = REPO / "docs" / "explanation" / "trace.svg"
POD = REPO / "examples" / "gpu-pod.yaml"
WIDTH = 110


def picture() -> str:
    with Plane() as plane:
        plane.plugin()
        until("devices", lambda: "gpu-3" in plane.nodeplane("devices"))
        plane.apply(Path(POD))
        plane.pod_ready("gpu-pod")
        trace = asyncio.run(pod_trace(Layout(plane.root, plane.root / "kubelet"), "default", "gpu-pod"))
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    for part in parts(trace.rows):
        console.print(title(part, trace.pod), style="bold", markup=False, highlight=False)
        for line in draw(part, WIDTH):
            console.print(line)
    return self_contained(console.export_svg(title="nodeplane trace pod/gpu-pod", unique_id="trace"))


if __name__ == "__main__":
    PICTURE.write_text(picture())
