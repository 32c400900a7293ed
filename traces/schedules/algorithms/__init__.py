"""Collectives as schedules: each function makes the sends of one operation, number 0, with ids from 0 on.

Beside each generator is its closed form in seconds, in the usual notation: p ranks, S = `nbytes` of a rank's
buffer, `alpha` seconds for each message, `beta` seconds per byte of a host's link; adding costs nothing.
"""
