import { invalid } from '../../core/error.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { nearest } from '../../util/nearest.ts'
import type { JsonObject } from '../../util/untrusted-json.ts'
import {
  type PrintedDevcontainer,
  printDevcontainer,
} from '../../workbench/devcontainer/print-devcontainer.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Command } from '../command.ts'
import { table } from '../output/terminal.ts'

const VERBS = ['read'] as const

export const command: Command = {
  usage: 'agentpod devcontainer read [--merged] [--devcontainer NAME|PATH] [--json]',
  examples: [
    'agentpod devcontainer read                       what the file says, and what is honoured',
    'agentpod devcontainer read --merged              with the image’s label and the Features',
    'agentpod devcontainer read --devcontainer python one of several files',
    'agentpod devcontainer read --merged --json       as the official command prints it',
  ],
  options: {
    merged: { help: 'merge the metadata of the image and of Features' },
    devcontainer: {
      value: 'NAME|PATH',
      help: 'the devcontainer.json to use, by its folder in .devcontainer or its path',
    },
    ...JSON_OPTION,
  },
  verbs: VERBS,
  words: { min: 1, max: 1 },
  async run(ctx, parsed) {
    const [verb = ''] = parsed.words
    if (verb !== 'read') {
      const near = nearest(verb, VERBS)
      throw invalid(
        'words.unknown',
        `not a call: devcontainer ${showHidden(verb)}`,
        near ? `did you mean \`agentpod devcontainer ${near}\`?` : command.usage,
      )
    }
    const found = await printDevcontainer(ctx, {
      choice: parsed.value('devcontainer'),
      isMerged: parsed.has('merged'),
    })
    const { terminal } = ctx
    if (parsed.has('json')) terminal.out(JSON.stringify(found.printed))
    else for (const line of described(found, parsed.has('merged'))) terminal.out(line)
    for (const note of found.notes) terminal.say(terminal.dim(`note: ${showHidden(note)}`))
    return 0
  },
}

/** The properties one by one, then what becomes of those that reach beyond the container. */
function described({ file, printed, plan }: PrintedDevcontainer, isMerged: boolean): string[] {
  const { configFilePath: _, ...properties } = printed[
    isMerged ? 'mergedConfiguration' : 'configuration'
  ] as JsonObject
  const shown = Object.entries(properties).filter(([, value]) => value !== undefined)
  const features = plan.features.map(({ reference, digest }, index) => [
    `  ${index + 1}. ${reference.written}`,
    digest ?? 'a folder of this project',
  ])
  const items = plan.safety.map(({ property, verdict, reason, origin, evidence }) => [
    `  ${property}`,
    verdict === 'no-effect' ? 'no effect' : verdict === 'approval' ? 'needs approval' : verdict,
    reason,
    evidence.line === undefined ? origin : `${evidence.file}:${evidence.line}`,
  ])
  const section = (title: string, rows: string[][]): string[] =>
    rows.length === 0 ? [] : ['', title, ...table(rows)]
  return [
    file.file,
    ...table(shown.map(([key, value]) => [`  ${key}`, JSON.stringify(value)])),
    ...section('Features, in the order of installation', features),
    ...section('in a sandbox', items),
  ].map(showHidden)
}
