"""The user's transformations: argument handling only; what they do is in transforms/ and
control/.
"""
