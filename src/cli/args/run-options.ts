/** The options of `run`; `shell`, `test` and `dev` have most of them. */
import {
  ENVIRONMENT_OPTIONS,
  JSON_OPTION,
  NETWORK_OPTIONS,
  PROCESS_OPTIONS,
  SANDBOX_OPTIONS,
} from './options.ts'

export const RUN_OPTIONS = {
  ...SANDBOX_OPTIONS,
  ...NETWORK_OPTIONS,
  learn: { help: 'afterwards, print the rules that would allow everything it tried to reach' },
  ...PROCESS_OPTIONS,
  keep: { help: 'keep the sandbox afterwards' },
  ...ENVIRONMENT_OPTIONS,
  'no-project': { help: 'start with an empty sandbox instead of a copy of this directory' },
  'no-terminal': { short: 'T', help: 'use pipes, even on a terminal' },
  ...JSON_OPTION,
} as const
