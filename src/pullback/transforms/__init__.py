"""Transformations of programs, one file each; each is a trace or a function of jaxprs, and knows no
primitive but sums and broadcasts.
"""
