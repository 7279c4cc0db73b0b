"""Go's client-go informers, unmodified, in programs of somebody else's: the typed shared informers of traefik and the
dynamic one of `kubectl wait`. They live through kill -9 of every process between them and the store: they never list,
and each change is sent to them once."""

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from protocols.bus import BusError
from tests.support.apiserver_plane import Plane, running_plane

TRAEFIK = Path(sys.executable).parent / "traefik"
KINDS = ("secrets", "configmaps", "namespaces")
"""Of those it follows, what is served here; of the others it says that they are not."""
TYPED = ("Secret", "ConfigMap", "Namespace")
COUNT = re.compile(r"^(\w+)\{([^}]*)\} (\S+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with running_plane() as started:
        started.spawn("apiserver-1")
        until("two of them", lambda: "apiserver-1" in telling(started))
        yield started


def until(what: str, true: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"{what} did not come about"
        time.sleep(0.05)


def telling(plane: Plane) -> dict[str, str]:
    """The metrics of those API servers that answer."""
    found = {}
    for instance in ("apiserver-0", "apiserver-1"):
        with suppress(BusError):
            found[instance] = asyncio.run(plane.metrics(instance))
    return found


def count(plane: Plane, metric: str, **labels: str) -> int:
    """Summed over the processes and over the kinds of KINDS, unless `labels` name one."""
    wanted = {f'{key}="{value}"' for key, value in labels.items()}
    total = 0.0
    for text in telling(plane).values():
        for name, pairs, value in COUNT.findall(text):
            held = set(pairs.split(","))
            if name == metric and wanted <= held and any(f'resource="{kind}"' in held for kind in KINDS):
                total += float(value)
    return int(total)


@contextmanager
def traefik(plane: Plane) -> Iterator[Path]:
    log = plane.root / "traefik.log"
    flags = ["--providers.kubernetesgateway=true", f"--providers.kubernetesgateway.endpoint={plane.url}"]
    flags += ["--entrypoints.web.address=127.0.0.1:0", "--global.checknewversion=false", "--log.level=ERROR"]
    environment = {**plane.environment, "KUBECONFIG": str(plane.root / "kubeconfig")}
    with log.open("w") as out:
        process = subprocess.Popen([str(TRAEFIK), *flags], env=environment, stdout=out, stderr=out)
        try:
            yield log
            assert process.poll() is None, log.read_text()[-2000:]
        finally:
            process.kill()
            process.wait(10)


@pytest.mark.skipif(not TRAEFIK.exists(), reason="traefik is not installed: run sh tests/setup.sh")
def test_typed_informers_never_list(plane: Plane) -> None:
    with traefik(plane) as log:
        until("a watch of each", lambda: watched(plane) == len(KINDS))
        for victim in ("apiserver-0", "apiserver-1", "watchcache", "apiserver-0"):
            assert count(plane, "apiserver_request_total", verb="LIST") == 0
            plane.kill(victim)
            plane.spawn(victim)
            until(f"a watch of each after {victim}", lambda: len(telling(plane)) == 2 and watched(plane) == len(KINDS))
            one_event_for_one_write(plane, f"after-{victim}-{time.monotonic_ns()}")
        assert count(plane, "apiserver_request_total", verb="LIST") == 0
        told = log.read_text()
        assert not [kind for kind in TYPED if f"*v1.{kind}:" in told], told[-2000:]


def one_event_for_one_write(plane: Plane, name: str) -> None:
    sent = count(plane, "apiserver_watch_events_total", resource="configmaps")
    until("a write", lambda: "created" in plane.kubectl("create", "configmap", name, check=False))
    until("its event", lambda: count(plane, "apiserver_watch_events_total", resource="configmaps") == sent + 1)


def watched(plane: Plane) -> int:
    return count(plane, "apiserver_longrunning_requests", verb="WATCH")


def test_kubectl_waits_through_the_deaths_of_both(plane: Plane) -> None:
    plane.kubectl("create", "configmap", "awaited")
    command = plane.command("wait", "--for=jsonpath={.data.done}=yes", "cm/awaited", "--timeout=20s")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=plane.environment) as waiting:
        until("its watch", lambda: watched(plane) == 1)
        opened = time.monotonic()
        until("a second of it", lambda: time.monotonic() > opened + 1)  # a shorter one counts as a failure
        for victim in ("apiserver-0", "apiserver-1"):
            plane.kill(victim)
            plane.spawn(victim)
            until("both are there", lambda: len(telling(plane)) == 2 and watched(plane) == 1)
        until("a change", lambda: "patched" in plane.kubectl(*PATCH, check=False))
        told = waiting.communicate(timeout=20)[0]
    assert (waiting.returncode, told) == (0, b"configmap/awaited condition met\n")


PATCH = ("patch", "configmap", "awaited", "--type=merge", "-p", '{"data":{"done":"yes"}}')
