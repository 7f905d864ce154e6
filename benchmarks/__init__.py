"""Measurements of kompakt: against papers, against peers, at scale. Not part of the package."""
