"""What has to be done to a pod's containers: who starts, who starts again, and when. Pure."""
