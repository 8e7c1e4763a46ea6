# SPDX-License-Identifier: Apache-2.0
"""Drives a port with the official MLPerf Tiny runner's own classes: RUNNER PORT DATA TESTS MODE.

Its scan of USB ports is left out, all else is the runner's: device, data set and script. A process of its own, as the
runner takes over stdout and writes to the folder that it runs in.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    """Run the script of the device's model, and leave its results in results.json."""
    runner, port, data, tests, mode = sys.argv[1:]
    sys.path.insert(0, runner)
    import yaml
    from datasets import DataSet
    from device_under_test import DUT
    from script import Script

    dut = DUT(port, 115200)
    dut._port._timeout = 120.0  # an emulator on a busy machine
    with dut:
        name, model, profile = dut.get_name(), dut.get_model(), dut.get_profile()
    with Path(tests).open() as file:
        script = Script(yaml.safe_load(file)[model])
    results = script.run(None, dut, DataSet(data, script.truth), mode)
    Path("results.json").write_text(
        json.dumps({"name": name, "model": model, "profile": profile, "results": results}, default=str)
    )


if __name__ == "__main__":
    main()
