"""Makes numbers with intervals from arrays. All functions are pure.

Each module answers one question. One run: `within_run`, `change_points`, `verdicts`. A sweep:
`curve`. B against A: `compare`. More than two cells: `contrasts`. Parts of latency: `where`.
"""
