"""The forms of a report: text, JSON, JUnit XML, HTML. Pure."""
