"""E2B's code interpreter for Python over every kernel."""

from e2b_code_interpreter import Sandbox

sandbox = Sandbox.create(request_timeout=600, timeout=300)
try:
    seen = []
    first = sandbox.run_code("x = 41\nprint('hi')\nx + 1", on_stdout=lambda one: seen.append(one.line))
    assert first.text == "42" and first.logs.stdout == ["hi\n"] and seen == ["hi\n"], first
    assert sandbox.run_code("x").text == "41"
    error = sandbox.run_code("1 / 0").error
    assert error.name == "ZeroDivisionError" and "division by zero" in error.traceback, error
    assert sandbox.run_code("import os; os.environ['SHADE']", envs={"SHADE": "green"}).text == "green"
    chart = sandbox.run_code("import matplotlib.pyplot as plt\nplt.bar(['a', 'b'], [1, 2])\nplt.show()").results[0]
    assert chart.png and chart.chart.type.value == "bar", chart.chart
    assert [(one.label, one.value) for one in chart.chart.elements] == [("a", 1), ("b", 2)]
    frame = sandbox.run_code("import pandas as pd\npd.DataFrame({'a': [1, 2]})").results[0]
    assert frame.data == {"a": [1, 2]} and "<table" in frame.html, frame
    script = sandbox.run_code("const v = 2; console.log('js'); v * 21", language="javascript")
    assert script.text == "42" and script.logs.stdout == ["js\n"], script
    assert sandbox.run_code("echo $((6 * 7))", language="bash").logs.stdout == ["42\n"]
    context = sandbox.create_code_context(cwd="/tmp")
    assert sandbox.run_code("import os; os.getcwd()", context=context).text == "/tmp"
    assert sandbox.run_code("'x' in globals()", context=context).text == "False"
    sandbox.remove_code_context(context)
    try:
        sandbox.run_code("1 + 1", language="r")
        raise SystemExit("a language without a kernel was not refused")
    except Exception as refused:
        assert "no kernel for r in this sandbox (apt install" in str(refused), refused
finally:
    sandbox.kill()
print("interpreter: done")
