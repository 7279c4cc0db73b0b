"""The YAML of a captured script."""

from datetime import UTC, datetime

from supervisor.capture.script import UNRECORDED, Captured


def script_text(found: Captured) -> str:
    """Return the script with comments that say what it holds."""
    import yaml  # slow to load, and few commands write it

    now = datetime.now(UTC).isoformat(timespec="seconds")
    lines = [f"# Captured at {now}; play it with: nodeplane plugin --script FILE", f"# {SECRETS}"]
    lines += [f"# {left_out(found.omitted)}"] if found.omitted else []
    body = yaml.safe_dump(found.script, sort_keys=False, width=120, default_flow_style=None, allow_unicode=True)
    return "\n".join(lines) + "\n" + body


SECRETS = "It holds the values of environment variables that Allocate answered; they may be secrets."


def left_out(omitted: int) -> str:
    """Say that the record is shorter than what was sent."""
    return (
        f"{omitted} devices or characters of long messages are not in the record; devices without a recorded id are"
        f" called {UNRECORDED}N"
    )
