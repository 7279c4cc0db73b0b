"""The answers of Allocate in a record, as a script's `answer` and `answers`. Pure."""

from collections.abc import Sequence
from typing import Any

from protocols.messages.calls import CallRecord

ALL, EACH = "$IDS", "$ID"
SPECS = {"container_path": "containerPath", "host_path": "hostPath", "read_only": "readOnly"}
"""Fields of mounts and devices by their names in the .proto file, and in a script."""
MOST_CONTAINERS = 16

Ids = tuple[str, ...]


def answers_of(records: Sequence[CallRecord]) -> dict[str, Any]:
    """Return the keys `answer` and `answers` of a script, from calls of Allocate that were answered."""
    records_by_ids = {_ids_of(record): record for record in records if record.status == "OK"}
    if not records_by_ids:
        return {}
    templates = {ids: _answer(record, ids, ALL if len(ids) else "") for ids, record in records_by_ids.items()}
    first = next(iter(templates.values()))
    if all(template == first for template in templates.values()):
        return {"answer": first}
    return {
        "answer": first,
        "answers": {",".join(ids): _answer(record, (), "") for ids, record in records_by_ids.items()},
    }


def _ids_of(record: CallRecord) -> Ids:
    wanted = record.request.get("container_requests") or [{}]
    return tuple(wanted[0].get("devices_ids", ()))


def _answer(record: CallRecord, ids: Ids, joined: str) -> dict[str, Any]:
    """Return an answer, with the ids replaced by what stands for them if there is a word for them `joined`."""
    containers = record.reply.get("container_responses", [])
    first = containers[0] if containers else {}
    answer: dict[str, Any] = {"envs": _texts(first.get("envs", {}), ids, joined)}
    answer |= {"annotations": _texts(first["annotations"], ids, joined)} if "annotations" in first else {}
    for name in ("mounts", "devices"):
        if name in first:
            answer[name] = _each([_spec(item) for item in first[name]], ids)
    if "cdi_devices" in first:
        answer["cdi"] = [
            item["name"] for item in _each([{"name": it.get("name", "")} for it in first["cdi_devices"]], ids)
        ]
    if len(containers) != 1:
        answer["containers"] = min(len(containers), MOST_CONTAINERS)
    return answer


def _texts(texts: dict[str, str], ids: Ids, joined: str) -> dict[str, str]:
    return {key: value.replace(",".join(ids), joined) if ids else value for key, value in texts.items()}


def _spec(item: dict[str, Any]) -> dict[str, Any]:
    return {SPECS.get(name, name): value for name, value in item.items()}


def _each(items: list[dict[str, Any]], ids: Ids) -> list[dict[str, Any]]:
    """Replace ids in texts by what stands for each of them; entries that become equal are one."""
    distinct: list[dict[str, Any]] = []
    for item in items:
        text = {name: _stand_in(value, ids) if isinstance(value, str) else value for name, value in item.items()}
        if text not in distinct:
            distinct.append(text)
    return distinct


def _stand_in(text: str, ids: Ids) -> str:
    for id in sorted(ids, key=len, reverse=True):
        if id in text:
            return text.replace(id, EACH)
    return text
