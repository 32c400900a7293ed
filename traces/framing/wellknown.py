"""Ports by which traffic is known whose bytes are not read."""

STORE_PORT = 29500  # torch.distributed's default MASTER_PORT: where its processes meet (TCPStore)
