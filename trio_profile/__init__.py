"""The instrument: studies, profilers, analysis, reports, the command line and the pytest plugin."""
