# SPDX-License-Identifier: Apache-2.0
"""What each command does: parsed arguments in, text and JSON out. Prints nothing; `cli` does."""

from __future__ import annotations

from tflm_zephyr.commands.boards import do_boards, do_ports
from tflm_zephyr.commands.device import do_build, do_flash, do_run
from tflm_zephyr.commands.done import Done, Say
from tflm_zephyr.commands.evaluate import do_evaluate
from tflm_zephyr.commands.fit import do_fit
from tflm_zephyr.commands.footprint import do_footprint
from tflm_zephyr.commands.generate import do_generate
from tflm_zephyr.commands.infer import do_infer
from tflm_zephyr.commands.plan import do_plan
from tflm_zephyr.commands.profile import do_profile
from tflm_zephyr.commands.size import do_size
from tflm_zephyr.commands.verify import do_verify

__all__ = [
    "Done",
    "Say",
    "do_boards",
    "do_build",
    "do_evaluate",
    "do_fit",
    "do_flash",
    "do_footprint",
    "do_generate",
    "do_infer",
    "do_plan",
    "do_ports",
    "do_profile",
    "do_run",
    "do_size",
    "do_verify",
]
