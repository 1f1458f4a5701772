"""Opens pages in Chromium through Playwright. The browser is the system's own: nothing is downloaded.

with chromium() as browser, opened(browser, path, width=390) as view:
    view.page      Playwright's page
    view.errors    what the console complained about
    view.requests  addresses that the page asked for, itself left out
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LONG_TASKS = """window.longTasks = [];
new PerformanceObserver((seen) => window.longTasks.push(...seen.getEntries().map(({ duration }) => duration)))
    .observe({ type: "longtask", buffered: true });"""
MISSING = "no browser: apt-get install chromium, or put chromium, chromium-browser or google-chrome on the PATH"


@dataclass
class View:
    """A page that is open in a browser."""

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def open(self, path: Path, *, width: int = 1280, height: int = 900, color_scheme: str = "light") -> None:
        """Open a file in this page, and forget the one before. A new page takes three times as long.

        width, height: of the window, in pixels.
        """
        self.page.goto("about:blank")
        self.page.mouse.move(0, 0)
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.emulate_media(media="null", color_scheme=color_scheme)
        self.errors.clear()
        self.requests.clear()
        self.page.goto(path.as_uri())
        self.requests.remove(path.as_uri())

    def scroll_through(self, *, unfold: bool = True) -> None:
        """Scroll to the end of the page, as a reader does, until every figure is drawn.

        A figure may move while an earlier one is drawn. So the page scrolls to it again until it is drawn itself.

        unfold: whether everything is unfolded first. Otherwise only figures in sight are drawn.
        """
        if unfold:
            folds = "document.querySelectorAll('details.folded-page')"
            self.page.evaluate(f"{folds}.forEach((fold) => {{ fold.open = true; }})")
        for number in range(self.page.locator(".drawing").count()):
            if not self.page.locator(".drawing").nth(number).is_visible():
                continue
            place = f"document.querySelectorAll('.drawing')[{number}]"
            self.wait(f"{place}.querySelector('.main-svg') || void {place}.scrollIntoView()")

    def wait(self, expression: str, seconds: float = 60) -> None:
        """Wait until a JavaScript expression is true. Raises TimeoutError if it does not become true.

        Playwright's own `wait_for_function` evaluates text in the page, which the page's policy forbids.
        """
        for _ in range(round(20 * seconds)):
            if self.page.evaluate(expression):
                return
            self.page.wait_for_timeout(50)
        raise TimeoutError(f"not true within {seconds} s: {expression}")

    def longest_task(self) -> float:
        """The milliseconds of the longest task so far: for so long the page did not react. 0 if none took 50."""
        return self.page.evaluate("Math.max(0, ...window.longTasks)")

    def findings(self) -> list[str]:
        """All findings of axe: rule, help, and the first elements."""
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(self.page).response["violations"]
        return [f"{one['id']}: {one['help']}: {[node['html'][:120] for node in one['nodes'][:3]]}" for one in found]


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser without a window. Playwright must be installed, and CHROMIUM must be a path."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--disable-gpu", "--disable-quic"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def window(browser: Any, **settings: Any) -> Iterator[View]:
    """An empty page. settings: of Playwright's context, such as has_touch=True."""
    context = browser.new_context(**settings)
    try:
        view = View(context.new_page())
        view.page.add_init_script(LONG_TASKS)
        view.page.on("console", lambda said: view.errors.append(said.text) if said.type == "error" else None)
        view.page.on("pageerror", lambda error: view.errors.append(str(error)))
        view.page.on("request", lambda request: view.requests.append(request.url))
        yield view
    finally:
        context.close()


@contextmanager
def opened(browser: Any, path: Path, **settings: Any) -> Iterator[View]:
    """A new page of a file. settings: as in `View.open`."""
    with window(browser) as view:
        view.open(path, **settings)
        yield view
