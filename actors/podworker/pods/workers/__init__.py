"""One worker per pod: observes the runtime, decides what is next, acts and reports."""
