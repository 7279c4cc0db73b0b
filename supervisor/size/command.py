"""`nodeplane size`: what a load needs, as tables or JSON."""

import argparse
from collections.abc import Iterator

import msgspec

from supervisor.base.terminal import Table, print_json, show
from supervisor.size.load import MEMBERS, SizeLoad, flag_of
from supervisor.size.model import leases, needs, placed, written
from supervisor.size.needs import SizeNeeds

HELPS = {
    "nodes": "nodes of the cluster",
    "pods": "pods that it holds",
    "watchers": "watches of the API that are open at once",
    "writes": "writes a second, besides the leases of nodes",
    "fan_out": "watches that each write is sent to",
    "object_bytes": "size of a pod or other object as stored",
    "objects": "stored objects besides pods and nodes",
    "devices": "devices in ResourceSlices; each placed pod then has a claim",
    "patches": "changes of ResourceSlicePatches a second, each of which applies to all devices",
    "placed": "pods placed a second; default: as many as --writes allows",
    "members": f"members of etcd, one of {', '.join(map(str, MEMBERS))}; 0 is the embedded store",
    "compaction_interval": "seconds between two compactions of etcd",
    "cores": "cores of a machine",
    "memory_gib": "memory of a machine, GiB",
    "link_gbit": "network of a machine, gigabits a second",
    "speed": "speed of a core, 1 = that of the measured costs; `nodeplane bench size` prints it",
}


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("size", help="what a load needs, from measured costs", allow_abbrev=False)
    for field in msgspec.structs.fields(SizeLoad):
        kind = int if field.type is int else float
        default = None if field.required else field.default
        shown = f" ({default:g})" if default is not None else ""
        parser.add_argument(
            flag_of(field.name), type=kind, default=default, required=field.required, metavar="N",
            help=HELPS[field.name] + shown,
        )  # fmt: skip
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    parser.set_defaults(run=size)


def size(args: argparse.Namespace) -> int:
    """Print what the load needs; return 1 if it does not fit."""
    load = SizeLoad(**{name: getattr(args, name) for name in SizeLoad.__struct_fields__})
    size_needs = needs(load)
    if args.output == "json":
        print_json(size_needs)
    else:
        show(*parts(size_needs))
    return 0 if size_needs.fits else 1


def load_table() -> list[str]:
    """Return the table of the flags in Markdown."""
    rows = [
        f"| `{flag_of(field.name)} N` | {_default(field)} | {HELPS[field.name]} |"
        for field in msgspec.structs.fields(SizeLoad)
    ]
    return ["| flag | default | meaning |", "|---|---|---|", *rows]


def _default(field: msgspec.structs.FieldInfo) -> str:
    return "required" if field.required else "" if field.default is None else f"{field.default:g}"


def parts(found: SizeNeeds) -> Iterator[Table | str]:
    """Yield the tables and lines of the answer, in the order in which they are printed."""
    yield _load_line(found.load)
    yield Table(("PROCESS", "COUNT", "CORES EACH", "CORES", "MEMORY EACH", "MEMORY"), [*_process_rows(found)])
    flows = [(flow.name, f"{amount(flow.bytes_per_second)}/s") for flow in found.network]
    yield Table(("NETWORK", "TRAFFIC"), flows)
    yield Table(("DISK", "NEED"), [*_disk_rows(found)])
    yield Table(("SATURATES, FIRST FIRST", "SHARE"), [(limit.name, percent(limit.share)) for limit in found.limits])
    yield _verdict(found)


def _load_line(load: SizeLoad) -> str:
    return (
        f"{written(load):,.0f} writes/s, {leases(load):,.0f} of them leases; the others of "
        f"{amount(load.object_bytes)}, each sent to {load.fan_out} watches; {placed(load):,.0f} pods/s placed"
    )


def _process_rows(found: SizeNeeds) -> Iterator[tuple[str, ...]]:
    for process in found.processes:
        cores = (f"{process.cores_each:.2f}", f"{process.cores:.1f}")
        yield (process.name, str(process.count), *cores, amount(process.memory_each), amount(process.memory))
    yield ("total", "", "", f"{found.cores:.1f}", "", amount(found.memory))


def _disk_rows(found: SizeNeeds) -> Iterator[tuple[str, str]]:
    yield "members of etcd", str(found.etcd_members) if found.etcd_members else "0, the embedded store"
    yield "size, each", amount(found.disk)
    yield "written, each", f"{amount(found.disk_bytes_per_second)}/s"
    yield "fsyncs, each, at most", f"{found.fsyncs_per_second:,.0f}/s"


def _verdict(found: SizeNeeds) -> str:
    first = found.limits[0]
    plural = "s" if found.machines > 1 else ""
    if not found.fits:
        return f"does not fit: {first.name} has {percent(first.share)} of its limit"
    return f"{found.api_processes} API processes on {found.machines} machine{plural}; saturates first: {first.name}"


def percent(share: float) -> str:
    """Format a share with three digits at most: `76 %`, `0.25 %`."""
    return f"{100 * share:.0f} %" if share >= 0.01 else f"{100 * share:.2f} %"


def amount(size: float) -> str:
    """Format bytes with three digits: `780 B`, `4.4 kB`, `1.85 GB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5 or unit == "GB":
            break
        size /= 1000
    return f"{size:.3g} {unit}" if size < 999.5 else f"{size:,.0f} {unit}"
