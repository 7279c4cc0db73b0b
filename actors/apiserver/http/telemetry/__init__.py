"""The audit log, and metrics of requests and watches under upstream's names."""
