"""Quota arithmetic shared by admission and the quota controller, pure: what an object uses, and what a quota allows.

Source: pkg/quota/v1/evaluator/core and apiserver/pkg/admission/plugin/resourcequota of Kubernetes 1.36.
"""
