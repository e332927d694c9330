"""matplotlib without asking: open figures are shown as PNG, with their data where that is simple."""
import importlib.machinery
import io
import sys

CHART = "application/vnd.sandglass.chart+json"
BACKEND = "sandglass_figures"
POINTS_MAX = 2000


class Finder:
    """Makes pyplot use our backend from its import on, whichever code imports it and whichever backend was chosen
    before. The backend is created when matplotlib imports it, because matplotlib copies its contents then."""

    def __init__(self, show):
        self.show = show

    def find_spec(self, name, path=None, target=None):
        if name == "matplotlib.pyplot" and "matplotlib" in sys.modules:
            sys.modules["matplotlib"].use("module://" + BACKEND)
        return importlib.machinery.ModuleSpec(name, self) if name == BACKEND else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        from matplotlib.backends import backend_agg
        module.FigureCanvas = backend_agg.FigureCanvasAgg
        module.show = lambda *args, **kwargs: flush(self.show)


def install(show):
    """A backend of ours; `show` displays a bundle."""
    sys.meta_path.insert(0, Finder(show))


def is_figure(value):
    figure = sys.modules.get("matplotlib.figure")
    return figure is not None and isinstance(value, figure.Figure)


def png(figure):
    out = io.BytesIO()
    figure.savefig(out, format="png", bbox_inches="tight")
    return out.getvalue()


def extra(value):
    """What a figure offers beside its text."""
    if not is_figure(value):
        return {}
    found = {"image/png": png(value)}
    data = chart(value)
    if data is not None:
        found[CHART] = data
    return found


def flush(show):
    """Shows every open figure and closes it, so that the next cell starts clean."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return
    for number in pyplot.get_fignums():
        figure = pyplot.figure(number)
        if figure.get_axes():
            show(figure)
        pyplot.close(figure)


def _number(value):
    if type(value).__name__ == "datetime64":
        return str(sys.modules["numpy"].datetime_as_string(value, unit="auto"))
    value = value.item() if hasattr(value, "item") else value
    if value != value:
        return None
    return value if isinstance(value, (int, float, str)) else str(value)


def _points(xs, ys):
    return [[_number(x), _number(y)] for x, y in list(zip(xs, ys))[:POINTS_MAX]]


def _label(artist):
    """The label that the user has set; default labels of matplotlib begin with an underscore."""
    label = str(artist.get_label())
    return "" if label.startswith("_") else label


def _lines(axes):
    """Lines over the data: those at a fixed place of the axes are guides, and where some stand upright
    they are parts of another drawing."""
    lines = [line for line in axes.get_lines() if line.get_transform() == axes.transData]
    ends = [line.get_xdata() for line in lines if len(line.get_xdata()) == 2]
    if any(first == last for first, last in ends):
        return []
    return [{"label": _label(line), "points": _points(line.get_xdata(), line.get_ydata())} for line in lines]


def _names(axis, count):
    """Names of bars by position: the tick labels, if the user has set one for each bar."""
    ticks = list(zip(axis.get_majorticklocs(), axis.get_majorticklabels()))
    if len(ticks) != count or type(axis.get_major_locator()).__name__ not in ("FixedLocator", "StrCategoryLocator"):
        return _number
    return lambda place: min(ticks, key=lambda tick: abs(tick[0] - place))[1].get_text()


def _group(axes, group):
    bars = getattr(group, "patches", [])
    lies = getattr(group, "orientation", None) == "horizontal"
    name = _names(axes.yaxis if lies else axes.xaxis, len(bars))
    more = {"group": _label(group)} if _label(group) else {}
    for bar in bars:
        if lies:
            place, value = bar.get_y() + bar.get_height() / 2, bar.get_width()
        else:
            place, value = bar.get_x() + bar.get_width() / 2, bar.get_height()
        yield {"label": name(place), **more, "value": _number(value)}


def _bars(axes):
    return [bar for group in axes.containers for bar in _group(axes, group)][:POINTS_MAX]


def _scatters(axes):
    return [{"label": _label(group), "points": [[_number(x), _number(y)] for x, y in group.get_offsets()[:POINTS_MAX]]}
            for group in axes.collections if type(group).__name__ == "PathCollection"]


def _pie(axes):
    return [{"label": wedge.get_label(), "angle": _number(wedge.theta2 - wedge.theta1)}
            for wedge in axes.patches if type(wedge).__name__ == "Wedge"]


def chart(figure):
    """Data of a figure with one plain chart; None for everything else."""
    axes = figure.get_axes()
    if len(axes) != 1:
        return None
    (axes,) = axes
    try:
        found = {"pie": _pie(axes), "bar": _bars(axes), "line": _lines(axes), "scatter": _scatters(axes)}
    except Exception:
        return None
    kinds = [kind for kind, elements in found.items() if elements]
    if len(kinds) != 1:
        return None
    return {"type": kinds[0], "title": axes.get_title(), "xLabel": axes.get_xlabel(),
            "yLabel": axes.get_ylabel(), "elements": found[kinds[0]]}
