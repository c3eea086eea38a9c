"""Settings of Sphinx for the site of the documents, which `make site` writes. It takes the Markdown as it is."""

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Elsewhere than in a workflow, links into the code lead to the checkout.
IS_WORKFLOW = "GITHUB_ACTIONS" in os.environ
REPOSITORY = "{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}".format_map(os.environ) if IS_WORKFLOW else ROOT.as_uri()
CODE = f"{REPOSITORY}/blob/main" if IS_WORKFLOW else REPOSITORY
REPORT = "docs/sample-report.html"

project = "The seckill lab"
root_doc = "README"
include_patterns = ["*.md", "docs/**.md", "locks/*.md", "locks/**/README.md"]
exclude_patterns = ["target", "report", ".git"]
extensions = ["myst_parser"]
# Anchors as forges make them.
myst_heading_anchors = 6
# The documents lead to each other by links, without a table of contents. Pygments knows no crontab and no `rust,no_run`.
suppress_warnings = ["toc.not_included", "misc.highlighting_failure"]
templates_path = ["."]
html_sidebars = {"**": ["about.html", "links.html", "searchbox.html"]}
html_extra_path = [str(ROOT / REPORT)]
html_theme_options = {"page_width": "1200px"}
html_show_copyright = False
html_copy_source = False


def lead(text, folder):
    """Makes the links of a document of this folder lead to pages of the site, or else to the code."""

    def to_page(link):
        words, path, anchor = link.groups()
        target = (folder / path).resolve()
        is_here = target.parent == ROOT or any(ROOT / folder in target.parents for folder in ("docs", "locks"))
        if "://" in path or is_here and target.suffix in (".md", ".png", ".svg"):
            return link[0]
        if target == ROOT / REPORT:
            return f'<a href="{os.path.relpath(ROOT, folder)}/{target.name}">{words}</a>'
        return f"[{words}]({CODE}/{target.relative_to(ROOT)}{anchor})"

    text = text.replace('"../../actions/', f'"{REPOSITORY}/actions/')
    return re.sub(r"\[([^]]*)\]\(([^)#\s]+)([^)\s]*)\)", to_page, text)


def setup(app):
    def read(_, name, source):
        source[0] = lead(source[0], (ROOT / name).parent)

    app.connect("source-read", read)
