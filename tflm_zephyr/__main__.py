# SPDX-License-Identifier: Apache-2.0
"""`tflm-zephyr` and `python -m tflm_zephyr`: the entry point; interrupts during imports end in one line."""

import signal
import sys


def main() -> int:
    """See cli.main."""
    try:
        from tflm_zephyr.cli import main

        return main.main()
    except KeyboardInterrupt:  # while modules are imported; the command line catches its own
        print("tflm-zephyr: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
