"""Crash tests as text: scripts of orders and expectations, which `nodeplane chaos script` plays on a running plane."""
