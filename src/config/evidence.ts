/** Why something was chosen. Every choice has evidence, and the rejected candidates are kept. */

/** The file and line that a value comes from. */
export interface Evidence {
  /** Relative to the project; empty if the value comes from no file. */
  readonly file: string
  readonly line?: number | undefined
  /** A short quote: `"node": ">=20"`. */
  readonly said: string
}

/** `compose.yaml:3`, or the file alone. */
export function placeText({ file, line }: Pick<Evidence, 'file' | 'line'>): string {
  return line === undefined ? file : `${file}:${line}`
}

/**
 * Kinds of sources, strongest first. One order for every language; `docs/guides/environments.md` documents
 * it.
 */
export const RANKS = [
  'flag',
  'agentpod.toml',
  /** The value that agentpod.lock pins. */
  'lock',
  /** `customizations.agentpod` in devcontainer.json. */
  'customizations',
  /** The rest of devcontainer.json. */
  'devcontainer',
  'compose file',
  /** .cursor/environment.json, copilot-setup-steps.yml. */
  'agent file',
  /** Files of other platforms: .gitpod.yml, .replit, nixpacks.toml, fly.toml, devbox.json, Procfile, ... */
  'platform file',
  /** .nvmrc, .python-version, rust-toolchain.toml, .tool-versions, mise.toml, go.mod's toolchain line. */
  'version file',
  /**
   * A version that the lockfile or manifest pins, or that the manifest states as the language version (`go
   * 1.24`, `<java.version>`).
   */
  'manifest',
  /** CI workflows. */
  'ci',
  /** Ranges and floors: engines, requires-python, rust-version, classifiers. */
  'range',
  'default',
] as const
export type Rank = (typeof RANKS)[number]

/** The names that messages use. */
export const RANK_WORDS: Readonly<Record<Rank, string>> = {
  flag: 'an option',
  'agentpod.toml': 'agentpod.toml',
  lock: 'agentpod.lock',
  customizations: 'customizations.agentpod',
  devcontainer: 'devcontainer.json',
  'compose file': 'a compose file',
  'agent file': 'a file for agents',
  'platform file': 'a platform file',
  'version file': 'a version file',
  manifest: 'a manifest',
  ci: 'CI',
  range: 'a range',
  default: 'a default',
}

/** A value that one source asks for. */
export interface Candidate {
  /** A version or range as its ecosystem writes it: `22`, `>=3.10,<4`, `1.24.1`, `lts/iron`. */
  readonly value: string
  readonly rank: Rank
  readonly evidence: Evidence
}

/** Whether the first rank goes before the second. */
export function goesBefore(first: Rank, second: Rank): boolean {
  return RANKS.indexOf(first) < RANKS.indexOf(second)
}

export interface Rejected {
  readonly value: string
  readonly evidence: Evidence
  readonly why: string
}

/** The chosen value. */
export interface Choice<T = string> {
  readonly value: T
  readonly rank: Rank
  readonly evidence: Evidence
  /** The other candidates, and why they were rejected. */
  readonly beat: readonly Rejected[]
  /** A remark for the user: a conflict, a guess. */
  readonly note?: string | undefined
}
