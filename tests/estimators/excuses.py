"""Estimator checks that an estimator may fail, with the reason: class name -> name of the check -> why.

An excuse that is no longer needed fails the suite (`xfail_strict`).
"""

EXCUSES: dict[str, dict[str, str]] = {}
