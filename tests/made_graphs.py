"""Fabrics as networkx graphs: for the tests that check against its algorithms."""

import networkx as nx

from gradwire.planning.fabrics.fabric import Fabric


def graph(fabric: Fabric) -> "nx.Graph[str]":
    """Nodes and cables; cables between the same two nodes are one edge."""
    made: nx.Graph[str] = nx.Graph()
    made.add_nodes_from(fabric.hosts + fabric.switches)
    made.add_edges_from((link.a, link.b) for link in fabric.links)
    return made
