"""A fabric of many switches needs more open files than the usual limit."""

import subprocess
import sys

CODE = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 512))
from gradwire.emu.switch.agent import allow_open_files
allow_open_files()
print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_the_switch_agent_may_open_as_many_files_as_the_machine_allows() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout == "(512, 512)\n"
