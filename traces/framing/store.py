"""PyTorch's TCPStore, where the processes of a job meet: told apart so that it is not taken for training.

Nothing of it is decoded: its port, and the side that listens there, are all that a capture is asked.
"""

from collections.abc import Sequence

from traces.framing.frames import Fit, Found
from traces.framing.wellknown import STORE_PORT
from traces.packets.streams import Connection


class Store:
    """Connections to the port of torch.distributed's rendezvous."""

    name = "torch-store"
    is_training = False

    def fit(self, connection: Connection) -> Fit | None:
        if connection.listener_port != STORE_PORT:
            return None
        return Fit(0.9, f"port {STORE_PORT}, where torch.distributed's processes meet")

    def read(self, connections: Sequence[Connection]) -> Found:  # noqa: ARG002
        return Found(())
