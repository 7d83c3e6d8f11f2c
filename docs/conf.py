"""The documentation site: `sphinx-build -W --keep-going docs site`, then open `site/index.html`.

It opens from disk: no page asks another host for a script, a style, a font or an image. With
`-D report=FILE`, as `python -m sweeps.report` calls it, its home page begins with FILE.
"""

import enum
import inspect
import json
import re
import runpy
import shutil
from importlib.metadata import version as installed
from importlib.util import find_spec
from pathlib import Path

from docutils import nodes

project, author = "jbt", "The jbt developers"
release = version = installed("judge-bt")
html_title = "jbt"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
exclude_patterns = ["README.md"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # notebooks are shown with the outputs that they hold

autodoc_member_order = "bysource"
default_role = "code"  # docstrings write `name`, as Markdown does

html_theme = "sphinx_book_theme"
html_theme_options = {"show_toc_level": 2}
html_context = {"default_mode": "auto"}  # dark where the reader's system is
html_css_files = ["site.css"]
html_use_index = html_domain_indices = False
html_show_sourcelink = False
# The summary is fetched from the page found, which browsers refuse to pages from disk.
html_show_search_summary = False

_package = find_spec("sphinx-mathjax-offline")
if not (_package and _package.submodule_search_locations):
    raise SystemExit("formulas need sphinx-mathjax-offline: pip install -e '.[docs]'")
# Of the package's 17 MB the one file that needs no fonts.
html_static_path = [
    "_static",
    f"{_package.submodule_search_locations[0]}/static/mathjax/tex-svg.js",
]
mathjax_path = "tex-svg.js"

# Sphinx reads no page outside of this folder.
DOCS = Path(__file__).parent
shutil.rmtree(DOCS / "notebooks", ignore_errors=True)
shutil.copytree(DOCS.parent / "notebooks", DOCS / "notebooks")

runpy.run_path(str(DOCS / "explorer.py"))["main"](
    ["page", "--out", str(DOCS / "_static" / "explorer.html")]
)

repository = ""
"""OWNER/NAME of a public repository on GitHub: each notebook's page then links to it in Colab."""
COLAB = (
    "\n\n[Open in Colab](https://colab.research.google.com/github/{repository}/blob/main/{page}.ipynb)"
    "; there, run `%pip install git+https://github.com/{repository}` first."
)

ENTRY = re.compile(r"^- \[(.*?)\]\((.*?)\)", re.MULTILINE)


def from_the_list_of_pages(app, page, source):
    """The home page is the checkout's README up to its section on GPUs. The sections of
    docs/README.md, the list of pages on code hosts, are the navigation. Links to and from
    notebooks lead to where the site has them."""
    if page == "index":
        for readme in (DOCS / "README.md", DOCS.parent / "README.md"):
            app.env.note_dependency(readme)
        home = readme.read_text().partition("\n## On a GPU\n")[0].replace("](docs/", "](")
        source[0] = (Path(app.config.report).read_text() if app.config.report else "") + home + "\n"
        for section in (DOCS / "README.md").read_text().split("\n## ")[1:]:
            caption = section.partition("\n")[0]
            pages = "\n".join(f"{title} <{path}>" for title, path in ENTRY.findall(section))
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{pages}\n```\n"
    source[0] = re.sub(r"(\(|<)(?:\.\./)+(notebooks/\w+\.ipynb)", r"\1/\2", source[0])
    if page.startswith("notebooks/"):
        source[0] = source[0].replace("(../docs/", "(/")
        if repository := app.config.repository:
            notebook = json.loads(source[0])
            notebook["cells"][0]["source"].append(COLAB.format(repository=repository, page=page))
            source[0] = json.dumps(notebook)


def as_restructured_text(app, what, name, obj, options, lines):
    """Docstrings are plain text: a bar is a bar, an indented block after a blank line is a formula
    or code, and a colon in an attribute's first line does not follow its type."""
    text = "\n".join(lines).replace("|", "\\|")
    if what == "attribute":
        text = "..\n\n" + text
    text = re.sub(r"(\n[^ \n][^\n]*\n)\n(?=    \S)", r"\1\n::\n\n", f"\n{text}")
    lines[:] = text.splitlines()


class Written(str):
    """An annotation that is shown as the source has it, without quotes."""

    __repr__ = str.__str__


def with_written_annotations(app, what, name, obj, options, signature, returned):
    """Signatures as the source has them: evaluated, their annotations are many times longer."""
    if not signature or isinstance(obj, enum.EnumType):
        return None
    written = inspect.signature(obj)
    parameters = [
        each.replace(annotation=Written(each.annotation))
        if isinstance(each.annotation, str)
        else each
        for each in written.parameters.values()
        if each.name not in ("self", "cls")
    ]
    result = written.return_annotation
    shown = str(written.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    return shown, result if isinstance(result, str) else returned


def with_public_names(app, doctree):
    """The evaluated annotations of fields name the private module of `jax.Array`."""
    for text in list(doctree.findall(nodes.Text)):
        if "jaxlib._jax." in text:
            text.parent.replace(text, nodes.Text(text.replace("jaxlib._jax.", "")))


def setup(app):
    app.add_config_value("report", "", "env")
    app.add_config_value("repository", "", "env")
    app.connect("source-read", from_the_list_of_pages)
    app.connect("autodoc-process-docstring", as_restructured_text, priority=400)
    app.connect("autodoc-process-signature", with_written_annotations)
    app.connect("doctree-read", with_public_names)
