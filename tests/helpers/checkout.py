# SPDX-License-Identifier: Apache-2.0
"""The checkout, and the folder of stock models and inputs that may stand beside it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
