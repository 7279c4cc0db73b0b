"""`nodeplane calls`: the calls between the device manager and its plugins and drivers."""
