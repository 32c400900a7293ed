"""The only place that chooses the controller library: os-ken, or Ryu, whose API os-ken continues.

Everything else imports from here.  Ryu is taken when os-ken is not installed, or when the environment
says `GRADWIRE_RYU_API=ryu`.
"""

import importlib
import os
import warnings
from importlib.util import find_spec
from typing import Any


def _library() -> str:
    wanted = os.environ.get("GRADWIRE_RYU_API", "")
    if wanted not in ("", "os_ken", "ryu"):
        raise ImportError(f"GRADWIRE_RYU_API must be os_ken or ryu, not {wanted!r}")
    return wanted or ("os_ken" if find_spec("os_ken") else "ryu")


def _module(name: str) -> Any:
    return importlib.import_module(f"{LIBRARY}.{name}")


LIBRARY = _library()
if LIBRARY == "ryu":
    warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
    # Ryu 4.34 asks eventlet for a constant that eventlet 0.31 took away; nothing of ours uses it.
    _wsgi: Any = importlib.import_module("eventlet.wsgi")
    if not hasattr(_wsgi, "ALREADY_HANDLED"):
        _wsgi.ALREADY_HANDLED = object()

hub = _module("lib.hub")
hub.patch()  # with Ryu: sockets and select of everything imported later yield to its green threads

cfg = _module("cfg")
ofp = _module("ofproto.ofproto_v1_3")
parser = _module("ofproto.ofproto_v1_3_parser")
ofp_event = _module("controller.ofp_event")
_app_manager = _module("base.app_manager")
_handler = _module("controller.handler")

controller_module = _module("controller.controller")
ofproto_parser = _module("ofproto.ofproto_parser")
Datapath = controller_module.Datapath

App = _app_manager.OSKenApp if LIBRARY == "os_ken" else _app_manager.RyuApp
AppManager = _app_manager.AppManager
OFP_HANDLER = f"{LIBRARY}.controller.ofp_handler"
set_ev_cls = _handler.set_ev_cls
HANDSHAKE_DISPATCHER = _handler.HANDSHAKE_DISPATCHER
CONFIG_DISPATCHER = _handler.CONFIG_DISPATCHER
MAIN_DISPATCHER = _handler.MAIN_DISPATCHER
DEAD_DISPATCHER = _handler.DEAD_DISPATCHER
