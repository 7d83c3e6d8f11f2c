"""Pages from disk in a real browser: what is missing, asks other hosts, or cannot be read."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FLAGS = [
    "--no-sandbox",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
]

LOOK = """() => {
  const colour = text => text.match(/[\\d.]+/g).map(Number);
  const luminance = rgb => {
    const [r, g, b] = rgb.slice(0, 3).map(v => v / 255).map(
      v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = node => {
    for (; node; node = node.parentElement) {
      const rgba = colour(getComputedStyle(node).backgroundColor);
      if (rgba.length < 4 || rgba[3] > 0) return rgba;
    }
    const canvas = document.body.appendChild(document.createElement("i"));
    canvas.style.backgroundColor = "Canvas";
    return colour(getComputedStyle(canvas).backgroundColor);
  };
  const paragraph = document.querySelector("main p, p, td") || document.body;
  const text = luminance(colour(getComputedStyle(paragraph).color));
  const paper = luminance(behind(paragraph));
  return {
    missing: [...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src),
    wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    contrast: (Math.max(text, paper) + 0.05) / (Math.min(text, paper) + 0.05),
    dark: paper < text,
  };
}"""


def problems(*pages: Path, width: int = 1200, dark: bool = False) -> dict[Path, list[str]]:
    """What is wrong with each of some pages from disk in a window of a width (pixels), light or
    dark, a line each. The test is skipped where there is no browser.

    A page must scroll vertically only, show all its images, have text of a contrast of at least
    4.5 in the colours asked for, no errors in the console, and ask no other host for anything.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the extra docs")
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("needs Chromium or Chrome on the path")
    seen: list[str] = []

    def answer(route: Any) -> None:
        if route.request.url.startswith(("file:", "data:", "blob:")):
            route.continue_()
        else:
            seen.append(f"asks for {route.request.url}")
            route.abort()

    found = {}
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=FLAGS)
        scheme = "dark" if dark else "light"
        tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        tab.route("**/*", answer)
        tab.on("requestfailed", lambda request: seen.append(f"not loaded: {request.url}"))
        tab.on("console", lambda m: seen.append(f"console: {m.text}") if m.type == "error" else 0)
        tab.on("pageerror", lambda error: seen.append(f"script: {error}"))
        for page in pages:
            tab.goto(page.resolve().as_uri(), wait_until="load")
            # Images further down load when they come into view.
            tab.evaluate("document.querySelectorAll('img').forEach(i => i.loading = 'eager')")
            tab.wait_for_function("[...document.images].every(i => i.complete)")
            found[page] = [*seen, *_looks_wrong(tab.evaluate(LOOK), width, dark)]
            seen.clear()
        browser.close()
    return found


def _looks_wrong(look: dict[str, Any], width: int, dark: bool) -> Iterator[str]:
    yield from (f"missing image: {image}" for image in look["missing"])
    if look["wide"] > 0:
        yield f"{look['wide']} pixels wider than the window of {width}"
    if look["contrast"] < 4.5:
        yield f"text of contrast {look['contrast']:.1f}"
    if look["dark"] != dark:
        yield "light text on dark" if look["dark"] else "dark text on light"
