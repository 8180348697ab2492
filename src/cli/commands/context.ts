import { AgentPodError, invalid } from '../../core/error.ts'
import { parseName } from '../../core/id.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Command } from '../command.ts'
import { table } from '../output/terminal.ts'
import { parseUrl, readContexts, writeContexts } from '../server/contexts.ts'

const LOCAL = 'local'

export const command: Command = {
  usage: 'agentpod context [ls] | add NAME URL | use NAME | rm NAME',
  examples: [
    'agentpod key create --quiet | agentpod context add lab https://pods.example.org:8443',
    'agentpod context use lab',
    'agentpod context use local',
  ],
  options: JSON_OPTION,
  verbs: ['ls', 'add', 'use', 'rm'],
  words: { min: 0, max: 3 },
  async run({ home, terminal }, parsed) {
    const [verb = 'ls', name, url] = parsed.words
    const contexts = readContexts(home)
    const need = (): string => {
      if (name === undefined || (name !== LOCAL && !Object.hasOwn(contexts.named, name))) {
        throw new AgentPodError({
          code: 'not_found',
          reason: 'context.unknown',
          message: `no context is named ${name ?? ''}`,
          hint: '`agentpod context` lists them',
        })
      }
      return name
    }
    switch (verb) {
      case 'ls': {
        const current = contexts.current ?? LOCAL
        const rows = [
          [LOCAL, 'this machine'],
          ...Object.entries(contexts.named).map(([key, { url: at }]) => [key, at]),
        ]
        if (parsed.has('json'))
          terminal.out(
            JSON.stringify(rows.map(([key, at]) => ({ name: key, url: at, current: key === current }))),
          )
        else
          for (const line of table(
            rows.map(([key, at]) => [key === current ? '*' : ' ', key ?? '', at ?? '']),
          ))
            terminal.out(line)
        return 0
      }
      case 'add': {
        if (name === undefined || url === undefined)
          throw invalid('words.missing', 'missing arguments: a context needs a name and a URL', command.usage)
        if (name === LOCAL) throw invalid('context.name', 'the name local is reserved for this machine')
        const key = await readKey(terminal.stdin)
        writeContexts(home, {
          current: parseName(name),
          named: { ...contexts.named, [name]: { url: parseUrl(url), key } },
        })
        return done(`${name} is the current context`)
      }
      case 'use': {
        const chosen = need()
        writeContexts(home, { ...contexts, current: chosen === LOCAL ? undefined : chosen })
        return done(`${chosen} is the current context`)
      }
      case 'rm': {
        const { [need()]: _, ...named } = contexts.named
        writeContexts(home, { current: contexts.current === name ? undefined : contexts.current, named })
        return done(`removed ${name}`)
      }
      default:
        throw invalid('words.unknown', `not a call: context ${verb}`, command.usage)
    }

    function done(line: string): number {
      terminal.out(parsed.has('json') ? JSON.stringify({ ok: true }) : line)
      return 0
    }
  },
}

/**
 * SECURITY: CP-12. A key is read from standard input: an argument would be in the process list and the
 * shell's history.
 */
async function readKey(stdin: AsyncIterable<Buffer> & { isTTY?: boolean }): Promise<string> {
  if (stdin.isTTY)
    throw invalid(
      'context.key',
      'the key is read from standard input',
      'agentpod context add NAME URL < key-file',
    )
  let text = ''
  for await (const chunk of stdin) text += chunk
  const key = text.trim()
  if (/^\S{8,200}$/.test(key)) return key
  throw invalid('context.key', 'standard input holds no key')
}
