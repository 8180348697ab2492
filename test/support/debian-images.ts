/**
 * Images with real servers in them, made from Debian's packages: no registry of images is needed. They behave
 * as the official images of the same names do, as far as the tests use them.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { imageOfTars, type MadeImage } from './made-image.ts'
import { tarOf } from './tar-bytes.ts'

/** Why they cannot be made here, or false. */
export const NO_DEBIAN: string | false =
  process.getuid?.() !== 0
    ? 'making images from Debian’s packages needs root'
    : ['/usr/bin/mmdebstrap', '/usr/local/bin/mmdebstrap'].some((file) => existsSync(file))
      ? false
      : 'needs mmdebstrap (scripts/setup installs it)'

const SERVERS = [
  'postgresql-15',
  'redis-server',
  'python3-venv',
  'python3-pip',
  'git',
  'curl',
  'ca-certificates',
]
/** A Docker engine, and what images inside are made of. */
const ENGINE = ['docker.io', 'iptables', 'busybox-static', 'curl', 'postgresql-15', 'python3-psycopg2']
/** Large, and nothing here needs them: documentation, and the compiler of queries. */
const LEFT_OUT = ['/usr/share/doc/*', '/usr/share/man/*', '/usr/share/locale/*', '/usr/share/i18n/*']
const COMPILER = ['/usr/lib/*/libLLVM*', '/usr/lib/*/libz3*', '/usr/lib/*/libclang*']

export interface DebianImages {
  readonly postgres: MadeImage
  readonly redis: MadeImage
  readonly python: MadeImage
  /** The files that all of them have, as a tar file. */
  readonly root: string
}

export function debianImages(): DebianImages {
  const root = rootFile('root', SERVERS)
  const files = readFileSync(root)
  const image = (config: Readonly<Record<string, unknown>>): MadeImage =>
    imageOfTars([files, tarOf([ENTRY, PYTHON])], { compression: 'none', config: { Env: [PATH], ...config } })
  return {
    root,
    postgres: image({ Entrypoint: [`/${ENTRY.name}`], Cmd: ['postgres'] }),
    redis: image({ Cmd: ['redis-server', '--bind', '0.0.0.0', '--protected-mode', 'no', '--save', ''] }),
    python: image({ Cmd: ['python3'] }),
  }
}

/**
 * For sandboxes with a Docker engine inside: its programs, and those of PostgreSQL and Python, of which
 * images can be made inside.
 */
export function engineImage(): MadeImage {
  const root = rootFile('engine', ENGINE, ['--customize-hook=chroot "$1" useradd --create-home user'])
  return imageOfTars([readFileSync(root), tarOf([ENTRY])], {
    compression: 'none',
    config: { Env: [PATH], User: 'user' },
  })
}

const PATH = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/postgresql/15/bin'

/** What the entrypoint of the image `postgres` does: an account, a database, and the files of a directory. */
const ENTRY = {
  name: 'usr/local/bin/docker-entrypoint.sh',
  mode: 0o755,
  content: `#!/bin/sh
set -e
PGDATA=\${PGDATA:-/var/lib/postgresql/data}
export PGDATA
if [ "$(id -u)" = 0 ]; then
  mkdir -p "$PGDATA" /var/run/postgresql
  chown -R postgres "$PGDATA" /var/run/postgresql
  chmod 700 "$PGDATA"
  exec setpriv --reuid=postgres --regid=postgres --init-groups "$0" "$@"
fi
user=\${POSTGRES_USER:-postgres}
base=\${POSTGRES_DB:-$user}
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  [ -n "$POSTGRES_PASSWORD" ] || [ "$POSTGRES_HOST_AUTH_METHOD" = trust ]
  secret=$(mktemp)
  printf '%s\\n' "\${POSTGRES_PASSWORD:-none}" > "$secret"
  initdb --username="$user" --pwfile="$secret" --auth-local=trust --auth-host=scram-sha-256 > /dev/null
  rm "$secret"
  echo "host all all all \${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}" > "$PGDATA/rules"
  cat "$PGDATA/pg_hba.conf" >> "$PGDATA/rules"
  mv "$PGDATA/rules" "$PGDATA/pg_hba.conf"
  pg_ctl -s -w start -o "-c listen_addresses=''"
  [ "$base" = postgres ] || psql -q -U "$user" -d postgres -c "CREATE DATABASE \\"$base\\""
  for file in /docker-entrypoint-initdb.d/*.sql; do
    [ ! -f "$file" ] || psql -q -v ON_ERROR_STOP=1 -U "$user" -d "$base" -f "$file"
  done
  pg_ctl -s -w stop
fi
exec "$@" -c listen_addresses='*'
`,
} as const

const PYTHON = { name: 'usr/local/bin/python', type: 'symlink', target: '/usr/bin/python3' } as const

/** Made once for each run of the tests. */
function rootFile(name: string, packages: readonly string[], hooks: readonly string[] = []): string {
  const directory = join(tmpdir(), 'agentpod-debian-images')
  const file = join(directory, `${name}.tar`)
  if (existsSync(file)) return file
  mkdirSync(directory, { recursive: true })
  // The ending says what mmdebstrap makes.
  const draft = join(directory, `draft-${name}.tar`)
  const excludes = [...LEFT_OUT, ...COMPILER].map((path) => `--dpkgopt=path-exclude=${path}`)
  execFileSync(
    'mmdebstrap',
    [
      ...['--variant=minbase', '--quiet', `--include=${packages.join(',')}`, ...excludes],
      ...['--aptopt=APT::Install-Recommends "false"', '--dpkgopt=force-unsafe-io', '--mode=root'],
      // The cluster that the package makes is not used.
      '--customize-hook=rm -rf "$1/var/lib/postgresql/15" "$1/etc/postgresql/15"',
      // Other mirrors than those of this machine's apt would need an approval.
      '--customize-hook=sed -i /security/d "$1/etc/apt/sources.list"',
      ...hooks,
      ...['bookworm', draft],
    ],
    { stdio: ['ignore', 'ignore', 'inherit'], timeout: 900_000 },
  )
  renameSync(draft, file)
  return file
}
