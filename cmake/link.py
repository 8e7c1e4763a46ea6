# SPDX-License-Identifier: Apache-2.0
"""Runs a link of an application with models: BUILD_FOLDER MODEL... -- COMMAND...

Behind a link that overflows a memory stand the ways to run the models with which it would not have.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main(argv: list[str]) -> int:
    """The exit code of the command."""
    place = argv.index("--")
    folder, *models = argv[:place]
    done = subprocess.run(argv[place + 1 :], stderr=subprocess.PIPE, check=False)
    sys.stderr.buffer.write(done.stderr)
    sys.stderr.flush()
    if done.returncode and b"overflowed by" in done.stderr:
        generator = Path(__file__).with_name("generator.py")
        subprocess.run([sys.executable, str(generator), "fit", *models, "--into", folder], check=False)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
