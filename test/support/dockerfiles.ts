/** The Dockerfiles in test/dockerfiles, and their images as lists of files. */
import { execFile } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { makeImage } from './made-image.ts'
import { busyboxFiles } from './tiny-images.ts'
import type { ToyRegistry } from './toy-registry.ts'
import { ROOT, type World } from './world.ts'

const run = promisify(execFile)
const DIRECTORY = join(ROOT, 'test', 'dockerfiles')

export interface DockerfileCase {
  readonly name: string
  readonly directory: string
  readonly file: string
  readonly target?: string | undefined
  readonly args: Readonly<Record<string, string>>
  readonly secrets: Readonly<Record<string, string>>
  /** Symbolic links of the context, by path, with their targets. */
  readonly links: Readonly<Record<string, string>>
  /** What Docker 20.10 lacks for it. */
  readonly noDocker?: string | undefined
  /** The files that it makes, where Docker cannot be asked. */
  readonly expected: readonly string[]
}

export interface ListedImage {
  readonly config: Readonly<Record<string, unknown>>
  /** Kind, mode, uid, gid and content, by path. */
  readonly files: Readonly<Record<string, readonly [string, string, number, number, string]>>
}

export function dockerfileCases(): DockerfileCase[] {
  return readdirSync(DIRECTORY, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => {
      const directory = join(DIRECTORY, name)
      const options = join(directory, 'build.json')
      const expected = join(directory, 'expected.txt')
      const asked = existsSync(options) ? JSON.parse(readFileSync(options, 'utf8')) : {}
      return {
        name,
        directory,
        args: {},
        secrets: {},
        links: {},
        ...asked,
        file: asked.file ?? 'Dockerfile',
        expected: existsSync(expected) ? readFileSync(expected, 'utf8').trimEnd().split('\n') : [],
      }
    })
}

/** The images that the Dockerfiles begin with. Returns their build arguments. */
export function putBases(registry: ToyRegistry): Record<string, string> {
  const base = [
    ...busyboxFiles(),
    { name: 'etc/', type: 'directory' as const },
    { name: 'etc/passwd', content: 'root:x:0:0::/root:/bin/sh\napp:x:1001:1002::/:/bin/sh\n' },
    { name: 'etc/group', content: 'root:x:0:\napp:x:1002:\nstaff:x:50:\n' },
    ...['root/', 'dev/', 'proc/', 'sys/', 'run/'].map((name) => ({ name, type: 'directory' as const })),
    { name: 'tmp/', type: 'directory' as const, mode: 0o1777 },
    { name: 'base.txt', content: 'base\n' },
    { name: 'base2.txt', content: 'base2\n' },
    { name: 'base.d/', type: 'directory' as const },
    { name: 'base.d/old', content: 'old\n' },
  ]
  const config = { Env: ['PATH=/bin', 'FROM_BASE=yes'], Cmd: ['/bin/sh'], Labels: { base: 'yes' } }
  const onbuild = { ...config, OnBuild: ['RUN echo built > /on-build', 'COPY one.txt /copied'] }
  return {
    BASE: registry.put('base', '1', makeImage({ layers: [base], config })),
    OTHER: registry.put(
      'other',
      '1',
      makeImage({ layers: [[{ name: 'other.txt', content: 'other\n' }]], config: {} }),
    ),
    ONBUILD: registry.put('onbuild', '1', makeImage({ layers: [base], config: onbuild })),
  }
}

function options(one: DockerfileCase, bases: Readonly<Record<string, string>>, scratch: string): string[] {
  const secrets = Object.entries(one.secrets).flatMap(([id, value]) => {
    const file = join(scratch, id)
    writeFileSync(file, value)
    return ['--secret', `id=${id},src=${file}`]
  })
  const context = join(scratch, 'context')
  cpSync(one.directory, context, { recursive: true })
  for (const [path, target] of Object.entries(one.links)) symlinkSync(target, join(context, path))
  return [
    ...Object.entries({ ...bases, ...one.args }).flatMap(([name, value]) => [
      '--build-arg',
      `${name}=${value}`,
    ]),
    ...secrets,
    ...(one.target === undefined ? [] : ['--target', one.target]),
    '-f',
    join(context, one.file),
    context,
  ]
}

export async function builtByUs(
  world: World,
  one: DockerfileCase,
  bases: Readonly<Record<string, string>>,
): Promise<ListedImage> {
  return await inScratch(async (scratch) => {
    const tag = `cases/${one.name}`
    await world.ok(['build', '-t', tag, ...options(one, bases, scratch)])
    await world.ok(['image', 'push', tag, `oci:${join(scratch, 'layout')}`])
    return listed(join(scratch, 'layout'))
  })
}

export async function builtByDocker(
  env: Readonly<Record<string, string>>,
  one: DockerfileCase,
  bases: Readonly<Record<string, string>>,
): Promise<ListedImage> {
  return await inScratch(async (scratch) => {
    const tag = `cases/${one.name}`
    const docker = async (...args: string[]): Promise<void> => {
      // Debian's own client has BuildKit's session built in.
      const program = existsSync('/usr/bin/docker') ? '/usr/bin/docker' : 'docker'
      await run(program, args, { env: { ...env, DOCKER_BUILDKIT: '1' }, maxBuffer: 64 * 1024 * 1024 })
    }
    await docker('build', '-q', '--network', 'none', '-t', tag, ...options(one, bases, scratch))
    await docker('save', '-o', join(scratch, 'image.tar'), tag)
    mkdirSync(join(scratch, 'image'))
    await run('tar', ['-xf', join(scratch, 'image.tar'), '-C', join(scratch, 'image')])
    return listed(join(scratch, 'image'))
  })
}

async function listed(directory: string): Promise<ListedImage> {
  const { stdout } = await run('python3', [join(DIRECTORY, 'list-image.py'), directory], {
    maxBuffer: 64 * 1024 * 1024,
  })
  return JSON.parse(stdout) as ListedImage
}

async function inScratch<T>(work: (directory: string) => Promise<T>): Promise<T> {
  const scratch = mkdtempSync(join(tmpdir(), 'agentpod-dockerfile-'))
  try {
    return await work(scratch)
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

/** Only what both builders decide: Docker adds fields of its own, and empty ones. */
export function comparable(image: ListedImage): ListedImage {
  const config = Object.entries(image.config).filter(
    ([name, value]) =>
      !['Image', 'Hostname', 'Domainname', 'ArgsEscaped'].includes(name) &&
      value !== null &&
      value !== '' &&
      value !== false &&
      !(typeof value === 'object' && Object.keys(value).length === 0),
  )
  return { config: Object.fromEntries(config), files: image.files }
}

/** As `expected.txt` writes it: path, kind, mode, owner, group, and the content of a short file. */
export function linesOf({ files }: ListedImage): string[] {
  return Object.entries(files).map(([path, [kind, mode, uid, gid, content]]) =>
    `${path} ${kind} ${mode} ${uid} ${gid} ${content.replace(/\n$/, '')}`.trimEnd(),
  )
}
