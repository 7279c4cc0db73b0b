"""Every refusal of the API, and how faults from below become one."""
