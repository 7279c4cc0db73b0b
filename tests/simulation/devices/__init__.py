"""The devices profile: a control plane, drivers that publish again and again, and users of their devices."""
