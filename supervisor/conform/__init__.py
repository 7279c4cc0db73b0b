"""`nodeplane conform -- COMMAND`: play kubelet for a device plugin and judge each of its behaviours."""
