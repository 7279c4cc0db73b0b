"""The logger of aiohttp's servers."""

import logging

from aiohttp.http_exceptions import HttpProcessingError


def server_logger() -> logging.Logger:
    """Return aiohttp's own, silent about malformed requests, which get a response: they must not fill the log."""
    logger = logging.getLogger("aiohttp.server")
    logger.addFilter(_is_ours)
    return logger


def _is_ours(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))
