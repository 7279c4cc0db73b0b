"""A client of the pod resources watch, as an agent would write it: follow.py joins and resumes, show.py prints."""
