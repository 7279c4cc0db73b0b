"""Container Device Interface: files that say what a container needs to use a device, looked up by the device's name."""
