"""From a user's X and y to a model: validation, the run of a fit, and the one pipeline of all estimators."""
