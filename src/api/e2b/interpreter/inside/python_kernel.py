"""The Python kernel: Jupyter's own, with startup.py run first."""

import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
# Cells import from their own directory, not from this one.
sys.path.pop(0)

from ipykernel.kernelapp import IPKernelApp  # noqa: E402
from traitlets.config import Config  # noqa: E402

config = Config()
config.IPKernelApp.exec_files = [os.path.join(here, "startup.py")]
IPKernelApp.launch_instance(config=config)
