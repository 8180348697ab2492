"""Runs in each Python kernel at its start: charts and tables also come as data."""


def _install():
    import sys

    from IPython import get_ipython
    from IPython.core.formatters import BaseFormatter
    from traitlets import ObjectName, Unicode

    sys.path.insert(0, "/opt/code-interpreter")
    import charts

    sys.path.pop(0)
    formatters = get_ipython().display_formatter.formatters

    class ChartFormatter(BaseFormatter):
        format_type = Unicode("e2b/chart")
        print_method = ObjectName("_repr_e2b_chart_")
        _return_type = dict

    class DataFormatter(BaseFormatter):
        format_type = Unicode("e2b/data")
        print_method = ObjectName("_repr_e2b_data_")
        _return_type = dict

    formatters["e2b/chart"] = ChartFormatter()
    formatters["e2b/data"] = DataFormatter()
    formatters["e2b/data"].for_type_by_name("pandas.core.frame", "DataFrame", charts.data_of_frame)
    formatters["e2b/data"].for_type_by_name("pandas", "DataFrame", charts.data_of_frame)
    charts.install()


_install()
del _install
