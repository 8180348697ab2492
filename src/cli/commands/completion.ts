import { invalid } from '../../core/error.ts'
import type { Command } from '../command.ts'

export const command: Command = {
  usage: 'agentpod completion bash | zsh | fish',
  examples: [
    'source <(agentpod completion bash)',
    'agentpod completion fish > ~/.config/fish/completions/agentpod.fish',
  ],
  options: {},
  words: { min: 1, max: 1 },
  async run({ terminal, commands }, parsed) {
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

/** Words that follow a sandbox's verbs are its names, asked of the running server. */
const NAMES = 'agentpod ls --json 2>/dev/null | sed -n \'s/^ *"name": "\\(.*\\)",$/\\1/p\''

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
    *) COMPREPLY=($(compgen -W "$verbs $(${NAMES})" -- "$word")) ;;
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
        ...options.map(
          (option) => `complete -c agentpod -n '__fish_seen_subcommand_from ${name}' -l ${option.slice(2)}`,
        ),
      ])
      .join('\n'),
}
