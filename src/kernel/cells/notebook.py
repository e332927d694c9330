"""What cells commonly use of IPython: its display functions, and get_ipython().

If IPython is installed, it is used, with our display functions. Otherwise these are the names that
cells expect. Libraries that check for IPython find that they do not run in it, which is correct.
"""
import importlib.machinery
import os
import sys

KINDS = {
    "HTML": "text/html", "Markdown": "text/markdown", "Latex": "text/latex", "SVG": "image/svg+xml",
    "JSON": "application/json", "Javascript": "application/javascript", "Pretty": "text/plain",
}
PICTURES = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif", b"RIFF": "image/webp"}


class Shown:
    """Data of a kind: itself, or what a file or an address holds."""
    mime = None

    def __init__(self, data=None, url=None, filename=None, **options):
        if isinstance(data, (str, os.PathLike)) and len(os.fspath(data)) < 4096 and os.path.isfile(data):
            filename = data
        if filename is not None:
            with open(filename, "rb") as file:
                data = file.read()
        elif url is not None:
            from urllib.request import urlopen
            data = urlopen(url).read()
        self.data = data.decode("utf-8", "replace") if self.mime and isinstance(data, bytes) else data

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {self.mime: self.data}

    def __repr__(self):
        return f"<IPython.core.display.{type(self).__name__} object>"


class Image(Shown):
    def _repr_mimebundle_(self, include=None, exclude=None):
        mime = next((mime for head, mime in PICTURES.items() if bytes(self.data[:4]).startswith(head)), "image/png")
        return {mime: bytes(self.data)}


def Math(data):
    return kinds["Latex"](f"$\\displaystyle {data.strip('$')}$")


def IFrame(src, width, height, **options):
    return kinds["HTML"](f'<iframe width="{width}" height="{height}" src="{src}"></iframe>')


kinds = {name: type(name, (Shown,), {"mime": mime}) for name, mime in KINDS.items()}


class Handle:
    """Of display(..., display_id=True); what was shown stays, so it is shown once more."""

    def __init__(self, display, ident):
        self.display = self.update = display
        self.display_id = ident


def clear_output(wait=False):
    """What was told cannot be taken back."""


class Shell:
    """get_ipython(): the magics as functions."""
    config = {}

    def __init__(self, kernel):
        self.kernel = kernel

    @property
    def user_ns(self):
        return self.kernel.namespace

    def run_line_magic(self, name, line="", _stack_depth=1):
        return self.kernel.magics.call("%", f"{name} {line}", True)

    def run_cell_magic(self, name, line, cell):
        return self.kernel.magics.cell(name, line, cell)

    def magic(self, line):
        return self.kernel.magics.call("%", line.lstrip("%"), True)

    def system(self, command):
        return self.kernel.magics.call("!", command, False)

    def getoutput(self, command, **options):
        return self.kernel.magics.call("!", command, True)


class Finder:
    """The modules of IPython: its own with our names in them, or ours."""

    def __init__(self, kernel):
        shell = Shell(kernel)

        def get_ipython():
            return shell if sys._getframe(1).f_globals is kernel.namespace else None

        display = {"display": kernel.display, "clear_output": clear_output}
        words = {**kinds, **display, "Image": Image, "Math": Math, "IFrame": IFrame, "DisplayHandle": Handle,
                 "update_display": kernel.display, "set_matplotlib_formats": lambda *names, **options: None}
        self.get_ipython = get_ipython
        self.adopted = {"IPython.core.getipython": {"get_ipython": get_ipython},
                        "IPython.core.display_functions": display}
        self.own = {"IPython": {"get_ipython": get_ipython, "version_info": (8, 5, 0), "__version__": "8.5.0"},
                    "IPython.display": words}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] != "IPython":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None and name in self.own:
            return importlib.machinery.ModuleSpec(name, self, is_package=name == "IPython")
        if spec is not None and name in self.adopted:
            run = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (run(module), module.__dict__.update(self.adopted[name]))
        return spec

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        module.__dict__.update(self.own[module.__name__])

    def forget(self):
        """So that IPython itself is found once it is installed."""
        for name in self.own:
            if getattr(sys.modules.get(name), "__loader__", None) is self:
                del sys.modules[name]
