/** Arguments of /bin/sh that start the user's login shell: bash if the sandbox has it. */
export const LOGIN_SHELL = [
  '-c',
  '[ ! -x /usr/local/share/agentpod/attach ] || /bin/sh /usr/local/share/agentpod/attach; if [ -x /bin/bash ]; then exec /bin/bash -l; else exec /bin/sh -l; fi',
] as const
