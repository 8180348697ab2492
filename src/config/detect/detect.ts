/** Runs every detector over a project's files. */
import type { Evidence } from '../evidence.ts'
import type { FileTree } from '../file-tree.ts'
import { detectC } from './c/detect.ts'
import { detectShellScripts } from './fallbacks/shell-scripts.ts'
import { detectSimpleLanguages, unsupportedLanguageNotes } from './fallbacks/simple-languages.ts'
import { detectStaticSite } from './fallbacks/static-site.ts'
import type { Detector, Finding, FoundCommand, FoundPackage, FoundService, Verb } from './finding.ts'
import { detectGo } from './go/detect.ts'
import { ciTestCommand, detectAgentFiles } from './instructions/agent-files.ts'
import { detectTasks } from './instructions/task-runners.ts'
import { detectJava } from './jvm/detect.ts'
import { detectNode } from './node/detect.ts'
import { detectPhp } from './php/detect.ts'
import { detectPython } from './python/detect.ts'
import { detectRust } from './rust/detect.ts'
import { detectServices, detectVariables } from './services/detect.ts'
import { detectDeno } from './small-languages/deno.ts'
import { detectDotnet } from './small-languages/dotnet.ts'
import { detectElixir } from './small-languages/elixir.ts'
import { detectRuby } from './small-languages/ruby.ts'

export interface Detected {
  readonly tree: FileTree
  /** Nearest to the root first. */
  readonly findings: readonly Finding[]
  readonly services: readonly FoundService[]
  readonly variables: readonly {
    readonly name: string
    readonly value: string
    readonly evidence: Evidence
  }[]
  readonly packages: readonly FoundPackage[]
  readonly ports: readonly { readonly port: number; readonly evidence: Evidence }[]
  /** Commands for verbs that no language covers: from agents' files, task runners, CI. */
  readonly commands: Partial<Readonly<Record<Verb, FoundCommand>>>
  readonly notes: readonly string[]
}

/** Detectors of languages. The fallbacks below run only if none of these finds anything. */
const LANGUAGES: readonly Detector[] = [
  detectNode,
  detectPython,
  detectGo,
  detectRust,
  detectJava,
  detectC,
  detectRuby,
  detectPhp,
  detectDeno,
  detectDotnet,
  detectElixir,
]
/** Only the first fallback that finds something counts. */
const FALLBACKS: readonly Detector[] = [
  detectSimpleLanguages,
  (tree) => [...detectStaticSite(tree), ...detectShellScripts(tree)],
]

export function detect(tree: FileTree): Detected {
  const found = LANGUAGES.flatMap((detector) => detector(tree))
  const findings =
    found.length > 0 ? found : (FALLBACKS.map((one) => one(tree)).find((all) => all.length > 0) ?? [])
  const agents = detectAgentFiles(tree)
  const test = ciTestCommand(tree)
  return {
    tree,
    findings: findings.toSorted((a, b) => depth(a.directory) - depth(b.directory)),
    services: detectServices(tree),
    variables: detectVariables(tree),
    packages: agents.packages,
    ports: agents.ports,
    commands: { ...(test && { test }), ...detectTasks(tree, ''), ...agents.commands },
    notes: [...agents.notes, ...unsupportedLanguageNotes(tree, found.length > 0)],
  }
}

function depth(directory: string): number {
  return directory === '' ? 0 : directory.split('/').length
}
