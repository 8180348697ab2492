/** Why something was chosen. Nothing is taken without a place where it was said, and what it beat is kept. */

/** A place that said something. */
export interface Evidence {
  /** Relative to the project; empty for what no file said. */
  readonly file: string
  readonly line?: number | undefined
  /** What it said, short, as a person would quote it: `"node": ">=20"`. */
  readonly said: string
}

/** Kinds of places, most trusted first. One order for every language; `docs/guides/environments.md` publishes it. */
export const RANKS = [
  'flag',
  'agentpod.toml',
  /** The value that agentpod.lock pins. */
  'lock',
  /** .cursor/environment.json, copilot-setup-steps.yml. */
  'agent file',
  /** .nvmrc, .python-version, rust-toolchain.toml, .tool-versions, mise.toml, go.mod's toolchain line. */
  'version file',
  /** What the lockfile or the manifest pins exactly, or the language's own manifest states as its version (`go 1.24`, `<java.version>`). */
  'manifest',
  /** CI workflows. */
  'ci',
  /** Ranges and floors: engines, requires-python, rust-version, classifiers. */
  'range',
  'default',
] as const
export type Rank = (typeof RANKS)[number]

/** Something that a place wants. */
export interface Candidate {
  /** A version or range in the words of its ecosystem: `22`, `>=3.10,<4`, `1.24.1`, `lts/iron`. */
  readonly value: string
  readonly rank: Rank
  readonly evidence: Evidence
}

export interface Rejected {
  readonly value: string
  readonly evidence: Evidence
  readonly why: string
}

/** What came of it. */
export interface Choice<T = string> {
  readonly value: T
  readonly rank: Rank
  readonly evidence: Evidence
  /** What else was said, and why it lost. */
  readonly beat: readonly Rejected[]
  /** Something a person should know about the choice: a conflict, a guess. */
  readonly note?: string | undefined
}
