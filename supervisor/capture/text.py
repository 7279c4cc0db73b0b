"""The YAML of a captured script."""

from datetime import UTC, datetime

from supervisor.capture.parts import Captured


def script_text(found: Captured) -> str:
    """Return the script with comments that say what it holds."""
    import yaml  # slow to load, and few commands write it

    now = datetime.now(UTC).isoformat(timespec="seconds")
    lines = [f"# Captured at {now}; play it with: nodeplane {found.command} --script FILE"]
    lines += [f"# {note}" for note in notes(found)]
    body = yaml.safe_dump(found.script, sort_keys=False, width=120, default_flow_style=None, allow_unicode=True)
    return "\n".join(lines) + "\n" + body


def notes(found: Captured) -> list[str]:
    """Return what a reader of the script has to know."""
    return [*found.notes, *([left_out(found)] if found.omitted else [])]


def left_out(found: Captured) -> str:
    """Say that the record is shorter than what was sent."""
    return f"{found.omitted} {found.omitted_are}"
