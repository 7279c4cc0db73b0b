"""Device plugins: who may register (names), one connection (plugin), all connections (plugins), what they report."""
