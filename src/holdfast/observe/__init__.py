"""Events of a worker, and what listens to them: logs, metrics, traces and reports."""
