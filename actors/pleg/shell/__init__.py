"""Asynchronous parts of pleg: ask the runtime, select the mode, publish and measure."""
