# SPDX-License-Identifier: Apache-2.0
"""The options of apps and libraries, each declared once; the app file; refusals of options that cannot be together."""

from tflm_zephyr.options import app_file
from tflm_zephyr.options.choices import (
    foreign_options,
    implied_backend,
    listed,
    options_of,
    refuse_exclusions,
    refuse_foreign,
    with_given,
)
from tflm_zephyr.options.option import Row, rows_of
from tflm_zephyr.options.table import (
    COMPILED,
    INTERPRETER,
    ONLINE,
    RENAMED,
    STATIC,
    AppConfig,
    CustomOperatorConfig,
    LibraryConfig,
    ModelConfig,
    PreallocatedConfig,
)
