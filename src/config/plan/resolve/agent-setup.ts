/**
 * Install commands in files for other agents: run if nothing else installs dependencies, and mentioned in a
 * note otherwise.
 */
import type { Detected } from '../../detect/detect.ts'
import type { Finding } from '../../detect/finding.ts'
import { shellCommands } from '../../detect/instructions/shell-lines.ts'
import type { ClientPreset } from '../../presets/catalog.ts'
import { printable } from '../../toml/problem.ts'
import type { SetupPlan } from '../plan.ts'

interface Installer {
  /** The start of its commands. */
  readonly words: RegExp
  readonly preset?: ClientPreset
  /** Package managers that install the same. */
  readonly managers: readonly string[]
}

const PYTHON = ['pip', 'uv', 'poetry', 'pdm', 'pipenv']
const NODE = ['npm', 'pnpm', 'yarn', 'yarn-berry', 'bun']

const INSTALLERS: readonly Installer[] = [
  { words: /^(?:npm|pnpm|yarn|bun)\b/, preset: 'npm', managers: NODE },
  { words: /^(?:pip3?|python3?|uv|poetry|pdm|pipenv)\b/, preset: 'pip', managers: PYTHON },
  { words: /^cargo\b/, preset: 'cargo', managers: ['cargo'] },
  { words: /^go\b/, preset: 'go', managers: ['go'] },
  { words: /^(?:mvn|\.\/mvnw)\b/, preset: 'maven', managers: ['maven'] },
  { words: /^bundle\b/, managers: ['bundler'] },
  { words: /^composer\b/, managers: ['composer'] },
  { words: /^mix\b/, managers: ['mix'] },
  { words: /^dotnet\b/, managers: ['nuget'] },
]

/** Commands that only prepare others and install nothing. */
const BESIDE = /^(?:cd|echo|export|set|true|:)\b|--version$/

export interface AgentSetup {
  readonly setups: readonly SetupPlan[]
  readonly notes: readonly string[]
}

export function agentSetup({ commands, tree }: Detected, findings: readonly Finding[]): AgentSetup {
  const { setup } = commands
  if (!setup || !isForAgents(setup.evidence.file)) return { setups: [], notes: [] }
  const { run, evidence } = setup
  const words = shellCommands(run.replaceAll(/[()]/g, ' ')).filter((command) => !BESIDE.test(command))
  const installers = words.map((command) => INSTALLERS.find((one) => one.words.test(command)))
  // A script of the project needs the project, which is not there when the environment is built.
  if (!findings.some((one) => one.commands.setup) && installers.every((one) => one)) {
    const presets = new Set(installers.flatMap((one) => one?.preset ?? []))
    const named = run.split(/[\s;&|()'"]+/).map((word) => word.replace(/^\.\//, ''))
    const inputs = [...new Set(named.filter((word) => tree.has(word)))].sort()
    const name = 'dependencies/agent-file'
    return {
      setups: [
        {
          ...{ name, directory: '', manager: 'what it says', run, evidence, inputs },
          ...{ stubs: {}, presets: [...presets], variables: {} },
        },
      ],
      notes: [],
    }
  }
  const managers = new Set(findings.map(({ manager }) => manager?.name))
  const others = words.filter((_, index) => !installers[index]?.managers.some((name) => managers.has(name)))
  return {
    setups: [],
    notes: others.map(
      (command) =>
        `${evidence.file} installs with \`${printable(command, 60)}\`, which is not run because the project's own manifests are used; to run it, set [lifecycle] setup in agentpod.toml`,
    ),
  }
}

function isForAgents(file: string): boolean {
  return file.startsWith('.cursor/') || /copilot-setup-steps\.ya?ml$/.test(file)
}
