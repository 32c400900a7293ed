"""Ports that identify traffic without reading its bytes."""

STORE_PORT = 29500  # torch.distributed's default MASTER_PORT: where its processes meet (TCPStore)
