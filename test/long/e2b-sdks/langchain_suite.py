"""LangChain's E2B backend, driven without a model: what an agent's tools would call."""

from e2b import Sandbox
from langchain_e2b import E2BSandbox

with Sandbox.create(timeout=300) as sandbox:
    sandbox.files.make_dir("/workspace")
    backend = E2BSandbox(sandbox=sandbox)
    assert backend.id == sandbox.sandbox_id

    done = backend.execute("echo hello; exit 3")
    assert (done.output.strip(), done.exit_code) == ("hello", 3), done

    assert backend.write("/workspace/a.txt", "one\ntwo\n").error is None
    assert "one" in backend.read("/workspace/a.txt").file_data["content"]
    assert backend.edit("/workspace/a.txt", "two", "three").error is None
    assert backend.execute("cat /workspace/a.txt").output.strip() == "one\nthree"
    assert any(entry["path"].endswith("a.txt") for entry in backend.ls("/workspace").entries)
    assert len(backend.grep("three", path="/workspace").matches) == 1
    assert len(backend.glob("*.txt", path="/workspace").matches) == 1

    up = backend.upload_files([("/srv/new/b.bin", b"\x00\xff")])
    assert up[0].error is None, up
    down = backend.download_files(["/srv/new/b.bin", "/srv/none"])
    assert (down[0].content, down[1].error) == (b"\x00\xff", "file_not_found"), down
print("langchain: done")
