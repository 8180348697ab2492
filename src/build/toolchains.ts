/** Lists the tools of a `host` sandbox by running a probe in one: the machine's PATH may show others. */

import { createHash } from 'node:crypto'
import { AgentPodError } from '../core/error.ts'
import { LOCAL } from '../core/principal.ts'
import type { Engine } from '../engine/engine.ts'
import { LAYER_OWNER } from '../engine/snapshots/layers.ts'
import { runInside } from '../guest/run-command.ts'
import { BUILD_LABEL } from './build-sandbox.ts'

/** One installation of a tool, as a sandbox sees it. */
export interface HostTool {
  readonly name: string
  readonly version: string
  /** The directory that has to be on the PATH. */
  readonly directory: string
}

const PROBE_MS = 60_000
const MOST_BYTES = 256 * 1024
const MOST_TOOLS = 500

/**
 * Prints a line for each tool: name, version, directory. Looks at every directory of the PATH, and where
 * version managers keep tools that the PATH does not show.
 */
const PROBE = `
say() { # name, directory, version as the program itself says it
  v=$(printf '%s' "$3" | tr -d '\\r' | grep -oE '[0-9]+(\\.[0-9]+)+([-+._a-zA-Z0-9]*)?' | head -n 1)
  [ -n "$v" ] || v=$(printf '%s' "$3" | grep -oE '[0-9]+' | head -n 1)
  [ -n "$v" ] && printf '%s\\t%s\\t%s\\n' "$1" "$v" "$2"
}
look() { # a directory with programs
  local d=$1
  [ -x "$d/node" ] && say node "$d" "$("$d/node" --version 2>/dev/null)"
  [ -x "$d/npm" ] && [ -x "$d/node" ] && say npm "$d" "$(PATH="$d:$PATH" "$d/npm" --version 2>/dev/null)"
  if [ -x "$d/python3" ]; then
    # A stand-in of pyenv leads to the version that the user has chosen.
    if [ "$(head -c 2 "$d/python3")" = '#!' ]; then each "$PYENV_ROOT/versions/$("$d/python3" -c 'import platform; print(platform.python_version())' 2>/dev/null)/bin"
    else say python "$d" "$("$d/python3" --version 2>/dev/null)"; fi
  fi
  [ -x "$d/go" ] && say go "$d" "$("$d/go" version 2>/dev/null | sed 's/go version go//')"
  [ -x "$d/rustc" ] && [ "$d" != "$HOME/.cargo/bin" ] && case $d in */.cargo/bin) ;; *) say rust "$d" "$("$d/rustc" --version 2>/dev/null)" ;; esac
  [ -x "$d/javac" ] && say java "$d" "$("$d/javac" -version 2>&1)"
  [ -x "$d/mvn" ] && say maven "$d" "$("$d/mvn" --version 2>/dev/null | head -n 1)"
  [ -x "$d/gradle" ] && say gradle "$d" "$("$d/gradle" --version 2>/dev/null | grep -m 1 Gradle)"
  [ -x "$d/ruby" ] && say ruby "$d" "$("$d/ruby" --version 2>/dev/null | cut -d' ' -f2 | cut -dp -f1)"
  [ -x "$d/bundle" ] && say bundler "$d" "$("$d/bundle" --version 2>/dev/null)"
  [ -x "$d/php" ] && say php "$d" "$("$d/php" --version 2>/dev/null | head -n 1)"
  [ -x "$d/composer" ] && say composer "$d" "$("$d/composer" --version 2>/dev/null | head -n 1)"
  [ -x "$d/deno" ] && say deno "$d" "$("$d/deno" --version 2>/dev/null | head -n 1)"
  [ -x "$d/bun" ] && say bun "$d" "$("$d/bun" --version 2>/dev/null)"
  [ -x "$d/dotnet" ] && say dotnet "$d" "$("$d/dotnet" --version 2>/dev/null)"
  [ -x "$d/elixir" ] && say elixir "$d" "$("$d/elixir" --version 2>/dev/null | grep -m 1 Elixir)"
  for tool in gcc cmake meson ninja make pnpm yarn uv poetry pdm pipenv git psql redis-server bats shellcheck pkg-config \\
    swift stack ghc cabal crystal dart gleam nim dune opam julia gfortran fpm cobc just; do
    [ -x "$d/$tool" ] && say "$tool" "$d" "$("$d/$tool" --version 2>/dev/null | head -n 1)"
  done
  [ -x "$d/zig" ] && say zig "$d" "$("$d/zig" version 2>/dev/null)"
  [ -x "$d/perl" ] && say perl "$d" "$("$d/perl" -e 'print $^V' 2>/dev/null)"
  [ -x "$d/lua" ] && say lua "$d" "$("$d/lua" -v 2>&1)"
  [ -x "$d/Rscript" ] && say rscript "$d" "$("$d/Rscript" --version 2>&1)"
  # These begin with a virtual machine, and some with a download: that they are there is enough.
  for tool in sbt mill lein clojure rebar3 erl cpanm luarocks; do [ -x "$d/$tool" ] && say "$tool" "$d" 0; done
  [ -x "$d/postgres" ] && say postgres "$d" "$("$d/postgres" --version 2>/dev/null)"
  [ -x "$d/mariadbd" ] && say mariadb "$d" "$("$d/mariadbd" --version 2>/dev/null)"
}
seen=:
each() { case $seen in *":$1:"*) return ;; esac; seen="$seen$1:"; [ -d "$1" ] && look "$1"; }
IFS=:
for d in $PATH; do each "$d"; done
unset IFS
for d in "$PYENV_ROOT"/versions/*/bin "$RBENV_ROOT"/versions/*/bin "$RUSTUP_HOME"/toolchains/*/bin \\
  /usr/lib/jvm/*/bin /usr/lib/postgresql/*/bin /usr/sbin /opt/*/bin; do
  case $d in *'*'*) ;; *) each "$(readlink -f "$d")" ;; esac
done
IFS=:
for d in $PATH; do case $d in */.nvm/versions/*|*/mise/installs/*|*/.asdf/installs/*) for e in "\${d%/*/bin}"/*/bin; do each "$e"; done ;; esac; done; exit 0
`

/** Identifies the probe: results of another probe are not reused. */
const QUESTION = createHash('sha256').update(PROBE).digest('hex').slice(0, 16)

/** Stores the last result. */
export interface ToolListStore {
  get(): string | undefined
  set(text: string): void
}

/** The result is reused while `fingerprint` stays the same. */
export class Toolchains {
  readonly #engine: Engine
  readonly #fingerprint: () => string
  readonly #kept: ToolListStore
  #known: { readonly fingerprint: string; readonly tools: Promise<readonly HostTool[]> } | undefined

  constructor(o: {
    readonly engine: Engine
    readonly fingerprint: () => string
    readonly kept: ToolListStore
  }) {
    this.#engine = o.engine
    this.#fingerprint = o.fingerprint
    this.#kept = o.kept
  }

  ofHost(): Promise<readonly HostTool[]> {
    const fingerprint = this.#fingerprint()
    if (this.#known?.fingerprint === fingerprint) return this.#known.tools
    const tools = this.#ask(fingerprint)
    this.#known = { fingerprint, tools }
    tools.catch(() => {
      this.#known = undefined
    })
    return tools
  }

  /** A stored result of an earlier server is valid while the fingerprint is the same. */
  async #ask(fingerprint: string): Promise<readonly HostTool[]> {
    const kept = this.#kept.get()
    const asked = `${fingerprint} ${QUESTION}`
    if (kept?.startsWith(`${asked}\n`)) return parseTools(kept)
    const tools = await probe(this.#engine)
    const lines = tools.map(({ name, version, directory }) => [name, version, directory].join('\t'))
    this.#kept.set([asked, ...lines].join('\n'))
    return tools
  }
}

async function probe(engine: Engine): Promise<readonly HostTool[]> {
  const { id } = await engine.sandboxes.create(
    {
      owner: LAYER_OWNER,
      labels: { [BUILD_LABEL]: 'step' },
      lifetime: { ttlMs: 2 * PROBE_MS, whenOver: 'destroy', autoResume: false },
      network: { mode: 'off' },
    },
    { owner: LAYER_OWNER, isAdmin: false },
  )
  try {
    const parts: Buffer[] = []
    let size = 0
    const { exitCode, signal } = await runInside(
      engine.guests.connection(id, LOCAL).guest,
      { run: PROBE, user: 'user', workdir: '', variables: {}, timeoutMs: PROBE_MS },
      {
        signal: AbortSignal.timeout(PROBE_MS + 5000),
        onOutput(data) {
          size += data.length
          if (size <= MOST_BYTES) parts.push(data)
        },
      },
    )
    // An incomplete answer must not count as the machine's list of tools.
    if (exitCode !== 0 || signal || size > MOST_BYTES) throw unprobed()
    return parseTools(Buffer.concat(parts).toString('utf8'))
  } finally {
    await engine.sandboxes.destroy(id, LOCAL)
  }
}

function unprobed(): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'toolchains.unknown',
    message: 'could not list the tools of this machine',
    hint: 'try again, or choose another base: [environment] base = "debian"',
  })
}

const LINE = /^([a-z][a-z0-9-]{0,30})\t([0-9][0-9A-Za-z._+-]{0,60})\t(\/[^\t:\p{Cc}]{1,400})$/u

export function parseTools(text: string): HostTool[] {
  return text
    .split('\n')
    .flatMap((line) => {
      const [, name = '', version = '', directory = ''] = LINE.exec(line) ?? []
      return name === '' ? [] : [{ name, version, directory }]
    })
    .slice(0, MOST_TOOLS)
}
