import { invalid } from '../../core/error.ts'
import type { Command } from '../command.ts'
import { completionWords, kindOf } from '../completion-words.ts'

export const command: Command = {
  usage: 'agentpod completion bash | zsh | fish',
  examples: [
    'source <(agentpod completion bash)',
    'agentpod completion fish > ~/.config/fish/completions/agentpod.fish',
  ],
  options: {},
  words: { min: 1, max: 2 },
  async run(ctx, parsed) {
    const { terminal, commands } = ctx
    if (parsed.word(0) === 'words') {
      for (const word of await completionWords(ctx, parsed.words[1] ?? '')) terminal.out(word)
      return 0
    }
    if (parsed.words.length > 1) throw invalid('words.extra', 'one shell, please', command.usage)
    const write = Object.hasOwn(SHELLS, parsed.word(0)) ? SHELLS[parsed.word(0)] : undefined
    if (!write) throw invalid('words.unknown', `shells are ${Object.keys(SHELLS).join(', ')}`, command.usage)
    const table = await Promise.all(
      Object.entries(commands).map(async ([name, entry]) => {
        const { options, verbs = [] } = (await entry.load()).command
        return {
          name,
          summary: entry.summary,
          options: Object.keys(options).map((option) => `--${option}`),
          verbs,
        }
      }),
    )
    terminal.out(write(table))
    return 0
  },
}

type Table = readonly {
  readonly name: string
  readonly summary: string
  readonly options: readonly string[]
  readonly verbs: readonly string[]
}[]

/** Completes agents, runs and sandboxes by asking when the key is pressed. */
const WORDS = 'agentpod completion words'

const SHELLS: Readonly<Record<string, (table: Table) => string>> = {
  bash: (table) => `_agentpod() {
  local word=\${COMP_WORDS[COMP_CWORD]} options= verbs=
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "${table.map(({ name }) => name).join(' ')}" -- "$word"))
    return
  fi
  case \${COMP_WORDS[1]} in
${table.map(({ name, options, verbs }) => `    ${name}) options="${options.join(' ')}"${verbs.length > 0 ? ` verbs="${verbs.join(' ')}"` : ''} ;;`).join('\n')}
  esac
  [ "$COMP_CWORD" -eq 2 ] || verbs=
  case $word in
    -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
    *) COMPREPLY=($(compgen -W "$verbs $(${WORDS} \${COMP_WORDS[1]} 2>/dev/null)" -- "$word")) ;;
  esac
}
complete -o default -F _agentpod agentpod`,
  zsh: (table) => `#compdef agentpod
_agentpod() {
  local -a commands
  commands=(
${table.map(({ name, summary }) => `    '${name}:${summary.replaceAll("'", '’')}'`).join('\n')}
  )
  if (( CURRENT == 2 )); then _describe command commands; return; fi
  compadd -- \${(f)"$(${WORDS} $words[2] 2>/dev/null)"}
  if (( CURRENT == 3 )); then
    case $words[2] in
${table
  .filter(({ verbs }) => verbs.length > 0)
  .map(({ name, verbs }) => `      ${name}) compadd ${verbs.join(' ')} ;;`)
  .join('\n')}
    esac
  fi
  case $words[2] in
${table.map(({ name, options }) => `    ${name}) _arguments '*:file:_files' ${options.map((option) => `'${option}'`).join(' ')} ;;`).join('\n')}
  esac
}
compdef _agentpod agentpod`,
  fish: (table) =>
    table
      .flatMap(({ name, summary, options, verbs }) => [
        `complete -c agentpod -n __fish_use_subcommand -a ${name} -d '${summary.replaceAll("'", '’')}'`,
        ...(verbs.length > 0
          ? [`complete -c agentpod -n '__fish_seen_subcommand_from ${name}' -a '${verbs.join(' ')}'`]
          : []),
        ...(kindOf(name) === undefined
          ? []
          : [
              `complete -c agentpod -n '__fish_seen_subcommand_from ${name}' -a '(${WORDS} ${name} 2>/dev/null)'`,
            ]),
        ...options.map(
          (option) => `complete -c agentpod -n '__fish_seen_subcommand_from ${name}' -l ${option.slice(2)}`,
        ),
      ])
      .join('\n'),
}
