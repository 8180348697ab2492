/**
 * The first lines of scripts that need git inside: an image may have none. Providers then put one into a
 * directory that is not on the PATH.
 */
export const FIND_GIT = `if ! command -v git >/dev/null 2>&1; then
  PATH=$PATH:/.agentpod/tools/bin
  command -v git >/dev/null 2>&1 || { echo 'there is no git in the sandbox' >&2; exit 1; }
fi
`
