"""`nodeplane check`: what this machine gives a plane, and what will not work on it."""

import argparse
import os

from supervisor.base.terminal import Table, print_json, show
from supervisor.machine.checks import FAILS, LIMITED, Finding, fails, findings
from supervisor.machine.facts import machine


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("check", help="what this machine gives a plane", allow_abbrev=False)
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    parser.set_defaults(run=check)


def check(args: argparse.Namespace) -> int:
    """Print a row per fact; return 1 if no plane can run here."""
    root = getattr(args, "root", "") or os.environ.get("NODEPLANE_ROOT", "")
    all_findings = findings(machine(root))
    if args.output == "json":
        print_json(all_findings)
    else:
        rows = [(finding.name, finding.state, finding.found) for finding in all_findings]
        show(Table(("CHECK", "STATE", "FOUND"), rows), *summary(all_findings))
    return 1 if fails(all_findings) else 0


def summary(found: list[Finding]) -> list[str]:
    """Return the effects, the worst first, or one line that there are none."""
    lines = [
        f"{finding.name}: {finding.effect}" for state in (FAILS, LIMITED) for finding in found if finding.state == state
    ]
    if not lines:
        return ["everything works here"]
    title = "no plane runs here:" if fails(found) else "a plane runs here, but:"
    return ["\n".join([title, *(f"  {line}" for line in lines)])]
