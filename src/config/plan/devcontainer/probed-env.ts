/** What a user's shell sets: the answer of `userEnvProbe`, which a program inside the sandbox wrote. */
import type { UserEnvProbe } from '../../devcontainer/properties.ts'

const MOST_BYTES = 256 * 1024
const MOST_VARIABLES = 512
const LONGEST_VALUE = 32 * 1024
const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/

/** Variables of the shell itself, of the connection, and of AgentPod. */
const OWN = /^(?:_|SHLVL|PWD|OLDPWD|HOME|USER|LOGNAME|HOSTNAME|TERM|PS1|AGENTPOD_.*|.*_PROXY|.*_proxy)$/

/** Arguments of /bin/sh that print the environment of the user's shell between two marks. */
export function probeArguments(probe: Exclude<UserEnvProbe, 'none'>, mark: string): readonly string[] {
  const flags = { interactiveShell: '-ic', loginShell: '-lc', loginInteractiveShell: '-lic' }[probe]
  const print = `printf %s ${mark}; cat /proc/self/environ; printf %s ${mark}`
  const find = `shell=$( (getent passwd "$(id -un)" || grep "^$(id -un):" /etc/passwd) 2>/dev/null | cut -d: -f7)
case $shell in */bash|*/zsh|*/dash|*/sh|*/ksh|*/ash) ;; *) shell=/bin/sh; [ ! -x /bin/bash ] || shell=/bin/bash ;; esac
[ -x "$shell" ] || shell=/bin/sh
exec "$shell" ${flags} '${print}' </dev/null 2>/dev/null`
  return ['-c', find]
}

/** SECURITY: CF-02. The output is hostile: it is bounded, and only plain variables are taken. */
export function parseShellEnv(output: Buffer, mark: string): Record<string, string> {
  const from = output.indexOf(mark)
  const to = output.indexOf(mark, from + mark.length)
  if (from < 0 || to < 0 || to - from > MOST_BYTES) return {}
  const found: Record<string, string> = {}
  const entries = output
    .subarray(from + mark.length, to)
    .toString('utf8')
    .split('\0')
  for (const entry of entries.slice(0, MOST_VARIABLES)) {
    const at = entry.indexOf('=')
    const name = entry.slice(0, Math.max(at, 0))
    const value = entry.slice(at + 1)
    if (NAME.test(name) && !OWN.test(name) && value.length <= LONGEST_VALUE) found[name] = value
  }
  return found
}
