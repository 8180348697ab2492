"""E2B's Python SDK builds a template: steps, files, a start command, tags; and a sandbox runs it."""

import pathlib
import tempfile

from e2b import Sandbox, Template, wait_for_port

context = pathlib.Path(tempfile.mkdtemp())
(context / "page.txt").write_text("from the context")
template = (
    Template(file_context_path=str(context))
    .from_base_image()
    .set_envs({"SHADE": "green"})
    .set_workdir("/srv/pages")
    .copy("page.txt", "page.txt")
    .run_cmd("echo made with $SHADE > made.txt")
    .set_start_cmd("python3 -m http.server 8300", wait_for_port(8300))
)
logs = []
info = Template.build(template, "python-pages", tags=["v1"], on_build_logs=lambda one: logs.append(one.message))
assert any("RUN echo made with" in one for one in logs), logs
assert Template.exists("python-pages")
assert [one.tag for one in Template.get_tags(info.template_id)] == ["v1"]
sandbox = Sandbox.create("python-pages:v1")
try:
    said = sandbox.commands.run("pwd; cat made.txt; curl -s localhost:8300/page.txt").stdout
    assert said.split("\n")[:2] == ["/srv/pages", "made with green"], said
    assert "from the context" in said, said
finally:
    sandbox.kill()
print("templates: done")
