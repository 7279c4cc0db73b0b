"""The answer of a driver to GetInfo, where the node rejected it. Pure."""

from protocols.messages.calls import CallRecord
from protocols.wire.plugins import DRA_PLUGIN, GET_INFO
from supervisor.capture.parts import WELL, Fault


def wrong_info(record: CallRecord, driver: str) -> Fault:
    """Return the fault that plays a wrong type, name or endpoint; {} for an answer without one."""
    if (record.method, record.status) != (GET_INFO.name, WELL):
        return {}
    right = {"type": DRA_PLUGIN, "name": driver}
    wrong = {name: text for name, value in right.items() if (text := record.reply.get(name, "")) != value}
    endpoint = record.reply.get("endpoint", "")
    if endpoint and not endpoint.startswith("/"):
        wrong["endpoint"] = endpoint
    return {"info": wrong} if wrong else {}
