"""Kinds about the cluster itself: classes, certificates, API services, reviews."""
