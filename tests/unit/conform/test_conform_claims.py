"""What behaviours about claims say to odd answers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from supervisor.conform.behaviours.dra.claims import shares
from supervisor.conform.dra.objects import DriverClaim, Offered
from supervisor.conform.verdict import Failed


async def test_share_without_a_device_fails() -> None:
    @asynccontextmanager
    async def claim(devices: Any) -> AsyncIterator[DriverClaim]:
        yield DriverClaim("default", "uid", "c")

    offered = Offered("a.example", "pool", {"name": "0", "allowMultipleAllocations": True})
    driver = Mock(offered=lambda: [offered], claim=claim, prepared=AsyncMock(return_value=[]))
    with pytest.raises(Failed, match="claim c has one device, the answer has 0"):
        await shares.judge(driver)
