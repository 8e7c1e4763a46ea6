# SPDX-License-Identifier: Apache-2.0
"""`python -m tflm_zephyr`."""

import sys

from tflm_zephyr.cli import main

sys.exit(main())
