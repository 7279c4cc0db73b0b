"""Export the traces of pods to an OpenTelemetry receiver."""
