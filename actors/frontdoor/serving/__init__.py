"""Public sockets and the gRPC servers behind them: connections, limits, errors, metrics."""
