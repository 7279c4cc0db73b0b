"""Crash tests as text: scripts of orders and expectations that `nodeplane chaos script` plays on a running plane."""
