# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium or Chrome of this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAMS = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
)
PATIENCE_MS = 240_000  # a machine may have much else to do


def program() -> str | None:
    """The path of a browser, None where there is none."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


@contextmanager
def browser() -> Iterator[Any]:
    """A browser that can reach no network."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        options = {"executable_path": program(), "timeout": PATIENCE_MS}
        found = playwright.chromium.launch(args=["--no-sandbox", "--disable-gpu"], **options)
        try:
            yield found
        finally:
            found.close()


class Opened:
    """A page in a browser, with its console's messages and its requests."""

    def __init__(self, found: Any, path: Path, *, width: int = 1200, scheme: str = "light") -> None:
        context = found.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
        context.set_default_timeout(PATIENCE_MS)
        self.page = context.new_page()
        self.said: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.said.append(f"dialog {dialog.message}"), dialog.dismiss()))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri(), timeout=PATIENCE_MS)

    def run(self, script: str, value: Any = None) -> Any:
        """The value of `script` in the page."""
        return self.page.evaluate(script, value)

    def faults(self) -> list[str]:
        """Accessibility faults that axe-core calls serious or critical."""
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(self.page).response["violations"]
        return [
            f"{fault['id']}: {fault['nodes'][0]['html'][:120]}: {fault['nodes'][0]['failureSummary']}"
            for fault in found
            if fault["impact"] in ("serious", "critical")
        ]
