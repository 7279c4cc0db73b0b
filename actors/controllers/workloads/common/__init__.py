"""Pods, templates, owners and expectations shared by the controllers of workloads."""
