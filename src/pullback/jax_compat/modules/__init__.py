"""Modules of JAX that are not Pullback's under the same name: adapted here for the libraries that
use them.
"""
