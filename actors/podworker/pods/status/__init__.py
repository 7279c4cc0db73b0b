"""Pod status: computed from runtime, probes and device health, and sent to the API."""
