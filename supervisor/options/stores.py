"""What `--store` and the flags for etcd say, as settings. Pure."""

import os
import re
from collections.abc import Iterable

from protocols.kube.resources import ALL
from protocols.settings import EtcdFiles, Store
from supervisor.errors import Usage

ENDPOINT = re.compile(r"[^\s,/:\[\]]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5}")
SCHEME = "etcd://"
EMBEDDED = "sqlite"
NAMES = {f"{row.group}/{row.plural}" if row.group else row.plural: row.qualified for row in ALL}
"""How people name a resource here, as in upstream's `--etcd-servers-overrides`: `events`, `group/resource`."""


def stores(values: Iterable[str], socket: str) -> tuple[Store, ...]:
    """The main store, then the others; `socket` is the embedded one's. Raises Usage."""
    main: list[Store] = []
    others: dict[Store, list[str]] = {}
    for value in values:
        names, sign, where = value.rpartition("=")
        store = _store(where, value, socket)
        if sign:
            others.setdefault(store, []).extend(_resource(name) for name in names.split(","))
        else:
            main.append(store)
    if len(main) > 1:
        raise Usage("--store is given more than once for everything; others must name resources: --store events=...")
    named = [name for names in others.values() for name in names]
    twice = next((name for name in named if named.count(name) > 1), "")
    if twice:
        raise Usage(f"--store names {twice} more than once")
    splits = (Store(endpoints=s.endpoints, embedded=s.embedded, resources=tuple(n)) for s, n in others.items())
    return (*(main or [_store(EMBEDDED, EMBEDDED, socket)]), *splits)


def etcd_files(ca: str, cert: str, key: str, external: bool) -> EtcdFiles:
    """Raises Usage for files that make no sense together or cannot be read."""
    given = {"--etcd-cafile": ca, "--etcd-certfile": cert, "--etcd-keyfile": key}
    if not any(given.values()):
        return EtcdFiles()
    if not external:
        raise Usage(f"{', '.join(flag for flag, path in given.items() if path)}: no --store is an etcd; name one")
    if bool(cert) != bool(key):
        raise Usage("--etcd-certfile and --etcd-keyfile go together; give both or none")
    if not ca:
        raise Usage("--etcd-certfile needs --etcd-cafile: without it the connection is not TLS")
    return EtcdFiles(
        **{flag.removeprefix("--etcd-").removesuffix("file"): _readable(flag, p) for flag, p in given.items()}
    )


def _readable(flag: str, path: str) -> str:
    if not path:
        return ""
    absolute = os.path.abspath(os.path.expanduser(path))
    try:
        with open(absolute, "rb") as file:
            head = file.read(11)
    except OSError as error:
        raise Usage(f"{flag} {path}: {error.strerror}") from None
    if head != b"-----BEGIN ":
        raise Usage(f"{flag} {path} is no PEM file")
    return absolute


def _store(where: str, whole: str, socket: str) -> Store:
    if where == EMBEDDED:
        return Store(endpoints=(f"unix:{socket}",), embedded=True)
    if not where.startswith(SCHEME):
        raise Usage(f"--store {whole!r} is no store; use sqlite or etcd://HOST:PORT[,HOST:PORT...]")
    targets = tuple(where.removeprefix(SCHEME).rstrip("/").split(","))
    for target in targets:
        if not ENDPOINT.fullmatch(target) or int(target.rpartition(":")[2]) > 65535:
            raise Usage(f"--store: {target!r} is no HOST:PORT")
    return Store(endpoints=targets)


def _resource(name: str) -> str:
    found = NAMES.get(name.removeprefix("/"))
    if found is None:
        raise Usage(f"--store {name}=...: no resource is called {name!r}; there are {', '.join(NAMES)}")
    return found
