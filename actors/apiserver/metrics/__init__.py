"""Metrics of one API server process, under upstream's names, labels and buckets."""
