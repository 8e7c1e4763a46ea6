# SPDX-License-Identifier: Apache-2.0
"""Records its argv, directory and environment; prints what it is told to; builds an empty ELF, or fails.

FAKE_WEST_RECORD: a file that gets one JSON object a call. FAKE_WEST_OUTPUT: a file to print.
FAKE_WEST_EXIT: the exit code (0 when not set). FAKE_WEST_LINKS=0: the ELF is left as it is.
"""

import json
import os
import sys
from pathlib import Path

NAMES = ("ZEPHYR_BASE", "ZEPHYR_TOOLCHAIN_VARIANT", "GNUARMEMB_TOOLCHAIN_PATH")

with Path(os.environ["FAKE_WEST_RECORD"]).open("a", encoding="utf-8") as record:
    env = {name: os.environ[name] for name in NAMES if name in os.environ}
    record.write(json.dumps({"argv": sys.argv[1:], "cwd": str(Path.cwd()), "env": env}) + "\n")
code = int(os.environ.get("FAKE_WEST_EXIT", "0"))
if sys.argv[1] == "build" and code == 0 and os.environ.get("FAKE_WEST_LINKS") != "0":
    folder = Path(sys.argv[sys.argv.index("-d") + 1], "zephyr")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "zephyr.elf").write_bytes(b"")
if "FAKE_WEST_OUTPUT" in os.environ:
    sys.stdout.write(Path(os.environ["FAKE_WEST_OUTPUT"]).read_text(encoding="utf-8"))
sys.exit(code)
