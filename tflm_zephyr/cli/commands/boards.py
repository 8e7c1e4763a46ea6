# SPDX-License-Identifier: Apache-2.0
"""`boards` and `ports`: the described boards, and the serial ports of this host."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from tflm_zephyr.boards import known_boards, load_board
from tflm_zephyr.cli.commands.outcome import Done, Say
from tflm_zephyr.cli.report import boards as report


def do_boards(args: argparse.Namespace, say: Say) -> Done:
    """`boards`: those described under boards/."""
    boards = [load_board(name) for name in known_boards()]
    return Done(report.boards(boards), {"boards": [report.board_json(board) for board in boards]})


def do_ports(args: argparse.Namespace, say: Say) -> Done:
    """`ports`: this host's serial ports."""
    from tflm_zephyr.device.transport import find_ports

    ports = find_ports()
    return Done(report.ports(ports), {"ports": [asdict(port) for port in ports]})
