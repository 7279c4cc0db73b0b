"""Libraries that an actor loads when it starts; all others are imported when they are first used.

The forkserver imports every actor before the first one starts: a library more is later by its import for all of them.
"""

import json
import subprocess
import sys

from tests.unit.house.test_imports import ACTORS, ROOT

GRPC = {"grpc", "google.protobuf"}
LOADED = {
    "adopt": GRPC,
    "apiserver": {*GRPC, "aiohttp", "jsonpatch"},
    "cel": {"google.protobuf"},
    "controllers": {"google.protobuf"},
    "cri": GRPC,
    "devices": GRPC,
    "fleet": set[str](),
    "frontdoor": {*GRPC, "xxhash"},
    "health": set[str](),
    "otlp": set[str](),
    "pleg": {"google.protobuf"},
    "podworker": {"aiohttp", "google.protobuf"},
    "recorder": set[str](),
    "runtime": {"google.protobuf"},
    "scheduler": {"google.protobuf"},
    "simulator": set[str](),
    "store": {*GRPC, "sqlite3"},
    "watchcache": GRPC,
}
HEAVY = sorted(
    {"cel_expr_python", "cryptography", "jwt", "multiprocessing", "opentelemetry", "re2", "rich", "textual", "yaml"}
    | set().union(*LOADED.values())
)
CODE = """
import importlib, json, os, sys
import protocols.actor
loaded = {}
for actor in json.loads(sys.argv[1]):
    receiver, sender = os.pipe()
    if os.fork() == 0:
        importlib.import_module(f"actors.{actor}.actor")
        os.write(sender, json.dumps([name for name in json.loads(sys.argv[2]) if name in sys.modules]).encode())
        os._exit(0)
    os.close(sender)
    with os.fdopen(receiver) as answer:
        loaded[actor] = json.load(answer)
print(json.dumps(loaded))
"""


def test_actors_load_these_libraries_only() -> None:
    words = [sys.executable, "-c", CODE, json.dumps(ACTORS), json.dumps(HEAVY)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=300)
    assert {actor: set(names) for actor, names in json.loads(done.stdout).items()} == LOADED


DATACLASSES = {
    "actors/devices/plugins/connections.py",
    "actors/frontdoor/pod_resources_api.py",
    "actors/scheduler/model/views.py",
    "protocols/dra/allocator/types.py",
    "protocols/kinds/custom/definitions/names.py",
    "protocols/kinds/custom/schema/node.py",
}
"""Files with classes that a msgspec struct cannot express: cached properties, fields set after construction."""


def test_other_records_are_structs() -> None:
    """A dataclass compiles its methods at import, for half a millisecond; a struct takes a fiftieth."""
    files = [path for root in ("actors", "protocols") for path in (ROOT / root).rglob("*.py")]
    found = {str(path.relative_to(ROOT)) for path in files if "\n@dataclass" in path.read_text()}
    assert {name for name in found if not name.startswith("actors/simulator/")} == DATACLASSES


def test_controllers_of_kinds_that_nobody_uses_are_not_imported() -> None:
    late = [f"actors.controllers.{name}" for name in ("policies.running", "services.controller", "workloads.running")]
    code = f"import sys, actors.controllers.actor; print([name for name in {late} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.strip() == "[]"
