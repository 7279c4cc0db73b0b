"""Admit pods: plan their containers, choose devices, merge the plugins' responses."""
