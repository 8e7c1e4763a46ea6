# SPDX-License-Identifier: Apache-2.0
"""Documents -> an HTML page that people pass around, pictures, a summary in Markdown; what changed between two."""

from tflm_zephyr.page.arena_picture import arena_picture
from tflm_zephyr.page.arena_text import ArenaStep, ArenaText, arena_text
from tflm_zephyr.page.bundle import Bundle, bundle
from tflm_zephyr.page.comparison import comparison
from tflm_zephyr.page.drawing import Picture, png, svg
from tflm_zephyr.page.front_picture import front_picture
from tflm_zephyr.page.html import MADE_HERE, page
from tflm_zephyr.page.markdown import summary
from tflm_zephyr.page.views import key_figures
