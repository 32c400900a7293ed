"""The rates of a fabric's cables, worded for a heading."""

from collections.abc import Sequence

from gradwire.traces.units import show_bps


def show_rates(hosts_bps: Sequence[int], inner_bps: Sequence[int]) -> str:
    """`100 Mb/s`, or `10 to 100 Mb/s, switch links 20 Mb/s to 1 Gb/s`; both ascend, at least one host rate.

    The rates of cables between switches are named only if they differ.
    """
    text = _span(hosts_bps)
    if inner_bps and tuple(inner_bps) != tuple(hosts_bps):
        text += f", switch links {_span(inner_bps)}"
    return text


def _span(rates_bps: Sequence[int]) -> str:
    low, high = show_bps(rates_bps[0]), show_bps(rates_bps[-1])
    if low == high:
        return high
    number, unit = low.split()
    return f"{number if high.endswith(f' {unit}') else low} to {high}"
