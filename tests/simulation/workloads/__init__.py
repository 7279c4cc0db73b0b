"""The workloads profile: a control plane, and users of the API whose controllers take several steps for one promise."""
