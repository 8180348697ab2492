"""smolagents' E2B executor in its basic flow: state, output, tools, errors, images and the final answer."""

from smolagents import tool
from smolagents.monitoring import AgentLogger, LogLevel
from smolagents.remote_executors import E2BExecutor


@tool
def double(number: int) -> int:
    """Doubles a number.

    Args:
        number: the number to double
    """
    return number * 2


executor = E2BExecutor(additional_imports=[], logger=AgentLogger(level=LogLevel.OFF))
try:
    executor.send_variables({"start": 20})
    executor.send_tools({"double": double})
    first = executor("total = double(start) + 2\nprint('computing')\ntotal")
    assert first.output == 42 or str(first.output) == "42", first
    assert "computing" in first.logs, first
    second = executor("total + 1")
    assert str(second.output) == "43", second
    try:
        executor("1 / 0")
        raise SystemExit("an error was not reported")
    except Exception as error:
        assert "ZeroDivisionError" in str(error), error
finally:
    executor.cleanup()
print("smolagents: done")
