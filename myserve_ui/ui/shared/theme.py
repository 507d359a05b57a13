"""How the page looks: Gradio's base theme in the app's own colours, with fonts that come from this server."""

from __future__ import annotations

import gradio as gr
from gradio.themes.utils import colors, sizes

SANS = ("IBM Plex Sans", "ui-sans-serif", "system-ui", "sans-serif")
MONO = ("IBM Plex Mono", "ui-monospace", "monospace")

WEIGHTS = (400, 700)
"""The weights whose files hold the whole alphabet; the semibold that Gradio ships has only some letters."""


def make_theme() -> gr.themes.Base:
    """Quiet surfaces, one accent, thin lines; light and dark."""
    theme = gr.themes.Base(
        primary_hue=colors.teal,
        secondary_hue=colors.teal,
        neutral_hue=colors.slate,
        radius_size=sizes.radius_lg,
        text_size=sizes.text_md,
        spacing_size=sizes.spacing_md,
        font=[gr.themes.LocalFont(SANS[0], weights=WEIGHTS), *SANS[1:]],
        font_mono=[gr.themes.LocalFont(MONO[0], weights=WEIGHTS), *MONO[1:]],
    )
    return theme.set(**_surfaces(), **_accents())


def _surfaces() -> dict[str, str]:
    return {
        "body_text_color_subdued": "*neutral_500",
        "body_background_fill": "*neutral_50",
        "body_background_fill_dark": "*neutral_950",
        "background_fill_secondary_dark": "*neutral_900",
        "block_background_fill": "white",
        "block_background_fill_dark": "*neutral_900",
        "block_border_width": "1px",
        "block_shadow": "none",
        "block_shadow_dark": "none",
        "block_label_text_weight": "500",
        "block_title_text_weight": "500",
        "input_border_width": "1px",
        "input_border_color": "*neutral_200",
        "input_border_color_dark": "*neutral_700",
        "input_background_fill": "white",
        "input_background_fill_dark": "*neutral_950",
        "input_border_color_focus": "*primary_500",
        "input_border_color_focus_dark": "*primary_500",
    }


def _accents() -> dict[str, str]:
    return {
        "button_primary_background_fill": "*primary_600",
        "button_primary_background_fill_hover": "*primary_700",
        "button_primary_background_fill_dark": "*primary_600",
        "button_primary_text_color": "white",
        "color_accent_soft": "#e3f5f1",
        "color_accent_soft_dark": "*neutral_800",
        "border_color_accent_subdued": "*primary_200",
        "border_color_accent_subdued_dark": "*neutral_700",
        "slider_color": "*primary_600",
        "slider_color_dark": "*primary_500",
    }
