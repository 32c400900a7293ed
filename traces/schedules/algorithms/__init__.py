"""Generators of collectives beyond those that captures show: one operation each, op 0, ids from 0.

Beside each generator is its closed form in seconds, in the usual notation: p ranks, S = `nbytes` of a rank's
buffer, `alpha` seconds for each message, `beta` seconds per byte of a host's link; adding costs nothing.
"""
