"""The record of calls between the device manager and its plugins and drivers."""
