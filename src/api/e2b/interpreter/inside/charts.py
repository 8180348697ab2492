"""Turns figures of matplotlib and frames of pandas into plain data, in the form that E2B's SDKs read."""

import re

MOST_POINTS = 100_000
# Larger tables are shown, but do not come as data.
MOST_CELLS = 1_000_000


def data_of_frame(frame):
    """The columns by name. Dates become text, and what JSON lacks becomes None."""
    if frame.size > MOST_CELLS:
        return None
    # By position, because two columns may have one name.
    columns = ((name, frame.iloc[:, at]) for at, name in enumerate(frame.columns))
    return {str(name): [plain(value) for value in column.tolist()] for name, column in columns}


def plain(value):
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)


def install():
    """A box plot is only lines when it is drawn, so its numbers are kept when it is made."""
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    draw = Axes.bxp

    def bxp(self, bxpstats, *args, **kwargs):
        bxpstats = list(bxpstats)
        self._boxes = [*getattr(self, "_boxes", []), *bxpstats]
        return draw(self, bxpstats, *args, **kwargs)

    Axes.bxp = bxp
    # A method, because matplotlib removes the functions that are registered for figures.
    Figure._repr_e2b_chart_ = chart_of_figure


def chart_of_figure(figure):
    try:
        charts = [chart for chart in map(chart_of_axes, figure.axes) if chart is not None]
        if not charts:
            return None
        if len(charts) == 1:
            return charts[0]
        suptitle = figure.get_suptitle() if hasattr(figure, "get_suptitle") else ""
        return {"type": "superchart", "title": suptitle or None, "elements": charts}
    except Exception:
        # A figure that cannot be read is still shown as an image.
        return None


def chart_of_axes(axes):
    from matplotlib.collections import PathCollection
    from matplotlib.container import BarContainer
    from matplotlib.patches import Wedge

    title = axes.get_title() or None
    wedges = [patch for patch in axes.patches if isinstance(patch, Wedge)]
    if wedges:
        return {"type": "pie", "title": title, "elements": [pie_part(wedge) for wedge in wedges]}
    boxes = getattr(axes, "_boxes", None)
    if boxes:
        return {"type": "box_and_whisker", "title": title, **labels_of(axes), "elements": [box(at + 1, one) for at, one in enumerate(boxes)]}
    bars = [one for one in axes.containers if isinstance(one, BarContainer)]
    if bars:
        return {"type": "bar", "title": title, **labels_of(axes), "elements": bar_parts(axes, bars)}
    points = [one for one in axes.collections if isinstance(one, PathCollection)]
    lines = [line for line in axes.get_lines() if len(line.get_xdata()) > 0]
    if points and not lines:
        elements = [series(axes, one.get_label(), *zip(*one.get_offsets().tolist())) for one in points]
        return {"type": "scatter", "title": title, **point_fields(axes), "elements": elements}
    if lines:
        # Data before a conversion: dates and names as the program gave them.
        elements = [series(axes, one.get_label(), one.get_xdata(orig=False), one.get_ydata(orig=False)) for one in lines]
        return {"type": "line", "title": title, **point_fields(axes), "elements": elements}
    if not axes.has_data():
        return None
    return {"type": "unknown", "title": title, "elements": []}


def labels_of(axes):
    x, y = axes.get_xlabel(), axes.get_ylabel()
    return {"x_label": x or None, "y_label": y or None, "x_unit": unit_of(x), "y_unit": unit_of(y)}


def unit_of(label):
    """`time (s)` and `time [s]` name a unit."""
    found = re.search(r"\(([^()]+)\)\s*$|\[([^\[\]]+)\]\s*$", label or "")
    return (found.group(1) or found.group(2)) if found else None


def point_fields(axes):
    fields = labels_of(axes)
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        ticks = [(t, label.get_text()) for t, label in zip(axis.get_ticklocs(), axis.get_ticklabels())]
        seen = [(t, label) for t, label in ticks if low <= t <= high]
        fields[f"{name}_ticks"] = [value_on(axis, t) for t, _ in seen]
        fields[f"{name}_tick_labels"] = [label for _, label in seen]
        fields[f"{name}_scale"] = scale_of(axis)
    return fields


def converter_of(axis):
    converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
    return type(converter).__name__


def scale_of(axis):
    converter = converter_of(axis)
    if "Date" in converter:
        return "datetime"
    return "categorical" if "Category" in converter else axis.get_scale()


def value_on(axis, value):
    scale = scale_of(axis)
    if scale == "datetime":
        from matplotlib.dates import num2date

        return num2date(value).replace(tzinfo=None).isoformat()
    if scale == "categorical":
        names = {place: name for name, place in axis.units._mapping.items()}
        return names.get(value, plain(value))
    return plain(value)


def series(axes, label, xs, ys):
    pairs = list(zip(xs, ys))[:MOST_POINTS]
    points = [[value_on(axes.xaxis, x), value_on(axes.yaxis, y)] for x, y in pairs]
    return {"label": str(label), "points": points}


def pie_part(wedge):
    return {"label": wedge.get_label(), "angle": float(abs(wedge.theta2 - wedge.theta1)), "radius": float(wedge.r)}


def bar_parts(axes, containers):
    parts = []
    for container in containers:
        is_flat = getattr(container, "orientation", "vertical") == "horizontal"
        axis = axes.yaxis if is_flat else axes.xaxis
        names = {round(t, 6): label.get_text() for t, label in zip(axis.get_ticklocs(), axis.get_ticklabels())}
        for patch in container.patches:
            middle = patch.get_y() + patch.get_height() / 2 if is_flat else patch.get_x() + patch.get_width() / 2
            label = names.get(round(middle, 6)) or str(value_on(axis, middle))
            value = patch.get_width() if is_flat else patch.get_height()
            parts.append({"label": label, "group": container.get_label(), "value": plain(value)})
    return parts


def box(number, stats):
    return {
        "label": str(stats.get("label") or number),
        "min": plain(stats["whislo"]),
        "first_quartile": plain(stats["q1"]),
        "median": plain(stats["med"]),
        "third_quartile": plain(stats["q3"]),
        "max": plain(stats["whishi"]),
        "outliers": [plain(one) for one in stats.get("fliers", [])],
    }
