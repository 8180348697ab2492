/** Everything that a project's files say, from every detector. */
import type { Evidence } from '../evidence.ts'
import type { FileTree } from '../tree.ts'
import { ciTestCommand, detectAgentFiles } from './agent-files.ts'
import { detectC } from './c.ts'
import { detectDeno } from './deno.ts'
import { detectDotnet } from './dotnet.ts'
import { detectElixir } from './elixir.ts'
import type { Detector, Finding, FoundCommand, FoundPackage, FoundService, Verb } from './finding.ts'
import { detectGo } from './go.ts'
import { detectJava } from './java.ts'
import { detectNode } from './node.ts'
import { detectOthers, otherNotes } from './others.ts'
import { detectPhp } from './php.ts'
import { detectPython } from './python.ts'
import { detectRuby } from './ruby.ts'
import { detectRust } from './rust.ts'
import { detectServices, detectVariables } from './services.ts'
import { detectShell } from './shell.ts'
import { detectStatic } from './static.ts'
import { detectTasks } from './tasks.ts'

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
  /** For what no language has a command: from agents' files, task runners, CI. */
  readonly commands: Partial<Readonly<Record<Verb, FoundCommand>>>
  readonly notes: readonly string[]
}

/** Languages first; what only counts where there is none comes after. */
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
/** The first that finds something has found it all. */
const FALLBACKS: readonly Detector[] = [detectOthers, (tree) => [...detectStatic(tree), ...detectShell(tree)]]

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
    notes: [...agents.notes, ...otherNotes(tree, found.length > 0)],
  }
}

function depth(directory: string): number {
  return directory === '' ? 0 : directory.split('/').length
}
