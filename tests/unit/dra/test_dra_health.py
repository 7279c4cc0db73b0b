"""The pure part of health: what is true of a device after any history of streams, messages and silence."""

import asyncio
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.devices.dra import driver_registry
from actors.devices.dra.driver_registry import HealthMonitor
from actors.devices.dra.health import DeviceReport, HealthCache, HealthReport, Reports, known_state
from actors.devices.dra.health_file import HealthFile, HealthFileOptions
from protocols.lifecycle.devices.types import DeviceName
from protocols.messages.health import MAX_MESSAGE_BYTES, truncate_message
from protocols.wire.plugins import HEALTH_V1, NODE_HEALTH

GPU = DeviceName("gpu.example.com", "n1", "dev-0")


def said(health: str = "Healthy", message: str = "", timeout: float = 0.0, device: str = "dev-0") -> DeviceReport:
    return DeviceReport("n1", device, health, message, timeout)


def book(*messages: tuple[float, DeviceReport]) -> HealthCache:
    made = HealthCache(30.0)
    made.open_stream(GPU.driver, 1)
    for now, item in messages:
        made.apply(GPU.driver, 1, [item], now)
    return made


NESTED = b'{"gpu.example.com": {"unknown": ' + b"[" * 100_000
HUGE = (
    b'{"gpu.example.com": {"Devices": {"n1/dev-0": {"PoolName": "n1", "DeviceName": "dev-0", "Health": "Healthy",'
    b'"LastUpdated": "2026-01-01T00:00:00+00:00", "HealthCheckTimeout": 1' + b"0" * 400 + b"}}}}"
)


@pytest.mark.parametrize("raw", [b"", b"[]", NESTED, HUGE])
def test_damaged_file_leaves_devices_unknown(raw: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "health").write_bytes(raw)
    cache = book()
    HealthFile(
        HealthFileOptions(
            path=tmp_path / "health",
            health_cache=cache,
            names=set,
            clock=lambda: 0.0,
            timeout=30.0,
            reconnect_wait=30.0,
            log=logging.getLogger(),
        )
    ).load()
    assert cache.health(GPU, 0.0) == ("Unknown", "")
    assert "cannot restore device health" in caplog.text


def test_silence_makes_unknown_after_thirty_seconds_or_the_devices_own_time() -> None:
    assert book((0.0, said())).health(GPU, 29.9) == ("Healthy", "")
    assert book((0.0, said("Unhealthy", "ECC"))).health(GPU, 30.0) == ("Unknown", "")
    slow = book((0.0, said(timeout=120.0)))
    assert slow.health(GPU, 119.0) == ("Healthy", "")
    assert slow.deadline([GPU], 0.0) == 120.0
    assert slow.deadline([GPU], 120.0) is None


def test_report_that_comes_after_the_last_one_expired_is_a_change() -> None:
    made = book((0.0, said(timeout=5.0)))
    assert made.apply(GPU.driver, 1, [said(timeout=5.0)], 4.0) == []
    (change,) = made.apply(GPU.driver, 1, [said(timeout=5.0)], 9.0)
    assert (change.health, change.before, change.timeout) == ("Healthy", "Unknown", 5.0)
    (change,) = made.apply(GPU.driver, 1, [said("Unhealthy")], 10.0)
    assert (change.before, change.timeout) == ("Healthy", 0.0)


def test_a_device_that_is_left_out_keeps_its_state_until_then() -> None:
    left_out = book((0.0, said("Unhealthy", "hot")), (20.0, said(device="dev-1")))
    assert left_out.health(GPU, 29.0) == ("Unhealthy", "hot")
    assert left_out.health(GPU, 31.0) == ("Unknown", "")


def test_a_complete_list_makes_what_it_leaves_out_unknown_at_once() -> None:
    made = book((0.0, said()))
    complete: Reports = {}
    made.apply(GPU.driver, 1, [said(device="dev-1")], 1.0, complete)
    assert made.replace(GPU.driver, 1, complete) == [("n1", "dev-0")]
    assert made.health(GPU, 1.0) == ("Unknown", "")


def test_the_newest_living_instance_that_has_spoken_counts() -> None:
    made = book((0.0, said("Unhealthy", "old one")))
    made.open_stream(GPU.driver, 2)
    assert made.health(GPU, 1.0) == ("Unhealthy", "old one")
    made.apply(GPU.driver, 2, [said()], 1.0)
    made.apply(GPU.driver, 1, [said("Unhealthy", "still")], 2.0)
    assert made.health(GPU, 2.0) == ("Healthy", "")
    made.close_stream(GPU.driver, 2)
    assert made.health(GPU, 3.0) == ("Unhealthy", "still")
    made.close_stream(GPU.driver, 1)
    assert made.health(GPU, 3.0) == ("Unknown", "")


def test_what_an_earlier_life_heard_holds_until_it_expires_or_somebody_speaks() -> None:
    def recalled(until: float = 20.0) -> HealthCache:
        made = HealthCache(30.0)
        reports = {
            ("n1", "dev-0"): HealthReport("Unhealthy", "ECC", 12.0, 30.0),
            ("n1", "dev-1"): HealthReport("Odd", "", 9.0, 1.0),
        }
        made.restore(GPU.driver, reports, until)
        return made

    assert recalled().health(GPU, 11.9) == ("Unhealthy", "ECC")
    assert recalled().health(GPU, 12.0) == ("Unknown", "")
    assert recalled(until=5.0).health(GPU, 4.9) == ("Unhealthy", "ECC")
    assert recalled(until=5.0).health(GPU, 5.0) == ("Unknown", "")
    assert recalled(until=5.0).deadline([GPU], 1.0) == 5.0
    assert recalled().health(GPU._replace(device="dev-1"), 1.0) == ("Unknown", "")
    spoken = recalled()
    spoken.open_stream(GPU.driver, 1)
    assert spoken.health(GPU, 1.0) == ("Unhealthy", "ECC")
    spoken.apply(GPU.driver, 1, [said(device="dev-1")], 1.0)
    assert spoken.health(GPU, 1.0) == ("Unknown", "")
    ended = recalled()
    ended.open_stream(GPU.driver, 1)
    ended.close_stream(GPU.driver, 1)
    assert ended.health(GPU, 1.0) == ("Unknown", "")


def test_devices_long_silent_take_no_room() -> None:
    made = book((0.0, said()), (40.0, said(device="dev-1")))
    made.drop_expired(GPU.driver, 1, 40.0)
    assert len(made._streams[GPU.driver][1].reports) == 1


def test_words_of_the_future_are_unknown() -> None:
    assert [known_state(word) for word in ("Healthy", "Unhealthy", "Unknown", "Degraded", "")] == [
        "Healthy",
        "Unhealthy",
        "Unknown",
        "Unknown",
        "Unknown",
    ]


@given(st.text(max_size=2000))
def test_a_message_is_cut_between_characters(text: str) -> None:
    short = truncate_message(text)
    assert len(short.encode()) <= MAX_MESSAGE_BYTES
    if len(text.encode()) <= MAX_MESSAGE_BYTES:
        assert short == text
    else:
        assert short.endswith("...")
        assert text.startswith(short[:-3])


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["open", "close", "hear", "wait"]),
        st.integers(1, 3),
        st.sampled_from(["Healthy", "Unhealthy", "Odd"]),
        st.floats(0.0, 40.0),
    ),
    max_size=40,
)


@given(STEPS)
def test_the_newest_live_instances_last_report_is_published(
    steps: list[tuple[str, int, str, float]],
) -> None:
    made, now = HealthCache(30.0), 0.0
    living: dict[int, tuple[str, float] | None] = {}
    for word, number, health, pause in steps:
        if word == "open":
            made.open_stream(GPU.driver, number)
            living[number] = None
        elif word == "close" and number in living:
            made.close_stream(GPU.driver, number)
            del living[number]
        elif word == "hear" and number in living:
            made.apply(GPU.driver, number, [said(health)], now)
            living[number] = (health, now)
        elif word == "wait":
            now += pause
        spoken = [(key, last) for key, last in living.items() if last is not None]
        expected = "Unknown"
        if spoken:
            _, (last, at) = max(spoken)
            expected = known_state(last) if now < at + 30.0 else "Unknown"
        assert made.health(GPU, now)[0] == expected
        deadline = made.deadline([GPU], now)
        assert deadline is None or now < deadline <= now + 30.0


def health_message(service: str, count: int) -> Any:
    devices = [SimpleNamespace(pool_name="n1", device_name=f"dev-{at}") for at in range(count)]
    if service == NODE_HEALTH:
        return SimpleNamespace(
            devices=[SimpleNamespace(**vars(device), health="Healthy", message="") for device in devices]
        )
    report = {"health": 1, "message": "", "health_check_timeout_seconds": 0}
    return SimpleNamespace(devices=[SimpleNamespace(device=device, **report) for device in devices])


@pytest.mark.parametrize("service", [NODE_HEALTH, HEALTH_V1])
async def test_message_in_parts_makes_no_device_unknown_meanwhile(
    service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_registry, "READ_BATCH", 1)
    made = HealthCache(30.0)
    made.restore(GPU.driver, {("n1", f"dev-{at}"): HealthReport("Healthy", "", 99.0, 30.0) for at in range(3)}, 99.0)
    made.open_stream(GPU.driver, 1)
    options = SimpleNamespace(health_cache=made, clock=lambda: 0.0, changed=lambda driver: None)
    monitor = HealthMonitor(cast("Any", options))
    named = SimpleNamespace(health=service, driver=GPU.driver, number=1)
    instance = cast("Any", SimpleNamespace(options=named, record_health=lambda report: None))
    seen = set[str]()
    for left in (3, 3, 2):
        applying = asyncio.create_task(monitor._apply(instance, health_message(service, left)))
        while not applying.done():
            seen |= {made.health(GPU._replace(device=f"dev-{at}"), 1.0)[0] for at in range(left)}
            await asyncio.sleep(0)
        await applying
    assert seen == {"Healthy"}
    assert made.health(GPU._replace(device="dev-2"), 1.0)[0] == ("Unknown" if service == NODE_HEALTH else "Healthy")
