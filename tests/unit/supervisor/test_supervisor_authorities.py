"""Imports of the forkserver read no certificate authorities of the system."""

import os
import ssl

import pytest

from supervisor.forkserver.server import without_system_authorities


def test_authorities_hidden_context_trusts_nobody() -> None:
    with without_system_authorities():
        context = ssl.create_default_context()
    assert context.cert_store_stats()["x509"] == 0


def test_authorities_hidden_restores_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/some/file")
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    with without_system_authorities():
        assert os.environ["SSL_CERT_FILE"] == os.devnull
    assert os.environ["SSL_CERT_FILE"] == "/some/file"
    assert "SSL_CERT_DIR" not in os.environ
