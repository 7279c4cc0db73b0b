"""Kinds of resource.k8s.io: claims, classes, slices, patches and taint rules, in each version."""
