"""One module per method of a paper, with one function each that reads from top to bottom like the paper's algorithm.

A method function takes `Data`, the method's own options and a `Run`, and returns `Fitted`.  The steps that methods
share (resolve what was left open, refine, solve on all rows, calibrate, freeze) are in `kompakt.methods.steps`.
"""
