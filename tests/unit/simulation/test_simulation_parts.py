import sys
from types import FrameType

from tests.simulation.parts import ROOT, part_of

LIBRARY = "/usr/lib/python3.11/json/encoder.py"
AIOHTTP = f"{ROOT}.venv/lib/python3.11/site-packages/aiohttp/client.py"


def frame_of(*files: str) -> FrameType:
    """Return the innermost frame of calls through these files, the outermost first."""
    names: dict[str, object] = {"frame": sys._getframe, "call": lambda: sys._getframe(1)}
    for file in reversed(files):
        exec(compile("def call(inner=call):\n    return inner()", file, "exec"), names)
    found = names["call"]
    assert callable(found)
    frame = found()
    assert isinstance(frame, FrameType)
    return frame


def test_code_of_the_project_is_the_part_of_its_folder() -> None:
    assert part_of(frame_of(f"{ROOT}tests/x.py", f"{ROOT}actors/store/x.py")) == "store"
    assert part_of(frame_of(f"{ROOT}actors/pleg/x.py")) == "node's actors"
    assert part_of(frame_of(f"{ROOT}protocols/kube/x.py")) == "other protocols"


def test_libraries_that_are_no_part_count_for_their_caller() -> None:
    assert part_of(frame_of(f"{ROOT}protocols/bus/x.py", LIBRARY)) == "bus"
    assert part_of(frame_of(f"{ROOT}protocols/bus/x.py", AIOHTTP, LIBRARY)) == "aiohttp"
