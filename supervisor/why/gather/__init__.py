"""Collect the evidence about one target from the API, the streams of the bus, the calls and the trace."""
