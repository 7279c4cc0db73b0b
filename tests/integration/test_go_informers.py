"""Go's client-go informers, unmodified, in programs of somebody else's: fifteen typed ones of traefik, an ingress
controller, over built-in and custom resources, and the dynamic one of `kubectl wait`. They live through kill -9 of
every process between them and the store: they never list, and what they know follows every change."""

import asyncio
import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from protocols.bus import BusError
from tests.support import ingress
from tests.support.api_judge import Client
from tests.support.apiserver_plane import Plane, running_plane
from tests.support.waiting import until

pytestmark = pytest.mark.heavy

SERVICES = "/api/v1/namespaces/default/services"
COUNT = re.compile(r"^(\w+)\{([^}]*)\} (\S+)$", re.MULTILINE)
PATCH = ("patch", "configmap", "awaited", "--type=merge", "-p", '{"data":{"done":"yes"}}')


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """Two API servers on one store."""
    with running_plane() as started:
        started.spawn("apiserver-1")
        until("two of them", lambda: len(telling(started)) == 2)
        yield started


def telling(plane: Plane) -> dict[str, str]:
    """The metrics of those API servers that answer."""
    found = {}
    for instance in ("apiserver-0", "apiserver-1"):
        with suppress(BusError):
            found[instance] = asyncio.run(plane.metrics(instance))
    return found


def count(plane: Plane, metric: str, verb: str) -> int:
    """Summed over the processes and all resources."""
    told = [line for text in telling(plane).values() for line in COUNT.findall(text)]
    return int(sum(float(value) for name, pairs, value in told if name == metric and f'verb="{verb}"' in pairs))


def watched(plane: Plane) -> int:
    return count(plane, "apiserver_longrunning_requests", "WATCH")


def lists(plane: Plane) -> int:
    return count(plane, "apiserver_request_total", "LIST")


@pytest.mark.skipif(not ingress.PROGRAM.exists(), reason="traefik is not installed: run sh tests/setup.sh")
def test_a_controller_follows_and_never_lists(plane: Plane) -> None:
    api = Client(plane.port, plane.tls())
    for kind in ingress.KINDS:
        put(api, ingress.DEFINITIONS, ingress.definition(kind))
    put(api, SERVICES, ingress.SERVICE)
    put(api, ingress.SLICES, ingress.endpoints("first", "10.0.0.1"))
    put(api, ingress.ROUTES, ingress.ROUTE)
    with ingress.traefik(plane) as controller:
        until("its first configuration", lambda: controller.servers() == {"10.0.0.1"})
        for number, victim in enumerate(("apiserver-0", "apiserver-1", "watchcache")):
            assert lists(plane) == 0
            plane.kill(victim)
            api.renew()
            put(api, ingress.SLICES, ingress.endpoints("second", f"10.0.1.{number}"))
            until(f"what came without {victim}", lambda: len(controller.servers()) == (2 if up(plane) else 1))
            plane.spawn(victim)
            both = {"10.0.0.1", f"10.0.1.{number}"}
            until("both addresses", lambda: controller.servers() == both)  # noqa: B023 # used at once
            until("all watches", lambda: len(telling(plane)) == 2 and watched(plane) == ingress.INFORMERS)
            assert api.ask("DELETE", f"{ingress.SLICES}/second").status == 200
            until("one address", lambda: controller.servers() == {"10.0.0.1"})
        assert lists(plane) == 0
        assert "Failed to watch" not in controller.log.read_text()
    api.close()


def up(plane: Plane) -> bool:
    """Whether changes can arrive: they go through the watch cache."""
    return "watchcache" in plane.processes


def put(api: Client, path: str, body: dict[str, Any]) -> None:
    """Created, as soon as its kind is served and somebody listens; 409: it was, and the answer was lost."""

    def made() -> bool:
        try:
            answer = api.ask("POST", path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        except OSError:
            return False
        assert answer.status in (201, 404, 409, 429), answer.body
        return answer.status in (201, 409)

    until(f"POST {path}", made)


def test_kubectl_waits_through_the_deaths_of_both(plane: Plane) -> None:
    plane.kubectl("create", "configmap", "awaited")
    command = plane.command("wait", "--for=jsonpath={.data.done}=yes", "cm/awaited", "--timeout=120s")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=plane.environment) as waiting:
        until("its watch", lambda: watched(plane) == 1)
        for victim in ("apiserver-0", "apiserver-1"):
            time.sleep(1.1)  # the client counts a watch that ends within a second, with nothing told, as a failure
            plane.kill(victim)
            plane.spawn(victim)
            until("both are there", lambda: len(telling(plane)) == 2 and watched(plane) == 1)
        until("a change", lambda: "patched" in plane.kubectl(*PATCH, check=False))
        told = waiting.communicate(timeout=60)[0]
    assert (waiting.returncode, told) == (0, b"configmap/awaited condition met\n")
