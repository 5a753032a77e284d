"""Primitives that hold jaxprs: jit calls, conditionals, loops, functions with custom derivatives,
rematerialisation.
"""
