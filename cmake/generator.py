# SPDX-License-Identifier: Apache-2.0
"""The command line of this repository's own package, whatever else is installed or on PYTHONPATH.

tflm_model() runs it. PYTHONPATH stays as it is: the toolchain of nRF Connect SDK finds Python's packages through it.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tflm_zephyr.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
