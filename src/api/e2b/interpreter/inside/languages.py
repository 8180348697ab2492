"""The languages of the code interpreter: their kernels, and how a cell gets variables of the environment."""

import json
import re

from jupyter_client.kernelspec import KernelSpecManager

# The kernels of each language, by name; others are found by the language that they name.
KERNELS = {
    "python": ["python3"],
    "javascript": ["javascript"],
    "bash": ["bash"],
    "r": ["ir"],
    "java": ["java", "jjava"],
}
ALIASES = {"py": "python", "python3": "python", "js": "javascript", "sh": "bash", "shell": "bash"}
# What to add to a template for the kernels that are not part of this one.
HINTS = {
    "r": "apt install r-base-core r-cran-irkernel in a template that is built on this one",
    "java": "install a JDK and a kernel such as JJava in a template that is built on this one",
}


class Refused(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def variables_of(body):
    variables = body.get("env_vars") or {}
    if not isinstance(variables, dict):
        raise Refused(400, "env_vars is not an object")
    for name, value in variables.items():
        if not NAME.fullmatch(name):
            raise Refused(400, f"{name!r} is not the name of a variable")
        if not isinstance(value, str) or "\0" in value:
            raise Refused(400, f"the value of the variable {name} is not a text")
    return variables


def variables_code(language, variables):
    """Code that sets variables of the environment, and code that sets them back."""
    data = json.dumps(variables)
    if language == "python":
        name = "__agentpod_before"
        return (
            f"import os as __agentpod_os, json as __agentpod_json\n__agentpod_set = __agentpod_json.loads({data!r})\n"
            f"{name} = {{k: __agentpod_os.environ.get(k) for k in __agentpod_set}}\n"
            "__agentpod_os.environ.update(__agentpod_set)",
            f"for __agentpod_k, __agentpod_v in {name}.items():\n"
            "    __agentpod_os.environ.pop(__agentpod_k, None) if __agentpod_v is None"
            " else __agentpod_os.environ.__setitem__(__agentpod_k, __agentpod_v)\n"
            f"del {name}, __agentpod_set, __agentpod_os, __agentpod_json, __agentpod_k, __agentpod_v",
        )
    if language == "javascript":
        return (
            f"globalThis.__agentpodBefore = {{...process.env}}; Object.assign(process.env, {data}); undefined",
            f"for (const k of Object.keys({data})) {{ if (k in globalThis.__agentpodBefore)"
            " process.env[k] = globalThis.__agentpodBefore[k]; else delete process.env[k] };"
            " delete globalThis.__agentpodBefore; undefined",
        )
    if language == "bash":
        before = [f"__agentpod_{k}=${{{k}-}} __agentpod_had_{k}=${{{k}+x}}; export {k}={shell_word(v)}" for k, v in variables.items()]
        after = [
            f'if [ -n "$__agentpod_had_{k}" ]; then export {k}="$__agentpod_{k}"; else unset {k}; fi;'
            f" unset __agentpod_{k} __agentpod_had_{k}"
            for k in variables
        ]
        return "\n".join(before), "\n".join(after)
    if language == "r":
        # R has no pairs of surrogates, so characters are written as they are.
        pairs = ", ".join(f"`{k}` = {json.dumps(v, ensure_ascii=False)}" for k, v in variables.items())
        names = ", ".join(json.dumps(k) for k in variables)
        return (
            f".agentpod_before <- Sys.getenv(c({names}), unset = NA, names = TRUE); invisible(Sys.setenv({pairs}))",
            "for (.agentpod_k in names(.agentpod_before)) if (is.na(.agentpod_before[[.agentpod_k]]))"
            " Sys.unsetenv(.agentpod_k) else do.call(Sys.setenv, as.list(.agentpod_before[.agentpod_k]));"
            " rm(.agentpod_before, .agentpod_k)",
        )
    # Java cannot change its environment; E2B sets properties too.
    before = [f"System.setProperty({json.dumps(k)}, {json.dumps(v)});" for k, v in variables.items()]
    after = [f"System.clearProperty({json.dumps(k)});" for k in variables]
    return "\n".join(before), "\n".join(after)


def shell_word(text):
    return "'" + text.replace("'", "'\\''") + "'"


def kernel_of(language):
    """The name of the kernel that runs a language; None if no kernel does."""
    specs = KernelSpecManager().get_all_specs()
    for name in KERNELS[language]:
        if name in specs:
            return name
    found = (name for name, one in specs.items() if str(one["spec"].get("language")).lower() == language)
    return next(found, None)
