/** Steps that install a project's dependencies. */
import { commandSequence } from '../../../util/shell/shell-script.ts'
import type { Detected } from '../../detect/detect.ts'
import type { Finding } from '../../detect/finding.ts'
import type { SetupPlan } from '../plan.ts'
import type { PlanInput } from '../plan-input.ts'

export function planSetups(input: PlanInput, findings: readonly Finding[], detected: Detected): SetupPlan[] {
  const wish = input.file?.data.lifecycle.setup
  if (wish === false) return []
  const found = findings.flatMap((finding): SetupPlan[] => {
    const { setup } = finding.commands
    if (!setup) return []
    const { directory, inputs, stubs = {}, presets, variables = {}, label = finding.language } = finding
    const name = directory === '' ? label : `${label}/${directory}`
    return [
      {
        name: `dependencies/${name.toLowerCase().replaceAll(/[^a-z0-9._/-]/g, '-')}`.slice(
          0,
          LONGEST_STEP_NAME,
        ),
        directory,
        manager: finding.manager?.name ?? label,
        run: setup.run,
        evidence: setup.evidence,
        inputs,
        stubs,
        presets,
        variables,
      },
    ]
  })
  if (wish === undefined) return distinct(found)
  const run = wish.commands.join('\n')
  const inputs = wish.inputs ?? [
    ...new Set([...found.flatMap((one) => one.inputs), ...namedFiles(run, detected)]),
  ]
  return [
    {
      name: 'setup',
      directory: '',
      manager: 'your command',
      run: commandSequence(wish.commands),
      evidence: {
        file: input.file?.name ?? '',
        line: input.file?.lineOf(['lifecycle', 'setup']),
        said: '[lifecycle] setup',
      },
      inputs: [...inputs].sort(),
      stubs: Object.assign({}, ...found.map((one) => one.stubs)) as Record<string, string>,
      presets: [...new Set(found.flatMap((one) => one.presets))],
      variables: Object.assign({}, ...found.map((one) => one.variables)) as Record<string, string>,
    },
  ]
}

/** Leaves room for a suffix that makes it unique. */
const LONGEST_STEP_NAME = 90

/** Step names are unique. */
function distinct(setups: readonly SetupPlan[]): SetupPlan[] {
  const taken = new Set<string>()
  return setups.map((setup) => {
    let name = setup.name
    for (let count = 2; taken.has(name); count++) name = `${setup.name}-${count}`
    taken.add(name)
    return { ...setup, name }
  })
}

/** Files of the project that a command names, such as scripts, and the Makefile of `make`. */
function namedFiles(run: string, { tree }: Detected): string[] {
  const words = run.split(/[\s;&|()'"]+/).map((word) => word.replace(/^\.\//, ''))
  const tasks = words.includes('make') ? ['Makefile', 'GNUmakefile', 'makefile'] : []
  return [...words, ...tasks].filter((word) => tree.has(word))
}
