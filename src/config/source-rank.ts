/** The rank of a file of the project, by its name. */
import type { Rank } from './evidence.ts'
import { nameOf } from './file-tree.ts'

const NAMES: readonly (readonly [rank: Rank, name: RegExp])[] = [
  ['agentpod.toml', /^agentpod\.toml$/],
  ['lock', /^agentpod\.lock$/],
  ['devcontainer', /^\.?devcontainer\.json$/],
  ['compose file', /^(?:docker-)?compose(?:[.-][\w.-]{1,60})?\.ya?ml$/],
  ['agent file', /^copilot-setup-steps\.ya?ml$/],
  [
    'platform file',
    /^(?:\.gitpod\.yml|\.replit|replit\.nix|nixpacks\.(?:toml|json)|railpack\.json|railway\.(?:toml|json)|fly\.toml|e2b\.toml|devbox\.json|vercel\.json|app\.json|Procfile|(?:flake|shell|default)\.nix)$/,
  ],
  [
    'version file',
    /^(?:\.?mise\.toml|\.tool-versions|\.nvmrc|\.node-version|\.python-version|\.ruby-version|\.java-version|\.go-version|\.sdkmanrc|rust-toolchain(?:\.toml)?)$/,
  ],
]

const PATHS: readonly (readonly [rank: Rank, path: RegExp])[] = [
  ['agent file', /^\.cursor\//],
  [
    'version file',
    /(?:^|\/)(?:\.?mise|\.config\/mise)\/|(?:^|\/)(?:\.config\/)?mise-tasks\/|^\.config\/mise\.toml$/,
  ],
]

const CI: readonly RegExp[] = [/^\.github\/workflows\//, /^\.gitlab-ci\.yml$/]

/** `default` if there is no file, and `manifest` for a file of the project's languages. */
export function rankOfFile(file: string): Rank {
  if (file === '') return 'default'
  const name = nameOf(file)
  const named =
    NAMES.find(([, pattern]) => pattern.test(name)) ?? PATHS.find(([, pattern]) => pattern.test(file))
  if (named) return named[0]
  return CI.some((pattern) => pattern.test(file)) ? 'ci' : 'manifest'
}
